//! The lab: any network on one machine.
//!
//! | module | what it has |
//! |---|---|
//! | [`scenario`] | the TOML file of a scenario, and all its checks |
//! | [`emulator`] | links between namespaces, in real time |
//! | [`accuracy`] | how exact those are on this machine |
//! | [`site`] | the configurations of `psmcd` at both ends of a tunnel |
//! | [`cli`] | the tool `psmc-lab` |
//! | [`report`] | results as tables, JSON and plots |
//! | [`results`] | what a run or a simulation of it has measured |

pub mod accuracy;
pub mod cli;
pub mod emulator;
pub mod report;
pub mod results;
pub mod scenario;
pub mod site;
