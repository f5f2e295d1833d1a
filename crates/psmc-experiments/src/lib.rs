//! `psmc-experiments`: what the lab is there for in this project, and nobody else needs.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | `experiment` | tables and figures of the documents that PSMC comes from, ours beside theirs |
//! | `matrix` | one flow over two paths, beside what else could carry it |

pub mod cli;
mod experiment;
mod matrix;
