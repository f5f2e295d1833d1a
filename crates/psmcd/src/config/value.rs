//! The values a configuration is made of. Each type holds only what is legal, and says what is wrong otherwise.
//!
//! The same parsers serve the file and the command line, so both give the same answer to the same mistake.

mod buffer;
mod choice;
mod class;
mod endpoint;
mod grants_file;
mod mss;
mod net;
mod number;
mod routes;

pub use buffer::{BufferFactor, BufferPackets, BufferTimeout};
pub(super) use choice::Reorder;
pub use choice::{Congestion, Encapsulation, Repair, Scheduler};
pub use class::{ClassPriority, ClassWeight, Dscp, PortRange, Protocol};
pub(super) use endpoint::RelayAddress;
pub use endpoint::{DnsName, Endpoint, Host};
pub(super) use grants_file::GrantsFile;
pub use mss::ClampMss;
pub(super) use net::InsideAddress;
pub use net::{AllowedNet, BindAddress, TunnelAddress};
pub use number::{InnerMtu, Keepalive, LinkMtu, Weight};
pub(super) use psmc_toml::Switch;
pub use psmc_toml::{InterfaceName, Listen, Name, Port, Rate, SocketPath, ValueError};
pub use routes::RoutePolicy;
