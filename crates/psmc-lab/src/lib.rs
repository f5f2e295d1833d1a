//! The lab: any network on one machine.
//!
//! | module | what it has |
//! |---|---|
//! | [`scenario`] | the TOML file of a scenario, and all its checks |
//! | [`emulator`] | links between namespaces, in real time |
//! | [`accuracy`] | how exact those are on this machine |
//! | [`device`] | profiles of routers: their files, and how they are measured |
//! | [`site`] | the configurations of `psmcd` at both ends of a tunnel |
//! | [`cli`] | the tool `psmc-lab` |
//! | [`mod@bench`] | scenarios that programs write, run one after another, and what came of several runs |
//! | [`mod@faults`] | faults made on purpose, and what daemons bear |
//! | [`headers`] | what headers take of packets |
//! | [`run`] | a scenario in real time, with real programs |
//! | [`sim`] | a scenario in virtual time |
//! | [`traffic`] | traffic in real time: generators and sinks in namespaces |
//! | [`measure`] | what is taken down while traffic flows |
//! | [`checks`] | what must hold at the end, and whether it does |
//! | [`clean`] | what a lab leaves behind if it is killed, and how it is removed |
//! | [`results`] | what a run or a simulation of it has measured |
//! | [`report`] | results as tables, JSON and plots |

pub mod accuracy;
pub mod bench;
pub mod checks;
pub mod clean;
pub mod cli;
pub mod device;
pub mod emulator;
pub mod faults;
pub mod measure;
mod networks;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod sim;
pub mod site;
pub mod traffic;

pub(crate) use psmc_service::error_chain;

pub mod headers {
    //! What headers take of packets, in bytes, over IPv4.

    /// A full-size packet of an ordinary link, from the IP header on.
    pub const PACKET: u32 = 1500;

    /// What the tunnel puts before and behind a full-size inner packet: headers of IP and UDP and its own, timestamp, frame and tag
    /// (`docs/PROTOCOL.md`, 5.6).
    pub const TUNNEL: u32 = 67;

    /// What the tunnel puts around bytes of a connection that the sites end, which has no headers of its own inside (6.9 there).
    pub const STREAM: u32 = 69;

    /// Headers of IP, and of TCP with timestamps (RFC 7323).
    pub const TCP: u32 = 20 + 32;

    /// Headers of IP and UDP.
    pub const UDP: u32 = 20 + 8;
}
