//! From the configuration to what the engine and the interface are told. A simulator tells its engines the same.

use std::net::{Ipv4Addr, SocketAddr};

use psmc_core::{
    ClassConfig, ClassMatch, CongestionConfig, KeyLimits, PathConfig, PeerConfig, SiteConfig, SocketId,
};
use psmc_net::keys::{PublicKey, random_seed};
use psmc_net::tun::TunConfig;

use crate::config::{self, FITTED_LEAST_MTU, FITTED_MOST_MTU};

/// What the engine is told about this site.
#[must_use]
pub fn site_config(site: &config::Site) -> SiteConfig {
    SiteConfig {
        name: site.name.to_string(),
        software: concat!("psmcd ", env!("CARGO_PKG_VERSION")).to_owned(),
        mtu: site.mtu.unwrap_or(FITTED_MOST_MTU),
        aead: psmc_net::aead::preferred(),
        hidden: site.is_hidden,
        classes: classes(&site.classes),
        clamp_mss: site.clamp_mss,
        broadcasts: site.addresses.iter().filter_map(|address| broadcast(*address)).collect(),
        key_limits: KeyLimits { exchange_after: site.rekey_after, ..KeyLimits::default() },
        seed: random_seed(),
    }
}

/// The broadcast address of a network, where there is one (RFC 3021: not with two addresses or one).
fn broadcast(net: ipnet::IpNet) -> Option<Ipv4Addr> {
    match net {
        ipnet::IpNet::V4(v4) if v4.prefix_len() < 31 => Some(v4.broadcast()),
        ipnet::IpNet::V4(_) | ipnet::IpNet::V6(_) => None,
    }
}

/// The classes of the file, in its order, and behind them those that every site has and the file does not change. Best
/// effort is the last: it takes what is left.
pub(super) fn classes(configured: &[config::Class]) -> Vec<ClassConfig> {
    let mut built_in = ClassConfig::defaults();
    let mut classes: Vec<_> = configured
        .iter()
        .map(|class| {
            let same = built_in.iter().position(|other| other.name == class.name.as_str());
            let base = same.map_or_else(ClassConfig::best_effort, |index| built_in[index].clone());
            changed_class(base, class)
        })
        .collect();
    built_in.retain(|other| classes.iter().all(|class| class.name != other.name));
    classes.append(&mut built_in);
    let rest = ClassConfig::best_effort().name;
    classes.sort_by_key(|class| class.name == rest);
    classes
}

/// A class with what the file says of it.
fn changed_class(base: ClassConfig, class: &config::Class) -> ClassConfig {
    let networks = |list: &[config::AllowedNet]| list.iter().map(|network| network.net()).collect();
    let packets = ClassMatch {
        dscp: class.dscp.iter().map(|dscp| 1 << dscp).fold(0, |set, bit: u64| set | bit),
        protocols: class.protocols.clone(),
        ports: class.ports.clone(),
        sources: networks(&class.from),
        destinations: networks(&class.to),
    };
    ClassConfig {
        name: class.name.to_string(),
        packets: if packets == ClassMatch::default() { base.packets } else { packets },
        priority: class.priority.unwrap_or(base.priority),
        weight: class.weight.unwrap_or(base.weight),
        repair: class.repair.or(base.repair),
        conditioning: class.conditioning.or(base.conditioning),
        queue_protection: class.queue_protection.unwrap_or(base.queue_protection),
        paths: class.paths.clone(),
        split: class.tcp.map(|tcp| tcp == config::Tcp::Split).or(base.split),
    }
}

/// What the interface is to be.
pub(super) fn tun_config(site: &config::Site) -> TunConfig {
    TunConfig {
        name: site.interface.as_ref().map(|name| name.as_str().to_owned()),
        mtu: site.mtu.unwrap_or(FITTED_LEAST_MTU),
        addresses: site.addresses.clone(),
        // They are in this site's own table.
        routes_networks: false,
    }
}

/// What the engine is told about a peer.
#[must_use]
pub fn peer_config(peer: &config::Peer, own_key: PublicKey) -> PeerConfig {
    let listed = matches!(&peer.paths, config::Paths::Listed(_));
    PeerConfig {
        name: peer.name.to_string(),
        allowed_ips: peer.allowed_ips.iter().map(|allowed| allowed.net()).collect(),
        gateway: peer.gateway,
        can_dial: peer.endpoint.is_some() || listed,
        smaller_key: own_key < peer.public_key,
        scheduler: peer.treatment.scheduler,
        bad_path_rule: peer.treatment.bad_path_rule,
        reorder: peer.treatment.reorder,
        ordered_udp: peer.treatment.ordered_udp,
        udp_rate_limit: peer.udp_rate_limit.map(|rate| rate.bits_per_second()),
        repair: peer.treatment.repair,
        split: peer.treatment.tcp == config::Tcp::Split,
        keepalive: peer.keepalive,
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
        tier: settings.tier,
        direction: settings.direction,
        max_rate: settings.max_rate.map(|rate| rate.bits_per_second()),
        mtu,
        congestion: congestion_config(settings.congestion),
    }
}

/// How the engine is to find the rate of a path.
pub(super) fn congestion_config(congestion: config::PathCongestion) -> CongestionConfig {
    match congestion {
        config::PathCongestion::Model => CongestionConfig::Model,
        config::PathCongestion::Cubic => CongestionConfig::Cubic,
        config::PathCongestion::Fixed(rate) => CongestionConfig::Fixed { rate: rate.bits_per_second() },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use psmc_core::Priority;

    use super::*;

    /// The classes that a site with these lines has.
    fn of(lines: &str) -> Vec<ClassConfig> {
        let text = format!("{}\n{lines}", include_str!("../../../psmc-tool/tests/check/good/minimal.toml"));
        classes(&config::Config::parse(&text, Path::new("van.toml")).expect("it is right").site.classes)
    }

    #[test]
    fn classes_of_the_file_stand_before_those_that_every_site_has() {
        assert_eq!(of(""), ClassConfig::defaults());
        let names: Vec<_> =
            of("[[class]]\nname = \"best-effort\"\nweight = 50\n\n[[class]]\nname = \"dns\"\nports = [53]")
                .into_iter()
                .map(|class| (class.name, class.weight, class.packets.ports))
                .collect();
        let expected = [
            ("dns", 10, vec![53..=53]),
            ("voice", 5, vec![]),
            ("background", 1, vec![]),
            ("best-effort", 50, vec![]),
        ];
        assert_eq!(names, expected.map(|(name, weight, ports)| (name.to_owned(), weight, ports)));
    }

    #[test]
    fn what_the_file_does_not_say_of_a_class_that_every_site_has_stays() {
        let default = ClassConfig::defaults().swap_remove(0);
        let changed = of("[[class]]\nname = \"voice\"\nweight = 20");
        assert_eq!(changed[0], ClassConfig { weight: 20, ..default.clone() });
        let moved = of("[[class]]\nname = \"voice\"\ndscp = [\"CS5\"]\npriority = \"low\"");
        let packets = ClassMatch { dscp: 1 << 40, ..ClassMatch::default() };
        assert_eq!(moved[0], ClassConfig { packets, priority: Priority::Low, ..default });
    }
}
