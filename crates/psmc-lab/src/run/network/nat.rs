//! Network address translation by nftables, as RFC 4787 names the kinds. For IPv4 only, like most there is.

use crate::scenario::NatKind;

/// The rules for what leaves by the interface called `outside`, as `nft -f` reads them.
pub(super) fn rules(kind: NatKind, outside: &str) -> String {
    match kind {
        NatKind::EndpointIndependent => endpoint_independent(outside),
        NatKind::Symmetric => symmetric(outside),
    }
}

/// The kernel's own translation keeps a port towards a new destination only if it happens to be free there, and knows
/// no other destination's packets. So the first packet of an inside port gets a random port outside, which two maps
/// remember: one for all further destinations (endpoint-independent mapping, section 4.1), the other for whoever sends to it
/// (endpoint-independent filtering, section 5).
fn endpoint_independent(outside: &str) -> String {
    let map = format!(
        "type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; \
         flags dynamic, timeout; timeout {MEMORY};"
    );
    let remember = |protocol: &str| {
        let packets = format!("oifname \"{outside}\" meta l4proto {protocol} ct direction original");
        let inside = "ct original ip saddr . ct original proto-src";
        let outside = "ip saddr . th sport";
        format!(
            "    {packets} update @mappings {{ meta l4proto . {inside} : {outside} }}\n    \
             {packets} update @owners {{ meta l4proto . {outside} : {inside} }}\n"
        )
    };
    let (tcp, udp) = (remember("tcp"), remember("udp"));
    format!(
        r#"table ip nat {{
  map mappings {{ {map} }}
  map owners {{ {map} }}
  chain incoming {{
    type nat hook prerouting priority dstnat;
    iifname "{outside}" dnat ip to meta l4proto . ip daddr . th dport map @owners
  }}
  chain outgoing {{
    type nat hook postrouting priority srcnat;
    oifname "{outside}" snat ip to meta l4proto . ip saddr . th sport map @mappings
    oifname "{outside}" masquerade fully-random
  }}
  chain remembered {{
    type filter hook postrouting priority 200;
{tcp}{udp}  }}
  chain forwarded {{
    type filter hook forward priority filter;
    iifname "{outside}" ct status dnat accept
    iifname "{outside}" ct state new drop
  }}
}}
"#
    )
}

/// Each connection gets a random port of its own (address and port-dependent mapping), and the kernel lets in only what
/// belongs to one (address and port-dependent filtering).
fn symmetric(outside: &str) -> String {
    format!(
        r#"table ip nat {{
  chain outgoing {{
    type nat hook postrouting priority srcnat;
    oifname "{outside}" masquerade fully-random
  }}
  chain forwarded {{
    type filter hook forward priority filter;
    iifname "{outside}" ct state new drop
  }}
}}
"#
    )
}

/// How long an unused mapping is remembered: what RFC 4787 recommends (REQ-5).
const MEMORY: &str = "5m";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, UdpSocket};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::run::network::{Hosts, Network};
    use crate::scenario::{HostId, Scenario};

    /// How long to wait for what must come: a busy machine takes its time.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// How long to wait for what must not come.
    const SILENCE: Duration = Duration::from_millis(200);

    /// The port of both hosts inside.
    const INSIDE: u16 = 5000;

    const LINKS: &str = "
    [[link]]
    name = 'lan-a'
    between = ['a', 'nat']
    [[link]]
    name = 'lan-b'
    between = ['b', 'nat']
    [[link]]
    name = 'wan'
    between = ['nat', 'out']
    addresses = [['192.0.2.1/24'], ['192.0.2.2/24', '192.0.2.3/24', '192.0.2.4/24']]
    ";

    /// A host outside with three addresses, and two hosts behind a NAT.
    struct World {
        _network: Network,
        outside: [UdpSocket; 3],
        inside: [UdpSocket; 2],
    }

    impl World {
        fn new(kind: &str) -> Self {
            let scenario = Arc::new(scenario(kind, LINKS));
            let hosts = Hosts::new(&scenario).expect("this test needs root, for it makes network namespaces");
            let network = Network::new(Arc::clone(&scenario), hosts, Path::new("")).unwrap();
            let bind = |name: &str, address: &str, port: u16| {
                let id = scenario.hosts.iter().position(|host| host.name == name).unwrap();
                network.host(HostId(id)).run(|| UdpSocket::bind((address, port))).unwrap()
            };
            let outside = ["192.0.2.2", "192.0.2.3", "192.0.2.4"].map(|address| bind("out", address, 7000));
            let inside = ["a", "b"].map(|name| bind(name, "0.0.0.0", INSIDE));
            Self { _network: network, outside, inside }
        }

        /// As whom the outside sees a host inside that sends to one of its addresses.
        fn mapping(&self, inside: usize, outside: usize) -> SocketAddr {
            self.inside[inside].send_to(b"out", self.outside[outside].local_addr().unwrap()).unwrap();
            self.outside[outside].set_read_timeout(Some(PATIENCE)).unwrap();
            self.outside[outside].recv_from(&mut [0; 8]).unwrap().1
        }

        /// Whether what an address outside sends to a mapping reaches a host inside.
        fn reaches(&self, outside: usize, mapping: SocketAddr, inside: usize, patience: Duration) -> bool {
            self.outside[outside].send_to(b"in", mapping).unwrap();
            self.inside[inside].set_read_timeout(Some(patience)).unwrap();
            self.inside[inside].recv_from(&mut [0; 8]).is_ok()
        }
    }

    fn scenario(kind: &str, links: &str) -> Scenario {
        let text = format!(
            "[scenario]\nname = 'nat'\nduration = '1s'\n\
             [[host]]\nname = 'nat'\nnat = {{ kind = '{kind}', outside = 'wan' }}\n{links}"
        );
        let scenario = Scenario::parse(&text, Path::new("nat.toml"));
        scenario.unwrap_or_else(|error| panic!("{}", error.render(false)))
    }

    #[test]
    fn an_endpoint_independent_nat_has_one_mapping_for_all() {
        let world = World::new("endpoint-independent");
        let mappings = [0, 1].map(|inside| {
            let seen: BTreeSet<_> = [0, 1].iter().map(|outside| world.mapping(inside, *outside)).collect();
            assert_eq!(seen.len(), 1, "{seen:?}");
            *seen.first().unwrap()
        });
        assert_ne!(mappings[0], mappings[1]);
        for (inside, mapping) in mappings.into_iter().enumerate() {
            // One that was asked, and one that was not.
            assert!(world.reaches(0, mapping, inside, PATIENCE));
            assert!(world.reaches(2, mapping, inside, PATIENCE));
            assert_eq!(world.mapping(inside, 2), mapping);
        }
    }

    #[test]
    fn a_symmetric_nat_has_a_mapping_for_each_and_lets_only_that_one_in() {
        let world = World::new("symmetric");
        let mappings = [0, 1].map(|outside| world.mapping(0, outside));
        assert_ne!(mappings[0], mappings[1]);
        assert_eq!(world.mapping(0, 0), mappings[0], "the same flow keeps its port");
        assert!(world.reaches(0, mappings[0], 0, PATIENCE));
        assert!(!world.reaches(1, mappings[0], 0, SILENCE));
        assert!(!world.reaches(2, mappings[0], 0, SILENCE));
    }
}
