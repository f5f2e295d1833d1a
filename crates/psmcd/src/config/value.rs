//! The values a configuration is made of: for each a [`Kind`](psmc_toml::Kind), which refuses what is not legal, and says
//! what is wrong with it.
//!
//! Values that the command line takes, too, are types with a `FromStr`, so both give the same answer to the same mistake.

mod choice;
mod class;
mod endpoint;
mod exclusion;
mod net;
mod number;
mod portal;
mod quota;

pub(super) use choice::{CLAMP_MSS, PRIORITY, REPAIR, Reorder, Unresponsive, clamp_mss_in_words};
pub use choice::{Congestion, DIRECTION, RoutePolicy, SCHEDULER, TIER, Tcp, Transport};
pub(super) use class::{ASSURED, BURST, CLASS_WEIGHT, CONDITIONER, DEFAULT_BURST, DSCP, PORTS, PROTOCOL};
pub use endpoint::{DnsName, Endpoint, Host};
pub(super) use endpoint::{ENDPOINT, RELAY_ADDRESS};
pub use exclusion::Exclusion;
pub(super) use exclusion::{EXCLUSION, NAME_SERVER};
pub(super) use net::{ALLOWED_NET, BIND_ADDRESS, INSIDE_ADDRESS, TUNNEL_ADDRESS};
pub use net::{AllowedNet, BindAddress};
pub(super) use number::{
    BUFFER_FACTOR, BUFFER_PACKETS, BUFFER_TIMEOUT, FAILBACK, FIXED_BUFFER, FLOWS, GATEWAY_PRIORITY,
    INNER_MTU, KEEPALIVE, LINK_MTU, REKEY_AFTER, WEIGHT,
};
pub use number::{DEFAULT_KEEPALIVE, FITTED_LEAST_MTU, FITTED_MOST_MTU, LinkMtu, Weight};
pub(super) use portal::PORTAL_CHECK;
pub use portal::PortalCheck;
pub use psmc_toml::{InterfaceName, Listen, Name, Port, Rate, SocketPath, ValueError};
pub use quota::USED_BYTES;
pub(super) use quota::{DAY, QUOTA_BYTES, THEN, bytes_text, check_day};
