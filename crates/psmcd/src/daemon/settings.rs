//! From the configuration to what the engine and the interface are told. A simulator tells its engines the same.

use std::net::SocketAddr;

use psmc_core::{
    AdaptiveBuffer, CongestionConfig, PathConfig, PeerConfig, ReorderPolicy, SiteConfig, SocketId,
};
use psmc_net::keys::{PublicKey, random_seed};
use psmc_net::tun::TunConfig;

use crate::config;

/// What the engine is told about this site.
#[must_use]
pub fn site_config(site: &config::Site) -> SiteConfig {
    SiteConfig {
        name: site.name.to_string(),
        mtu: site.mtu.get(),
        aead: psmc_net::aead::preferred(),
        seed: random_seed(),
    }
}

/// What the interface is to be.
pub(super) fn tun_config(site: &config::Site) -> TunConfig {
    TunConfig {
        name: site.interface.as_ref().map(|name| name.as_str().to_owned()),
        mtu: site.mtu.get(),
        addresses: site.addresses.iter().map(|address| address.net()).collect(),
    }
}

/// What the engine is told about a peer.
#[must_use]
pub fn peer_config(peer: &config::Peer, own_key: PublicKey) -> PeerConfig {
    let listed = matches!(&peer.paths, config::Paths::Listed(_));
    PeerConfig {
        name: peer.name.to_string(),
        allowed_ips: peer.allowed_ips.iter().map(|allowed| allowed.net()).collect(),
        can_dial: peer.endpoint.is_some() || listed,
        smaller_key: own_key < peer.public_key,
        scheduler: scheduler(peer.treatment.scheduler),
        reorder: reorder_policy(peer.treatment.reorder),
        ordered_udp: peer.treatment.ordered_udp,
        keepalive: peer.keepalive.get(),
    }
}

/// What the engine is told about a path over a link with this MTU.
#[must_use]
pub fn path_config(
    settings: &config::PathSettings,
    socket: SocketId,
    remote: SocketAddr,
    mtu: u16,
) -> PathConfig {
    PathConfig {
        name: settings.name.to_string(),
        socket,
        remote,
        weight: settings.weight.get(),
        max_rate: settings.max_rate.map(|rate| rate.bits_per_second()),
        mtu,
        congestion: match settings.congestion {
            config::PathCongestion::Model => CongestionConfig::Model,
            config::PathCongestion::Cubic => CongestionConfig::Cubic,
            config::PathCongestion::Fixed(rate) => CongestionConfig::Fixed { rate: rate.bits_per_second() },
        },
    }
}

fn scheduler(scheduler: config::Scheduler) -> psmc_core::SchedulerKind {
    match scheduler {
        config::Scheduler::Earliest => psmc_core::SchedulerKind::Earliest,
        config::Scheduler::Wrr => psmc_core::SchedulerKind::Wrr,
        config::Scheduler::Flow => psmc_core::SchedulerKind::Flow,
        config::Scheduler::Redundant => psmc_core::SchedulerKind::Redundant,
    }
}

fn reorder_policy(reorder: config::Reordering) -> ReorderPolicy {
    match reorder {
        config::Reordering::Deadline => ReorderPolicy::Deadline,
        config::Reordering::Fixed { timeout, packets } => {
            ReorderPolicy::Fixed { timeout: timeout.get(), packets: packets.get() }
        }
        config::Reordering::Adaptive { factor, least, most } => ReorderPolicy::Adaptive(AdaptiveBuffer {
            factor: factor.get(),
            least: least.get(),
            most: most.get(),
            ..AdaptiveBuffer::default()
        }),
        config::Reordering::Off => ReorderPolicy::Off,
    }
}

/// The routes for a network behind a peer. A default route is made of two halves, so that the one there is stays
/// in place for the datagrams themselves, and comes back into force when the halves vanish with the interface.
pub(super) fn routes_for(net: ipnet::IpNet) -> Vec<ipnet::IpNet> {
    match net.prefix_len() {
        0 => net.subnets(1).map(Iterator::collect).unwrap_or_default(),
        _ => vec![net],
    }
}
