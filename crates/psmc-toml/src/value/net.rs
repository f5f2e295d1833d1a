//! Addresses and networks.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ValueError;

/// An address that a host can have, with the length of its network's prefix. `remedy` is for one that none can have.
pub fn host_address(text: &str, remedy: &str) -> Result<IpNet, ValueError> {
    let net = parse_net(text)?;
    let kind = match net.addr() {
        ip if ip.is_unspecified() => "the unspecified address",
        ip if ip.is_multicast() => "a multicast address",
        ip if ip.is_loopback() => "a loopback address",
        ip if is_network_address(net) => {
            return Err(no_host(net, ip, "the network itself, not a host in it"));
        }
        ip if is_broadcast_address(net) => {
            return Err(no_host(net, ip, "the broadcast address of its network"));
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return Ok(net),
    };
    Err(ValueError::new(format!("{} is {kind}", net.addr()), remedy))
}

/// An address with the length of a prefix, whatever its host bits.
pub fn parse_net(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(net) = text.parse() {
        return Ok(net);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        let reason = format!("{text:?} has no prefix length");
        let (net, host) = if ip.is_ipv4() { (24, 32) } else { (64, 128) };
        let remedy =
            format!("write \"{ip}/{host}\" for this address alone, or a length such as /{net} for a network");
        return Err(ValueError::new(reason, remedy));
    }
    let remedy = "write an address and a prefix length, such as \"10.77.0.2/24\" or \"fd77::2/64\"";
    Err(ValueError::new(format!("{text:?} is not an address with a prefix length"), remedy))
}

fn no_host(net: IpNet, ip: IpAddr, kind: &str) -> ValueError {
    let remedy = match net.hosts().find(|host| *host != ip) {
        Some(host) => format!("choose a host's address, such as \"{host}/{}\"", net.prefix_len()),
        None => "choose a host's address".to_owned(),
    };
    ValueError::new(format!("{ip} is {kind}"), remedy)
}

/// In a network of two addresses or one, every address is a host's (RFC 3021, RFC 6164).
fn has_network_address(net: IpNet) -> bool {
    net.max_prefix_len() - net.prefix_len() > 1
}

fn is_network_address(net: IpNet) -> bool {
    has_network_address(net) && net.addr() == net.network()
}

fn is_broadcast_address(net: IpNet) -> bool {
    matches!(net, IpNet::V4(_)) && has_network_address(net) && net.addr() == net.broadcast()
}
