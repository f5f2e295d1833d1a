//! What a relay tells about itself: as JSON has it, with plain numbers, and texts with their units in their names.

mod metrics;
mod observer;
mod shedding;

use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use serde::{Deserialize, Serialize};

pub use metrics::METRICS;
pub(crate) use observer::Observer;
pub use shedding::{Shed, ShedCounts, ShedRule, Shedding};

impl Report for Status {
    const PROGRAM: &'static str = "psmc-relay";
    const DIRECTORY: &'static str = psmc_toml::RELAY_RUN_DIR;
}

/// Asks the relay whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}

/// Everything there is to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this format.
    pub version: u32,
    /// What the relay is called.
    pub name: String,
    /// For how long it has run.
    pub uptime_s: u64,
    /// What it may send in all.
    pub max_rate_bits_per_second: Option<u64>,
    /// Sites that are served.
    pub sites: Vec<Site>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Gateways that are connected.
    pub gateways: usize,
    /// Streams that stand.
    pub streams: usize,
    /// What streams have carried.
    pub stream_bytes: u64,
    /// What was moved.
    pub datagrams: Datagrams,
    /// What was not.
    pub refused: Refused,
    /// ICMP errors by which routers have said that a datagram was too long for a link on its way; `None` if the relay has
    /// no right to hear them.
    pub heard_too_big: Option<u64>,
    /// Plain tunnels of IP-in-IP, in the order of the file.
    pub tunnels: Vec<Tunnel>,
    /// What went no further between their ends, and what was said about that.
    pub tunnel_packets: TunnelPackets,
    /// What is dropped for those to whom it goes.
    pub shedding: Shedding,
    /// Handshakes that succeeded.
    pub control_accepted: u64,
    /// Dialers whose key is not allowed.
    pub control_unknown_key: u64,
    /// Handshakes that failed otherwise.
    pub control_failed_handshake: u64,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Its key.
    pub public_key: String,
    /// Sessions that it has.
    pub sessions: u32,
    /// Sessions that it may have.
    pub max_sessions: u32,
    /// What all of them may carry in each direction.
    pub rate_bits_per_second: Option<u64>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id, in hexadecimal digits.
    pub id: String,
    /// Whose it is.
    pub site: String,
    /// What it may carry in each direction.
    pub rate_bits_per_second: Option<u64>,
    /// How long it has not been used.
    pub idle_s: u64,
    /// Towards the far end.
    pub to_far: Way,
    /// Towards the site that has reserved it.
    pub to_near: Way,
}

/// One direction of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Where its datagrams go.
    pub address: Option<String>,
    /// The end of the tunnel of IP-in-IP in which they do; the address is then one within it.
    pub tunnel: Option<String>,
    /// Datagrams that were passed on.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that wait.
    pub waiting: u32,
    /// Datagrams that the queue dropped, by drop precedence.
    pub dropped: [u64; 3],
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Datagrams that came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams that left.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Runs of datagrams to one address, each of which left at once.
    pub runs: u64,
    /// Datagrams that the network did not take.
    pub send_drops: u64,
    /// Datagrams that one worker has handed over to another.
    pub strayed: u64,
    /// Datagrams that were dropped instead, because the other has too much to do.
    pub stray_drops: u64,
}

/// Datagrams that went no further, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Too short, or of another kind.
    pub malformed: u64,
    /// No session has the label.
    pub unknown_label: u64,
    /// The number was received before.
    pub replayed: u64,
    /// The tag is wrong.
    pub forged: u64,
    /// It has come in a tunnel though it should not, or not in one, or within that between other addresses.
    pub misaddressed: u64,
    /// It has passed as many relays as it may.
    pub too_many_hops: u64,
    /// The other side has not shown yet where it is.
    pub no_address: u64,
    /// Longer than what can wait.
    pub too_long: u64,
    /// There was no room among all that waits.
    pub queue_full: u64,
    /// It would have made its queue too long, by drop precedence.
    pub dropped: [u64; 3],
    /// Whoever it goes to has asked that it be dropped.
    pub shed: u64,
}

/// A plain tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its name.
    pub name: String,
    /// What may pass in each direction.
    pub rate_bits_per_second: Option<u64>,
    /// To its left end.
    pub to_left: TunnelWay,
    /// To its right end.
    pub to_right: TunnelWay,
}

/// One direction of a plain tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelWay {
    /// The end; `None` while the site that it is left to is not registered.
    pub address: Option<String>,
    /// The site that it is left to, if it is.
    pub site: Option<String>,
    /// The longest packet that the way to it takes, in bytes with the outer header.
    pub path_mtu: u16,
    /// Packets that were passed on.
    pub packets: u64,
    /// Their bytes, without outer headers.
    pub bytes: u64,
    /// Packets that wait.
    pub waiting: u32,
    /// Packets that the queue dropped, by drop precedence.
    pub dropped: [u64; 3],
}

/// Packets between the ends of plain tunnels that went no further, by reason, and what was said about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelPackets {
    /// No IPv4 in IPv4.
    pub malformed: u64,
    /// Between inner addresses that are not behind the ends.
    pub misaddressed: u64,
    /// Marked by a congested router, though their senders know no such marks.
    pub congested: u64,
    /// They had passed as many routers as they may.
    pub expired: u64,
    /// To an end whose site is not registered.
    pub no_end: u64,
    /// Longer than the way on takes, and not to be cut.
    pub too_big: u64,
    /// There was no room for them among all that waits.
    pub queue_full: u64,
    /// The owner of the end to which they go has asked that they be dropped.
    pub shed: u64,
    /// Packets that were cut for a narrower way; they went on.
    pub cut: u64,
    /// ICMP errors that were sent to inner hosts.
    pub errors_sent: u64,
    /// ICMP errors by which routers have said that packets were too long.
    pub heard_too_big: u64,
    /// ICMP errors by which routers and ends have said anything else.
    pub heard_unreachable: u64,
}
