//! The agent that sheds load where it enters, not where it hurts.
//!
//! An overloaded server drops packets that have crowded out everybody else's on their way. Its agent tells routers what it
//! would drop anyway, and theirs drop it there: NetDraino (DRAIN, §§ 2.2 and 4), with rules that only the owner of a destination
//! can set, that end by themselves, and that are split over routers as demand shifts.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`], [`cli`] | the TOML file with all its checks, and the command line |
//! | [`class`] | traffic classes |
//! | [`message`], [`connection`] | what servers and routers say to each other, and how |
//! | [`router`] | who may have what dropped, and the rules in nftables |
//! | [`server`] | what is wanted of which router, and of BGP daemons |
//! | [`daemon`], [`status`] | the program, and what it tells about itself |
//!
//! `docs/SHEDDING.md` says how one is run.

pub mod class;
pub mod cli;
pub mod config;
pub mod connection;
pub mod daemon;
pub mod message;
pub mod router;
pub mod server;
pub mod status;

pub(crate) use psmc_service::error_chain;
