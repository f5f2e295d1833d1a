//! The daemon: the engine of `psmc-core` on the sockets of `psmc-net`.
//!
//! Two threads. The *plane* owns the engine, the TUN device and the UDP sockets, and moves packets; nothing on
//! it ever waits for anything else. The *control* side, on the main thread, does all that takes its time: TLS
//! handshakes, name resolution, netlink, the local control socket. It asks the plane for things by jobs, the
//! plane tells it by notices.

mod added;
mod captures;
mod connections;
mod control;
mod dial;
mod fallbacks;
mod farewell;
mod fitting;
mod flows;
mod forwarding;
mod gathered;
mod interface;
mod invitations;
pub mod ipfix;
mod joined;
mod links;
mod lookup;
pub mod metrics;
mod names;
mod network;
mod often;
mod paths;
mod peers;
mod pings;
mod plane;
mod port;
mod portals;
mod quotas;
mod reflection;
mod relays;
mod reload;
mod requests;
mod revival;
mod routes;
mod scrapes;
pub mod settings;
mod shedding;
mod sla;
mod specs;
mod speedtests;
mod splits;
mod status;
mod streams;
mod tasks;
mod tunnels;
mod twins;
mod undelivered;
mod unused;
mod waiting;
mod web;
mod why;
mod witnesses;

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_net::local;
use psmc_net::netlink::NetlinkError;
use psmc_net::stack::StackError;
use psmc_net::tls::tcp::TcpError;
use psmc_net::tun::TunError;
use psmc_service::daemon::{self, Signals, SystemError, Told};
use psmc_service::http::HttpError;
use thiserror::Error;

use crate::config::Config;
use control::Control;
pub(crate) use lookup::lookup;
pub(crate) use network::Numbers;
pub use network::footprint::{CleanError, Cleaned, FootprintError, clean};
pub use reflection::ReflectorError;
pub use tunnels::PortError;

/// The mark (`SO_MARK`) of all that the daemon of the site with this key sends outside its tunnel. Whoever has the same goes the
/// same ways.
#[must_use]
pub fn mark_of(key: PublicKey) -> NonZeroU32 {
    network::Numbers::of(key).mark
}

/// Why the daemon could not start, or ended.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// There is no TUN device.
    #[error("cannot create the tunnel interface")]
    Tun(#[from] TunError),
    /// There is no TCP stack to end connections on.
    #[error("cannot end TCP connections (tcp = \"split\")")]
    Stack(#[from] StackError),
    /// The UDP port can't be had.
    #[error("cannot receive datagrams")]
    Port(#[from] PortError),
    /// The TCP port can't be had.
    #[error("cannot accept control connections")]
    Tcp(#[from] TcpError),
    /// The address for metrics can't be had.
    #[error("cannot serve metrics")]
    Metrics(#[source] HttpError),
    /// The address for the web page can't be had.
    #[error("cannot serve the web page")]
    Web(#[source] HttpError),
    /// The address for STAMP can't be had.
    #[error(transparent)]
    Reflector(#[from] ReflectorError),
    /// The local control socket can't be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The kernel doesn't let us see or change its network configuration.
    #[error("cannot configure the network")]
    Netlink(#[from] NetlinkError),
    /// This host is not as `[site]` wants it.
    #[error("cannot prepare this host")]
    Footprint(#[from] FootprintError),
    /// The tunnel's interface is not as it should be, and the kernel does not let it be made so.
    #[error("cannot restore the tunnel interface")]
    Mend(#[source] NetlinkError),
    /// Two peers claim the same addresses.
    #[error("cannot add the peer `{name}`")]
    Peer {
        /// The peer's name.
        name: String,
        /// What is wrong with it.
        source: psmc_core::PeerError,
    },
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The data plane has ended by itself.
    #[error("the data plane has stopped; see the log")]
    PlaneDied,
}

/// How long a site may take to end in order. Those who wait for it, people and packet managers, expect it within two seconds.
const END_TIME: Duration = Duration::from_millis(1800);

/// Runs a site until SIGTERM or SIGINT; on SIGHUP it reads `file` again. Leaves no interface, route or socket behind.
///
/// # Errors
/// [`DaemonError`] if something that the site can't do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    daemon::run(async {
        tokio::select! {
            ran = serve(config, file) => ran,
            overdue = overdue() => overdue,
        }
    })
}

async fn serve(config: Config, file: &Path) -> Result<(), DaemonError> {
    let mut control = Control::start(config, file.to_owned()).await?;
    let outcome = control.run().await;
    // However it ends: rules outlive the interface that they lead into.
    control.network.leave(&control.site, outcome.is_ok()).await;
    control.into_server().close().await;
    outcome
}

/// Returns when the site was told to end, and has not done so in time: what it waits for is not worth waiting for any more.
async fn overdue() -> Result<(), DaemonError> {
    let mut signals = Signals::listen()?;
    while signals.next().await != Told::Stop {}
    tokio::time::sleep(END_TIME).await;
    tracing::warn!("orderly shutdown blocked; exiting");
    Ok(())
}
