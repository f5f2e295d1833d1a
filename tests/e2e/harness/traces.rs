//! What tells where a site is, in whatever form somebody may be told it.

use std::net::Ipv4Addr;

use super::{Site, contains};

/// Addresses as bytes in either order and as text, and those of the interfaces that have them.
pub(crate) struct Traces(Vec<Vec<u8>>);

impl Traces {
    /// Of these addresses of a site, and of the interfaces that have them.
    pub(crate) fn new(site: &Site, places: impl IntoIterator<Item = (Ipv4Addr, String)>) -> Self {
        let mut traces = Vec::new();
        for (address, interface) in places {
            traces.extend(forms(address));
            let link = site.run(&["ip", "-o", "link", "show", "dev", &interface]);
            let mac = link.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
            let bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
            traces.extend([bytes.collect(), mac.as_bytes().to_vec()]);
        }
        Self(traces)
    }

    /// Whether any of them is among these bytes.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|trace| contains(bytes, trace))
    }
}

fn forms(address: Ipv4Addr) -> Vec<Vec<u8>> {
    let [a, b, c, d] = address.octets();
    let number = u32::from(address);
    let mapped = &address.to_ipv6_mapped().segments()[6..];
    let texts = [
        address.to_string(),
        Ipv4Addr::new(d, c, b, a).to_string(),
        number.to_string(),
        format!("{number:08x}"),
        format!("{number:08X}"),
        mapped.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(":"),
    ];
    [vec![a, b, c, d], vec![d, c, b, a]].into_iter().chain(texts.map(String::into_bytes)).collect()
}

/// The time to live of an IPv4 packet in an Ethernet frame.
pub(crate) fn ttl(frame: &[u8]) -> Option<u8> {
    (frame.len() > 22 && frame[12..14] == [8, 0]).then(|| frame[22])
}

/// The sender of an IPv4 packet in an Ethernet frame.
pub(crate) fn source(frame: &[u8]) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = frame.get(26..30)?.try_into().ok()?;
    (frame[12..14] == [8, 0]).then(|| octets.into())
}
