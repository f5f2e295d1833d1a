//! Links, routers and hosts in virtual time.
//!
//! | module | what it has |
//! |---|---|
//! | [`link`] | one direction of a link: rate, delay, jitter, loss, queue; the emulator runs the same machine in real time |

pub mod link;
