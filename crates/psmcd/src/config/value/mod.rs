//! The values a configuration is made of. Each type holds only what is legal, and says what is wrong otherwise.
//!
//! The same parsers serve the file and the command line, so both give the same answer to the same mistake.

mod buffer;
mod choice;
mod class;
mod endpoint;
mod listen;
mod net;
mod number;
mod rate;
mod socket_path;
mod switch;

pub use buffer::{BufferFactor, BufferPackets, BufferTimeout};
pub use choice::{Congestion, Repair, Scheduler};
pub(super) use choice::{Encapsulation, Reorder};
pub use class::{ClassPriority, ClassWeight, Dscp, PortRange, Protocol};
pub use endpoint::{DnsName, Endpoint, Host};
pub use listen::Listen;
pub use net::{AllowedNet, BindAddress, TunnelAddress};
pub use number::{InnerMtu, Keepalive, LinkMtu, Port, Weight};
pub use psmc_toml::{InterfaceName, Name, ValueError};
pub use rate::Rate;
pub(crate) use socket_path::RUN_DIR;
pub use socket_path::SocketPath;
pub(super) use switch::Switch;
