//! What differs between the configuration that was read before and the one that is read now.

use std::collections::BTreeSet;

use crate::config::{Config, Name, PathSettings, Peer, Relay, Site, TunnelEnd};

/// The settings of `[site]`, and other sections about it, that only count when psmcd starts, and differ.
pub(super) fn needs_restart(before: &Site, now: &Site) -> Vec<String> {
    let settings = [
        ("name", before.name == now.name),
        ("private_key", before.private_key.public() == now.private_key.public()),
        ("addresses", before.addresses == now.addresses),
        ("listen", before.listen == now.listen && before.is_hidden == now.is_hidden),
        ("listen_tls", before.listen_tls == now.listen_tls),
        ("interface", before.interface == now.interface),
        ("mtu", before.mtu == now.mtu),
        ("quiet", before.is_quiet == now.is_quiet),
        ("rekey_after", before.rekey_after == now.rekey_after),
        ("state_file", before.state_file == now.state_file),
        ("control_socket", before.control_socket == now.control_socket),
        ("metrics", before.metrics == now.metrics),
        ("web", before.web == now.web),
    ];
    settings.into_iter().filter(|(_, same)| !same).map(|(name, _)| name.to_owned()).collect()
}

/// The names of relays that are elsewhere now, have other keys, or are gone.
pub(super) fn changed_relays((relays, ends): (&[Relay], &[TunnelEnd]), now: &Config) -> BTreeSet<Name> {
    let relays = relays.iter().filter(|relay| !now.relays.contains(relay)).map(|relay| &relay.name);
    let ends = ends.iter().filter(|end| !now.tunnel_ends.contains(end)).map(|end| &end.name);
    relays.chain(ends).cloned().collect()
}

/// The settings of a `[[peer]]` that differ, but for its paths.
pub(super) fn changed_settings(before: &Peer, now: &Peer) -> Vec<&'static str> {
    let settings = [
        ("allowed_ips", before.allowed_ips == now.allowed_ips),
        ("endpoint", before.endpoint == now.endpoint),
        ("priority", before.gateway.priority == now.gateway.priority),
        ("failback", before.gateway.failback == now.gateway.failback),
        ("keepalive", before.keepalive == now.keepalive),
        ("scheduler", before.treatment.scheduler == now.treatment.scheduler),
        ("reorder", before.treatment.reorder == now.treatment.reorder),
        ("repair", before.treatment.repair == now.treatment.repair),
        ("ordered_udp", before.treatment.ordered_udp == now.treatment.ordered_udp),
        ("bad_path_rule", before.treatment.bad_path_rule == now.treatment.bad_path_rule),
        ("tcp", before.treatment.tcp == now.treatment.tcp),
        ("udp_rate_limit", before.udp_rate_limit == now.udp_rate_limit),
        ("spare_relays", before.spare_relays == now.spare_relays),
        ("routes", before.routes == now.routes),
        ("transport", before.transport == now.transport),
    ];
    settings.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// What has to be done for a path to become another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathChange {
    /// Nothing.
    None,
    /// It goes on, with another weight, tier or rate.
    Tune,
    /// It leads another way: it ends, and another one of its name begins.
    Replace,
}

impl PathChange {
    /// From a path as it is to what it shall be.
    pub(super) fn between(before: &PathSettings, now: &PathSettings) -> Self {
        let tuned = PathSettings {
            weight: now.weight,
            tier: now.tier,
            direction: now.direction,
            quota: now.quota,
            max_rate: now.max_rate,
            congestion: now.congestion,
            ..before.clone()
        };
        // Relays have reserved its rate.
        let is_reserved = !now.relays.is_empty() && before.max_rate != now.max_rate;
        if before == now {
            Self::None
        } else if tuned == *now && !is_reserved {
            Self::Tune
        } else {
            Self::Replace
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Paths;

    const RELAYED: &str = include_str!("../../../../psmc-tool/tests/check/good/minimal.toml");

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("van.toml")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn with_path(lines: &str) -> PathSettings {
        let path = "[[peer.path]]\nname = \"lte\"\nendpoint = \"192.0.2.1:5115\"";
        let mut config = config(&format!("{RELAYED}\n{path}\n{lines}"));
        match config.peers.remove(0).paths {
            Paths::Listed(mut paths) => paths.remove(0),
            Paths::EveryUplink => panic!("it has a path"),
        }
    }

    #[test]
    fn a_path_goes_on_where_only_its_share_differs() {
        let plain = with_path("");
        for (lines, expected) in [
            ("", PathChange::None),
            ("weight = 5", PathChange::Tune),
            ("max_rate = \"5mbit\"", PathChange::Tune),
            ("congestion = \"cubic\"", PathChange::Tune),
            ("weight = 5\ninterface = \"wwan0\"", PathChange::Replace),
            ("address = \"192.0.2.9\"", PathChange::Replace),
            ("mtu = 1400", PathChange::Replace),
        ] {
            assert_eq!(PathChange::between(&plain, &with_path(lines)), expected, "{lines}");
        }
        let relayed = PathSettings { relays: vec!["fra1".parse().unwrap()], ..plain };
        let limited = PathSettings { max_rate: Some("5mbit".parse().unwrap()), ..relayed.clone() };
        assert_eq!(PathChange::between(&relayed, &limited), PathChange::Replace, "a relay has reserved it");
    }

    #[test]
    fn settings_that_need_a_restart_are_named() {
        let before = config(RELAYED).site;
        assert_eq!(needs_restart(&before, &config(RELAYED).site), [""; 0]);
        let changed =
            RELAYED.replacen("[site]", "[site]\nmtu = 1400\ninterface = \"tun7\"\nlisten = \"0.0.0.0:9\"", 1);
        assert_eq!(needs_restart(&before, &config(&changed).site), ["listen", "interface", "mtu"]);
        let told = config(&format!("{RELAYED}\n[metrics]\nlisten = \"127.0.0.1:9115\"\n")).site;
        assert_eq!(needs_restart(&before, &told), ["metrics"]);
        let shown = config(&format!("{RELAYED}\n[web]\nlisten = \"127.0.0.1:9116\"\n")).site;
        assert_eq!(needs_restart(&before, &shown), ["web"]);
    }
}
