//! Reads TOML files that people write, and says *everything* that is wrong with one: where, why, and what to do about it.
//!
//! A file passes three stages, of which this crate has the tools of the first: TOML to drafts, in which each value is
//! checked by itself; checks between the values; drafts to what the program needs, in which every value is legal.
//!
//! | type | what it is |
//! |---|---|
//! | [`Source`] | the text of a file; [`Source::check`] runs the stages |
//! | [`Dialect`] | what is particular to one kind of file: its examples, its limits, its secrets |
//! | [`Section`] | a table of the file, whose keys are read one by one; [`draft!`](draft) declares one with all that it can say |
//! | [`Kind`] | a kind of value that can stand in a file: how TOML writes one, and what makes it of a text, or refuses it with a [`ValueError`]; [`choice!`](choice) makes one of words |
//! | [`Complaint`], [`ConfigError`] | what is wrong, and how it is shown |

mod complaint;
mod keys;
mod section;
mod source;
mod value;

pub use complaint::{Complaint, ConfigError};
pub use keys::{KEY_FILE, PRIVATE_KEY, PUBLIC_KEY, read_key_file, read_token_file};
pub use section::{Section, joined, joined_len, kind_of, read, repeated};
pub use source::{Dialect, Source, describe, remedy_for};
pub use value::{
    FILE, Form, INTERFACE, InterfaceName, Kind, LISTEN, Listen, MAX_INTERFACE_LEN, METRICS_ADDRESS, NAME,
    Name, Port, RATE, RATE_REMEDY, RELAY_RUN_DIR, RUN_DIR, Rate, SOCKET, SWITCH, SocketPath, ValueError,
    bits_per_second, choose, host_address, nearest, number_and_unit, parse_net, rate_text, scaled,
    socket_path, whole, within,
};
