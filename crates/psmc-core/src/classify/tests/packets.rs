//! Packets to classify.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{TCP, UDP};

const DONT_FRAGMENT: u16 = 0x4000;

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) ports: [u8; 4],
}

/// What may differ between the packets of a flow.
#[derive(Clone, Debug)]
pub(super) struct Varying {
    pub(super) traffic_class: u8,
    pub(super) ttl: u8,
    pub(super) id: u16,
    pub(super) dont_fragment: bool,
    pub(super) options: u8,
    pub(super) payload: Vec<u8>,
}

pub(super) fn ipv4(flow: &Flow, varying: &Varying, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (flow.source, flow.destination) else {
        panic!("family")
    };
    let words = 5 + varying.options % 11;
    let len = u16::from(words) * 4 + u16::try_from(payload.len()).unwrap();
    let mut packet = vec![0x40 | words, varying.traffic_class];
    packet.extend(len.to_be_bytes());
    packet.extend(varying.id.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([varying.ttl, flow.protocol, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.resize(usize::from(words) * 4, 1);
    packet.extend(payload);
    packet
}

pub(super) fn ipv6(flow: &Flow, varying: &Varying, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (flow.source, flow.destination) else {
        panic!("family")
    };
    let mut packet = vec![0x60 | varying.traffic_class >> 4, varying.traffic_class << 4, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next_header, varying.ttl]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

pub(super) fn packet(flow: &Flow, varying: &Varying) -> Vec<u8> {
    let payload = [&flow.ports[..], &varying.payload].concat();
    match flow.source {
        IpAddr::V4(_) => ipv4(flow, varying, u16::from(varying.dont_fragment) * DONT_FRAGMENT, &payload),
        IpAddr::V6(_) => {
            let options = usize::from(varying.options % 9);
            ipv6(
                flow,
                varying,
                if options == 0 { flow.protocol } else { 60 },
                &extended(flow, options, &payload),
            )
        }
    }
}

/// `payload` behind as many empty destination options.
pub(super) fn extended(flow: &Flow, options: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for left in (0..options).rev() {
        bytes.extend([if left == 0 { flow.protocol } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
    }
    bytes.extend(payload);
    bytes
}

pub(super) fn flow() -> impl Strategy<Value = Flow> {
    let v4 = any::<[u32; 2]>().prop_map(|ips| ips.map(|ip| IpAddr::from(Ipv4Addr::from_bits(ip))));
    let v6 = any::<[u128; 2]>().prop_map(|ips| ips.map(|ip| IpAddr::from(Ipv6Addr::from_bits(ip))));
    let protocol = prop::sample::select(vec![TCP, UDP, 33, 132, 136, 50]);
    (prop_oneof![v4, v6], protocol, any::<[u8; 4]>())
        .prop_map(|([source, destination], protocol, ports)| Flow { source, destination, protocol, ports })
}

pub(super) fn varying() -> impl Strategy<Value = Varying> {
    let fields = any::<(u8, u8, u16, bool, u8)>();
    (fields, prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((traffic_class, ttl, id, dont_fragment, options), payload)| Varying {
            traffic_class,
            ttl,
            id,
            dont_fragment,
            options,
            payload,
        },
    )
}

pub(super) fn plain() -> Varying {
    Varying { traffic_class: 0, ttl: 64, id: 7, dont_fragment: false, options: 0, payload: vec![0; 16] }
}

pub(super) fn udp_v6(ports: [u8; 4]) -> Flow {
    let [source, destination] = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse().unwrap());
    Flow { source, destination, protocol: UDP, ports }
}

pub(super) fn tcp_v4(ports: [u8; 4]) -> Flow {
    Flow {
        source: IpAddr::from([192, 0, 2, 1]),
        destination: IpAddr::from([198, 51, 100, 2]),
        protocol: TCP,
        ports,
    }
}
