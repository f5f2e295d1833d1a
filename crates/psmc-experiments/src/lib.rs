//! `psmc-experiments`: what the lab is there for in this project, and nobody else needs.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | `dice` | chance, seeded |
//! | `experiment` | tables and figures of the documents that PSMC comes from, ours beside theirs |
//! | `load` | requests to a web server, as many ask it at once |
//! | `matrix` | one flow over two paths, beside what else could carry it |

pub mod cli;
mod dice;
mod experiment;
mod load;
mod matrix;
