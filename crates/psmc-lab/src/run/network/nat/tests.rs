//! Real translation, between two hosts inside that use the same port, and three addresses outside.

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
