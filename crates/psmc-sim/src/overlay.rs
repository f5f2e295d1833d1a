//! Large networks and the messages of a protocol in them, in virtual time: thousands of nodes, each message hop by hop.
//!
//! Where [`World`](crate::World) has every byte of every connection, this has messages: how many bytes they have, who sends
//! them after which others, and how long their receivers work on them. Between them are lines with a rate, a delay and
//! the load of everybody else's traffic.
//!
//! | module | what it has |
//! |---|---|
//! | `lines` | nodes, lines, and the ways between nodes |
//! | `script` | which messages are sent, and after which others |
//! | `queue` | how long a packet waits for a line behind others |
//! | `play` | a script played on a network |

mod lines;
mod play;
#[cfg(test)]
mod tests;

pub use lines::{Line, Lines, NodeId};
pub use play::{Message, Script, StepId, play};
