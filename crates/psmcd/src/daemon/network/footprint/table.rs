//! The site's table of nftables, as a script.

use std::fmt::{Display, Write as _};

use ipnet::IpNet;

use crate::config::{Exclusion, Internet};

/// What the table depends on.
pub(super) struct Shape<'a> {
    pub(super) name: &'a str,
    /// The mark of the tunnel's own packets, which others get that are to leave as these do.
    pub(super) mark: u32,
    /// The tunnel's interface, if it is there.
    pub(super) interface: Option<&'a str>,
    /// The site's addresses in the tunnel.
    pub(super) own: &'a [IpNet],
    pub(super) internet: &'a Internet,
    pub(super) uplinks: &'a [&'a str],
    /// The excluded control groups that are there.
    pub(super) cgroups: Vec<&'a str>,
}

/// Where hosts of the same network, or site, are: private (RFC 1918, RFC 4193), link-local (RFC 3927, RFC 4291 section 2.5.6),
/// groups (RFC 5771, RFC 4291 section 2.7), everyone on the link (RFC 919).
const NEAR: [&str; 9] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

impl Shape<'_> {
    /// The table; `None` if there need not be one.
    pub(super) fn script(&self) -> Option<String> {
        let mut chains = String::new();
        if self.internet.kill_switch {
            chains += &self.kill_switch();
        }
        chains += &self.excluded();
        if let Some(interface) =
            self.interface.filter(|_| self.internet.is_offered && !self.uplinks.is_empty())
        {
            let uplinks = set_of(self.uplinks.iter().map(|uplink| format!("\"{uplink}\"")));
            chains += &chain(
                "internet",
                "type nat hook postrouting priority srcnat; policy accept;",
                &[format!("iifname \"{interface}\" oifname {uplinks} counter masquerade")],
            );
        }
        (!chains.is_empty()).then(|| format!("table inet {} {{\n{chains}}}\n", self.name))
    }

    /// Lets out what is the tunnel's own, goes into it, is excluded, or configures the link: DHCP (RFC 2131, RFC 8415), neighbours
    /// and routers of IPv6 (RFC 4861), and the groups by which those are found (RFC 3810).
    fn kill_switch(&self) -> String {
        let inside = set_of(["lo"].into_iter().chain(self.interface).map(|name| format!("\"{name}\"")));
        let mut out = vec![
            format!("meta mark {:#x} accept", self.mark),
            format!("oifname {inside} accept"),
            "udp sport 68 udp dport 67 accept".to_owned(),
            "udp sport 546 udp dport 547 accept".to_owned(),
            "icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld2-listener-report } accept"
                .to_owned(),
        ];
        let mut forwarded: Vec<_> = self
            .interface
            .iter()
            .flat_map(|name| [format!("iifname \"{name}\" accept"), format!("oifname \"{name}\" accept")])
            .collect();
        let (v4, v6) = self.excluded_networks();
        for (family, nets) in [("ip", v4), ("ip6", v6)] {
            if nets.is_empty() {
                continue;
            }
            let nets = set_of(nets);
            out.push(format!("{family} daddr {nets} accept"));
            forwarded.extend([
                format!("{family} daddr {nets} accept"),
                format!("{family} saddr {nets} ct direction reply accept"),
            ]);
        }
        let last = "counter reject with icmpx admin-prohibited".to_owned();
        out.push(last.clone());
        forwarded.push(last);
        chain("kill_switch", "type filter hook output priority filter; policy accept;", &out)
            + &chain(
                "kill_switch_forwarded",
                "type filter hook forward priority filter; policy accept;",
                &forwarded,
            )
    }

    fn excluded_networks(&self) -> (Vec<String>, Vec<String>) {
        let mut nets: Vec<IpNet> = Vec::new();
        for excluded in &self.internet.exclude {
            match excluded {
                Exclusion::Network(net) => nets.push(*net),
                Exclusion::Lan => nets.extend(NEAR.iter().filter_map(|net| net.parse::<IpNet>().ok())),
                Exclusion::User(_) | Exclusion::Cgroup(_) => {}
            }
        }
        let nets = IpNet::aggregate(&nets);
        let (v4, v6): (Vec<_>, Vec<_>) = nets.into_iter().partition(|net| net.addr().is_ipv4());
        let texts = |nets: Vec<IpNet>| nets.iter().map(IpNet::to_string).collect();
        (texts(v4), texts(v6))
    }

    /// Gives the tunnel's mark to what excluded users and control groups send, so that no rule leads it into the tunnel, and to the
    /// answers. Their sockets have chosen an address in the tunnel already, in whose place another one has to stand.
    fn excluded(&self) -> String {
        let users = self.internet.exclude.iter().filter_map(|excluded| match excluded {
            Exclusion::User(user) => Some(user.to_string()),
            Exclusion::Network(_) | Exclusion::Lan | Exclusion::Cgroup(_) => None,
        });
        let users: Vec<_> = users.collect();
        let set_mark = format!("meta mark set {0:#x} ct mark set {0:#x}", self.mark);
        let mut rules = Vec::new();
        if !users.is_empty() {
            rules.push(format!("meta skuid {} {set_mark}", set_of(users)));
        }
        for path in &self.cgroups {
            let level = path.split('/').count();
            rules.push(format!("socket cgroupv2 level {level} \"{path}\" {set_mark}"));
        }
        if rules.is_empty() {
            return String::new();
        }
        let not_here = "oifname != \"lo\" fib daddr type != local";
        let rules: Vec<_> = rules.iter().map(|rule| format!("{not_here} {rule}")).collect();
        let (v4, v6): (Vec<&IpNet>, Vec<&IpNet>) = self.own.iter().partition(|net| net.addr().is_ipv4());
        let mut sources = Vec::new();
        for (family, own) in [("ip", v4), ("ip6", v6)] {
            if !own.is_empty() {
                let own = set_of(own.iter().map(|net| net.addr()));
                sources.push(format!("meta mark {:#x} {family} saddr {own} masquerade", self.mark));
            }
        }
        chain("excluded", "type route hook output priority mangle; policy accept;", &rules)
            + &chain("excluded_source", "type nat hook postrouting priority srcnat; policy accept;", &sources)
            + &chain(
                "excluded_answers",
                "type filter hook prerouting priority mangle; policy accept;",
                &[format!("ct mark {:#x} meta mark set ct mark", self.mark)],
            )
    }
}

