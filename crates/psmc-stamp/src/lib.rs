//! Delay and loss to whoever speaks STAMP (RFC 8762, RFC 8972): a router of any vendor, or a host without PSMC.
//!
//! The packets are those of the crate `stamp-suite`: their layouts, extensions and HMAC. What is here are the sockets, the clocks,
//! and what is believed.
//!
//! | module | what it has |
//! |---|---|
//! | `reflector` | answers to those who measure |
//! | `sender` | a measurement that runs |
//! | `session` | what is made of the answers, without clock and sockets: `answer`, `clock`, `loss` |
//! | `key` | keys in files |

mod answer;
mod clock;
mod key;
mod loss;
mod reflector;
mod sender;
mod session;

pub use answer::{Answer, ClockError, Oddities, Oddity, OneWay};
pub use clock::Reading;
pub use key::{Key, KeyFileError};
pub use loss::{Counters, Losses};
pub use reflector::{Counts, Reflector, Refusal, Settings};
pub use sender::{Outcome, Sender, Target};
pub use session::{MAX_PATIENCE, MIN_INTERVAL, Session};

/// The port on which reflectors listen (RFC 8762 section 4.1).
pub const PORT: u16 = 862;
