//! Every link and every tunnel has a network of its own, and each end an address in it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use psmc_toml::Complaint;
use toml::Spanned;

use crate::scenario::draft::Draft;

/// The addresses of both ends.
pub(super) type Pair = [Vec<IpNet>; 2];

/// The addresses of every link and of every tunnel, in the order of the file.
pub(super) struct Addresses {
    pub(super) links: Vec<Pair>,
    pub(super) tunnels: Vec<Pair>,
}

/// A network that the file gives, where, and to what.
type Given = (IpNet, Range<usize>, usize);

impl Addresses {
    /// Those of the file, and others for links and tunnels without. `None` if something is wrong with them.
    pub(super) fn of(draft: &Draft, out: &mut Vec<Complaint>) -> Option<Self> {
        let before = out.len();
        let links = draft.links.iter().map(|link| link.addresses.as_ref());
        let tunnels = draft.tunnels.iter().map(|tunnel| tunnel.addresses.as_ref());
        let mut given = Vec::new();
        for (index, addresses) in links.clone().chain(tunnels.clone()).enumerate() {
            if let Some(addresses) = addresses {
                ends_meet(addresses, index, &mut given, out);
            }
        }
        disjoint(&mut given, out);
        let routed = draft.tunnels.iter().flat_map(|tunnel| tunnel.networks.iter().flatten().flatten());
        let taken: Vec<IpNet> =
            given.iter().map(|(net, _, _)| *net).chain(routed.map(|network| *network.get_ref())).collect();
        let mut for_links = free(&taken, (0..LINK_NETWORKS).map(link_network));
        let mut for_tunnels = free(&taken, (0..TUNNEL_NETWORKS).map(tunnel_network));
        let mut for_tunnels_v6 = free(&taken, (0..TUNNEL_NETWORKS).map(tunnel_network_v6));
        let all = Self {
            links: links.map(|given| given.map_or_else(|| hosts(for_links.next(), [1, 2]), plain)).collect(),
            tunnels: tunnels
                .map(|given| given.map_or_else(|| both(for_tunnels.next(), for_tunnels_v6.next()), plain))
                .collect(),
        };
        let faulty = draft.links.iter().any(|link| link.has_addresses && link.addresses.is_none())
            || draft.tunnels.iter().any(|tunnel| tunnel.has_addresses && tunnel.addresses.is_none());
        (out.len() == before && !faulty).then_some(all)
    }
}

fn plain(addresses: &[Vec<Spanned<IpNet>>; 2]) -> Pair {
    [0, 1].map(|end| addresses[end].iter().map(|address| *address.get_ref()).collect())
}

/// Each address has another one at the far end in its network, and none stands twice.
fn ends_meet(
    addresses: &[Vec<Spanned<IpNet>>; 2],
    index: usize,
    given: &mut Vec<Given>,
    out: &mut Vec<Complaint>,
) {
    let mut seen: BTreeMap<IpAddr, Range<usize>> = BTreeMap::new();
    let mut networks = BTreeMap::new();
    for (end, address) in
        [0, 1].into_iter().flat_map(|end| addresses[end].iter().map(move |address| (end, address)))
    {
        let net = *address.get_ref();
        if let Some(first) = seen.insert(net.addr(), address.span()) {
            let complaint = Complaint::new(
                format!("the address {} is given twice", net.addr()),
                "give each end one of its own",
            );
            out.push(complaint.at(address.span()).because_of(first, "here already"));
        }
        if !addresses[1 - end].iter().any(|other| other.get_ref().trunc() == net.trunc()) {
            out.push(no_partner(net, address.span()));
        }
        networks.entry(net.trunc()).or_insert_with(|| address.span());
    }
    given.extend(networks.into_iter().map(|(net, place)| (net, place, index)));
}

fn no_partner(net: IpNet, place: Range<usize>) -> Complaint {
    let other = net.hosts().find(|host| *host != net.addr());
    let remedy = match other {
        Some(host) => {
            format!("give the other end one in {}, such as \"{host}/{}\"", net.trunc(), net.prefix_len())
        }
        None => "choose a shorter prefix, with room for both ends".to_owned(),
    };
    Complaint::new(format!("the other end has no address in the network of {net}"), remedy).at(place)
}

/// No network lies in that of another link or tunnel: packets would have two ways to go.
fn disjoint(given: &mut [Given], out: &mut Vec<Complaint>) {
    given.sort_by_key(|(net, _, index)| (net.network(), net.prefix_len(), *index));
    // A network that overlaps with others contains them or lies in them, so the last wide one is all to compare with.
    let mut widest: Option<&Given> = None;
    for next in given.iter() {
        match widest {
            Some(wide) if wide.0.contains(&next.0) => {
                if wide.2 != next.2 {
                    out.push(overlap(wide, next));
                }
            }
            Some(_) | None => widest = Some(next),
        }
    }
}

fn overlap(one: &Given, other: &Given) -> Complaint {
    let (first, second) = if one.1.start <= other.1.start { (one, other) } else { (other, one) };
    let reason = format!("the network {} is that of another link or tunnel", second.0);
    let reason = if first.0 == second.0 {
        reason
    } else {
        format!("the networks {} and {} overlap", first.0, second.0)
    };
    let complaint = Complaint::new(reason, "give each a network of its own, or leave the addresses out");
    complaint.at(second.1.clone()).because_of(first.1.clone(), "given here")
}

/// Those of `networks` that overlap with none that is taken.
fn free(taken: &[IpNet], networks: impl Iterator<Item = IpNet>) -> impl Iterator<Item = IpNet> {
    networks.filter(|net| !taken.iter().any(|taken| taken.contains(net) || net.contains(taken)))
}

/// More than there can be links, so that enough are left when a file takes some itself.
const LINK_NETWORKS: u16 = 63 * 256;

/// 10.1.0.0/24, 10.2.0.0/24, … 10.63.0.0/24, 10.1.1.0/24, …
fn link_network(number: u16) -> IpNet {
    let [high, low] = [number % 63 + 1, number / 63].map(low_byte);
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, high, low, 0), 24))
}

const TUNNEL_NETWORKS: u16 = 50 * 256;

/// 10.77.0.0/24, 10.77.1.0/24, …
fn tunnel_network(number: u16) -> IpNet {
    let [high, low] = [number / 256 + 77, number % 256].map(low_byte);
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, high, low, 0), 24))
}

/// fd77::/64, fd77:0:0:1::/64, …
fn tunnel_network_v6(number: u16) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd77, 0, 0, number, 0, 0, 0, 0), 64))
}

fn low_byte(number: u16) -> u8 {
    number.to_be_bytes()[1]
}

/// The ends of a tunnel, of which the second, which is dialled, gets the first address.
fn both(v4: Option<IpNet>, v6: Option<IpNet>) -> Pair {
    let [v4, v6] = [v4, v6].map(|net| hosts(net, [2, 1]));
    [0, 1].map(|end| [v4[end].as_slice(), v6[end].as_slice()].concat())
}

/// The hosts of these numbers in a network.
fn hosts(net: Option<IpNet>, numbers: [u8; 2]) -> Pair {
    numbers.map(|number| net.map(|net| host(net, number)).into_iter().collect())
}

fn host(net: IpNet, number: u8) -> IpNet {
    let address = match net.network() {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | u32::from(number))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | u128::from(number))),
    };
    IpNet::new_assert(address, net.prefix_len())
}
