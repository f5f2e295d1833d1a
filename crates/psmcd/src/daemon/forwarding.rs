//! Packets for networks behind this site, which the kernel would have to forward, and does not.
//!
//! Nothing in the configuration says that there are such networks: peers know it. So what comes out of the tunnel is looked at, now
//! and then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::DaemonError;
use super::plane::PlaneHandle;
use crate::config;
use crate::machine::{forwarding_sysctl, forwards_nothing, is_inside};

/// Where an inner packet goes to, as far as one host is meant.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    let address = match packet.first()? >> 4 {
        4 => IpAddr::V4(Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    let is_one = match address {
        IpAddr::V4(v4) => !v4.is_broadcast() && !v4.is_multicast() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unicast_link_local(),
    };
    is_one.then_some(address)
}

/// What people should know if packets get lost here because the kernel does not forward. `before` is what they know.
pub(super) async fn look(
    before: Option<String>,
    site: &config::Site,
    plane: &PlaneHandle,
) -> Result<Option<String>, DaemonError> {
    let seen = plane.call(|plane| plane.take_seen_destination()).await?;
    // One that this host has, or that is no network behind it, is none of the kernel's to forward.
    let Some(address) = seen.filter(|address| !is_inside(*address, &site.addresses)) else {
        return Ok(before);
    };
    let notice = (forwards_nothing(address) && !is_own(address).await).then(|| {
        let sysctl = forwarding_sysctl(address);
        format!(
            "packets for {address} come out of the tunnel, and this machine forwards none: run `sysctl -w {sysctl}=1`, and \
             write that into /etc/sysctl.d, if there is a network behind it"
        )
    });
    if let Some(notice) = notice.as_ref().filter(|_| before.is_none()) {
        tracing::warn!(notice, "packets are lost");
    }
    Ok(notice)
}

/// Whether this machine has an address, on whatever interface.
async fn is_own(address: IpAddr) -> bool {
    // A socket can be bound to an address of this machine, and to no other.
    tokio::net::UdpSocket::bind((address, 0)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_for_one_host_are_told_from_those_for_many() {
        let v4 = |destination: [u8; 4]| [&[0x45; 16][..], &destination].concat();
        let v6 = |destination: &str| {
            let octets = destination.parse::<Ipv6Addr>().unwrap().octets();
            [&[0x60; 24][..], &octets].concat()
        };
        assert_eq!(destination(&v4([192, 168, 10, 7])), Some("192.168.10.7".parse().unwrap()));
        assert_eq!(destination(&v6("2001:db8::7")), Some("2001:db8::7".parse().unwrap()));
        for many in
            [v4([224, 0, 0, 251]), v4([255; 4]), v6("ff02::1"), v6("fe80::1"), vec![0x45; 18], Vec::new()]
        {
            assert_eq!(destination(&many), None);
        }
    }
}
