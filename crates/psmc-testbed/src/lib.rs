//! What tests, benchmarks, the demo and the lab set up and wait for: hosts and links of their own on one machine.
//!
//! | module | what it has |
//! |---|---|
//! | [`netns`] | network namespaces and the links between them |
//! | [`poll`] | waiting for what must come |
//! | [`programs`] | the programs of this workspace |
//! | [`stalls`] | whether the machine stands still |
//! | [`steadily`] | tests in real time, on machines that stand still or have no time left |

mod idle;
pub mod netns;
pub mod poll;
pub mod programs;
pub mod stalls;
pub mod steadily;