fn chain(name: &str, hook: &str, rules: &[String]) -> String {
    let mut text = format!("chain {name} {{\n{hook}\n");
    for rule in rules {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{rule}");
    }
    text + "}\n"
}

fn set_of<T: Display>(elements: impl IntoIterator<Item = T>) -> String {
    let elements: Vec<_> = elements.into_iter().map(|element| element.to_string()).collect();
    format!("{{ {} }}", elements.join(", "))
}

#[cfg(test)]
mod tests {
    use psmc_net::nft::{nft, replacing};
    use psmc_testbed::netns::Namespace;

    use super::*;

    #[test]
    fn nftables_takes_every_kind_of_table_in_place_of_another() {
        let own = ["10.77.0.2/24", "fd77::2/64"].map(|net| net.parse().unwrap());
        let exclude = ["192.168.1.0/24", "192.168.1.128/25", "lan", "2001:db8::/32", "uid:1000", "uid:1001"];
        let exclude: Vec<Exclusion> = exclude.iter().map(|text| text.parse().unwrap()).collect();
        let kinds = [
            (Internet { is_offered: true, ..Internet::default() }, 1),
            (Internet { kill_switch: true, ..Internet::default() }, 2),
            (Internet { exclude: exclude.clone(), ..Internet::default() }, 3),
            (Internet { kill_switch: true, exclude, ..Internet::default() }, 5),
            (Internet::default(), 0),
        ];
        Namespace::new().expect("this test needs root").run(|| {
            for interface in [None, Some("psmc0")] {
                for (internet, chains) in &kinds {
                    let shape = Shape {
                        name: "psmc_van",
                        mark: 0x5000_0001,
                        interface,
                        own: &own,
                        internet,
                        uplinks: &["wan0", "wan1"],
                        cgroups: Vec::new(),
                    };
                    let script = shape.script();
                    let chains = if interface.is_none() && internet.is_offered { 0 } else { *chains };
                    assert_eq!(script.as_ref().map_or(0, |script| script.matches("hook").count()), chains);
                    nft(&["-f", "-"], &replacing("psmc_van", script.as_deref())).unwrap();
                }
            }
            let left = nft(&["list", "ruleset"], "").unwrap();
            assert_eq!(String::from_utf8(left.stdout).unwrap(), "");
        });
    }
}
