//! Links, routers and hosts in virtual time.
//!
//! | module | what it has |
//! |---|---|
//! | [`link`] | one direction of a link: rate, delay, jitter, loss, queue; the emulator runs the same machine in real time |
//! | [`profiler`] | what a router is like, inferred from what it does to packets |
//! | [`pulses`] | low-rate attacks on TCP: what they send, and what analysis says that they leave of a flow |
//! | [`replay`] | packets that have passed a device, beside what the model makes of them |
//! | [`router`] | a router: servers that its ports share, and queues before them |
//! | `world` | everything below together, and the time |
//! | `network` | hosts, links, routes, NATs and conditioners: how packets find their way |
//! | `transport` | TCP: smoltcp with loss recovery and congestion control around it |
//! | `site` | the engine of `psmc-core` on a host, with its sockets and connections |
//! | `traffic` | who sends what, and what is seen of it |
//! | [`overlay`] | apart from all that: thousands of nodes, and the messages of a protocol between them |
//! | [`crowd`] | apart as well: thousands of on–off sources before a few servers, and who drops some of their packets on purpose |
//! | [`farm`] | and this: servers that share their processors among requests of classes, and who decides which are next |
//!
//! [`World`] is what a user of this crate builds and runs.

pub mod crowd;
pub mod farm;
pub mod link;
pub mod overlay;
pub mod profiler;
pub mod pulses;
pub mod replay;
pub mod router;

mod agenda;
mod network;
mod packet;
mod site;
mod stack;
mod traffic;
mod transport;
mod world;

pub use network::{Conditioner, DroppedPacket, LinkEnd, LinkSetup, NatKind};
pub use site::{Identity, PathSetup, PeerSetup, SiteSetup};
pub use traffic::{Observation, Seen, TcpSetup, TrafficKind, TrafficSetup, WebModel};
pub use transport::CongestionControl;
pub use world::{HostId, LinkId, SiteId, TrafficId, World};
