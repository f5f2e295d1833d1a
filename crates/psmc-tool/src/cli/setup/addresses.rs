//! Addresses of sites in a tunnel that nobody has planned.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use psmc_net::keys::random_seed;
use psmcd::config::{AllowedNet, Config};

/// Addresses of a first site: of an IPv4 network of 254 hosts that few others use, and of a unique local one (RFC 4193 §3.2.2).
pub(super) fn of_first_site() -> Vec<IpNet> {
    let random = random_seed();
    let [a, b, c, d, e, f, g, ..] = random;
    // 10.64.0.0 to 10.127.255.255: people begin to count at 10.0.0.0.
    let v4 = Ipv4Addr::new(10, 64 + a % 64, b, 1);
    let v6 = Ipv6Addr::from([0xfd, c, d, e, f, g, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    [(IpAddr::V4(v4), 24), (IpAddr::V6(v6), 64)]
        .into_iter()
        .filter_map(|(address, length)| IpNet::new(address, length).ok())
        .collect()
}

/// A free address in each network of a site, as networks of one host; `None` if one of them is full.
pub(super) fn free(config: &Config) -> Option<Vec<AllowedNet>> {
    let peers = config.peers.iter().flat_map(|peer| &peer.allowed_ips);
    let invited = config.invitations.iter().flat_map(|invitation| &invitation.allowed_ips);
    let taken: Vec<IpNet> = peers.chain(invited).map(|allowed| allowed.net()).collect();
    let own: Vec<IpAddr> = config.site.addresses.iter().map(IpNet::addr).collect();
    let is_free = |address: &IpAddr| {
        // Networks that hold all of the tunnel are those of a peer that leads elsewhere.
        let is_taken = |net: &IpNet| net.contains(address) && !own.iter().any(|own| net.contains(own));
        !own.contains(address) && !taken.iter().any(is_taken)
    };
    let found = config.site.addresses.iter().map(|own| {
        let free = hosts(*own).find(is_free)?;
        IpNet::from(free).to_string().parse().ok()
    });
    found.collect()
}

/// The hosts of a network, as many as anybody invites.
fn hosts(net: IpNet) -> Box<dyn Iterator<Item = IpAddr>> {
    const MOST: usize = 1 << 16;
    match net {
        IpNet::V4(net) => Box::new(Ipv4Net::hosts(&net).take(MOST).map(IpAddr::V4)),
        // The first one is that of all routers (RFC 4291 §2.6.1).
        IpNet::V6(net) => Box::new(Ipv6Net::hosts(&net).skip(1).take(MOST).map(IpAddr::V6)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(rest: &str) -> Config {
        let text = format!(
            "[site]\nname = \"hq\"\nprivate_key = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n\
             addresses = [\"10.77.0.1/29\", \"fd77::1/64\"]\nlisten = 5115\n{rest}"
        );
        Config::parse(&text, Path::new("hq.toml")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn peer(name: &str, seed: u8, networks: &str) -> String {
        let key = psmc_net::keys::PrivateKey::from_seed([seed; 32]).public();
        format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\nallowed_ips = [{networks}]\n")
    }

    fn found(rest: &str) -> Option<Vec<String>> {
        Some(free(&config(rest))?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_first_address_that_nobody_has_is_given() {
        assert_eq!(found("").unwrap(), ["10.77.0.2/32", "fd77::2/128"]);
        let van = peer("van", 7, "\"10.77.0.2/31\", \"fd77::3/128\"");
        let exit = peer("exit", 8, "\"0.0.0.0/0\"");
        assert_eq!(found(&format!("{van}{exit}")).unwrap(), ["10.77.0.4/32", "fd77::2/128"]);
        assert_eq!(found(&peer("van", 7, "\"10.77.0.2/31\", \"10.77.0.4/30\"")), None);
    }

    #[test]
    fn networks_of_first_sites_differ() {
        let [a, b] = [of_first_site(), of_first_site()];
        assert_ne!(a[1].trunc(), b[1].trunc());
        assert!(a[0].to_string().starts_with("10.") && a[0].to_string().ends_with(".1/24"));
        assert!(a[1].to_string().starts_with("fd") && a[1].to_string().ends_with("::1/64"));
    }
}
