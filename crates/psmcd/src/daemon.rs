//! The daemon: the engine of `psmc-core` on the sockets of `psmc-net`.
//!
//! Two threads. The *plane* owns the engine, the TUN device and the UDP sockets, and moves packets; nothing on
//! it ever waits for anything else. The *control* side, on the main thread, does all that takes its time: TLS
//! handshakes, name resolution, netlink, the local control socket. It asks the plane for things by jobs, the
//! plane tells it by notices.

mod added;
mod connection;
mod connections;
mod control;
mod dial;
mod farewell;
mod fitting;
mod interface;
mod joined;
mod links;
mod paths;
mod peers;
mod plane;
mod port;
mod relays;
mod requests;
mod revival;
mod routes;
pub mod settings;
mod status;
mod tunnels;
mod undelivered;

use std::io;

use psmc_net::netlink::NetlinkError;
use psmc_net::tls::tcp::TcpError;
use psmc_net::tun::TunError;
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::api;
use crate::config::Config;
use control::Control;
pub use tunnels::PortError;

/// Why the daemon could not start, or ended.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// There is no TUN device.
    #[error("cannot make the tunnel's interface")]
    Tun(#[from] TunError),
    /// The UDP port can't be had.
    #[error("cannot receive datagrams")]
    Port(#[from] PortError),
    /// The TCP port can't be had.
    #[error("cannot accept control connections")]
    Tcp(#[from] TcpError),
    /// The local control socket can't be had.
    #[error("cannot make the control socket")]
    ControlSocket(#[from] api::BindError),
    /// The kernel doesn't let us see or change its network configuration.
    #[error("cannot configure the network")]
    Netlink(#[from] NetlinkError),
    /// Two peers claim the same addresses.
    #[error("cannot add the peer `{name}`")]
    Peer {
        /// The peer's name.
        name: String,
        /// What is wrong with it.
        source: psmc_core::PeerError,
    },
    /// The operating system refused something basic.
    #[error("cannot start: {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The data plane has ended by itself.
    #[error("the data plane has stopped; the log says why")]
    PlaneDied,
}

/// Runs a site until SIGTERM or SIGINT. Leaves no interface, route or socket behind.
///
/// # Errors
/// [`DaemonError`] if something that the site can't do without is missing.
pub fn run(config: Config) -> Result<(), DaemonError> {
    runtime()?.block_on(async {
        let mut control = Control::start(config).await?;
        control.run().await
    })
}

/// A runtime on the calling thread.
fn runtime() -> Result<Runtime, DaemonError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|source| DaemonError::System { what: "the asynchronous runtime", source })
}
