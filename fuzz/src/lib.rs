//! What the fuzzers feed with bytes. `tests/corpus.rs` replays the corpora through the same modules, so that
//! they depend on nothing but the crates under test.
//!
//! Each function panics when its bytes break a promise of the parser, and is silent about bytes that are merely
//! wrong.
//!
//! Each module is a feature, if what it needs takes long to build: a target is built with those that it needs.

#[cfg(feature = "alerts")]
mod alerts;
mod engine;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "front")]
mod front;
#[cfg(feature = "heads")]
mod heads;
#[cfg(feature = "names")]
mod names;
mod raw;
#[cfg(feature = "said")]
mod said;
#[cfg(feature = "names")]
mod server;
mod wire;

#[cfg(feature = "alerts")]
pub use alerts::alert;
pub use engine::engine;
#[cfg(feature = "files")]
pub use files::{capture, config, scenario, trace};
#[cfg(feature = "front")]
pub use front::{front, preface};
#[cfg(feature = "heads")]
pub use heads::head;
#[cfg(feature = "names")]
pub use names::{message, routes, transfer, zone_file};
pub use raw::raw;
#[cfg(feature = "said")]
pub use said::{signal, socket};
#[cfg(feature = "names")]
pub use server::server;
pub use wire::{control, datagram, hop, relay};
