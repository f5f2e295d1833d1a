//! What is in the way of a configuration on this machine, though the file is right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use jiff::Zoned;
use psmc_net::netlink::{Netlink, NetlinkError, Uplink};
use psmc_service::{open_files, programs};

use crate::config::{AllowedNet, Config, Endpoint, Exclusion, Host, Internet, Name, Paths, Peer, Site};
use crate::daemon::{Numbers, lookup};
use crate::quota::in_words;
use crate::quota::ledger::Stage;
use crate::quota::store::Usage;

/// What a person should know of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub obstacle: Obstacle,
    /// What is so.
    pub seen: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a [`Notice`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The private key could be a public one.
    KeyMayBePublic,
    /// Too few files may be open.
    FewOpenFiles,
    /// The kernel drops what peers send that dial in.
    StrictFilter,
    /// An uplink is in the tunnel's own network.
    UplinkInside,
    /// Nothing is forwarded to the network behind this machine.
    ForwardsNothing,
    /// A network of a peer is also one of this machine.
    Hidden,
    /// A program that the configuration needs is not there.
    ProgramMissing,
    /// A control group that is excluded is not there.
    CgroupMissing,
    /// A name server of the tunnel is behind no peer.
    NameServerOutside,
    /// More than a quota was used already.
    QuotaUsedUp,
    /// What was used of quotas cannot be read.
    QuotaUnknown,
    /// IPv4 goes through the tunnel, and IPv6 does not.
    BesideTunnel,
    /// Uplinks and endpoint have no version of IP in common.
    NoCommonVersion,
}

impl Notice {
    fn new(obstacle: Obstacle, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { obstacle, seen: seen.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.seen, self.remedy)
    }
}

/// All that a person should know before psmcd is started here with this configuration. To be called outside of a runtime.
#[must_use]
pub fn notices(config: &Config) -> Vec<Notice> {
    let mut notices: Vec<Notice> = of_key(&config.site).into_iter().collect();
    notices.extend(of_internet(config));
    notices.extend(of_quotas(config, &Zoned::now()));
    notices.extend(open_files::most().ok().and_then(|most| too_few_files(config, most)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Who may not ask the kernel is not the one who starts psmcd.
    notices.extend(
        runtime.ok().and_then(|runtime| runtime.block_on(of_network(config)).ok()).unwrap_or_default(),
    );
    notices
}

/// What to say of a private key that could be a public one as well.
#[must_use]
pub fn of_key(site: &Site) -> Option<Notice> {
    site.private_key.may_be_public().then(|| {
        Notice::new(
            Obstacle::KeyMayBePublic,
            "the private key has the form of a public key, as one in sixteen has that `psmc genkey` did not make",
            "see that no public key was put in its place",
        )
    })
}

/// What is missing here for what the site does about the Internet.
#[must_use]
pub fn of_internet(config: &Config) -> Vec<Notice> {
    let Internet { is_offered, dns, kill_switch, exclude } = &config.site.internet;
    let by_mark = |excluded: &Exclusion| matches!(excluded, Exclusion::User(_) | Exclusion::Cgroup(_));
    let mut notices = Vec::new();
    if (*is_offered || *kill_switch || exclude.iter().any(by_mark)) && programs::find("nft").is_err() {
        notices.push(Notice::new(
            Obstacle::ProgramMissing,
            "`internet`, `kill_switch`, and `exclude` with users or control groups need the program `nft`",
            "install nftables",
        ));
    }
    for excluded in exclude {
        if let Exclusion::Cgroup(path) = excluded
            && !cgroup_folder(path).is_dir()
        {
            let folder = cgroup_folder(path);
            notices.push(Notice::new(
                Obstacle::CgroupMissing,
                format!("there is no control group {}", folder.display()),
                "what is to be excluded is led into the tunnel until there is one: see that the path is right",
            ));
        }
    }
    let nets = || config.peers.iter().flat_map(|peer| &peer.allowed_ips).map(|allowed| allowed.net());
    for server in dns.iter().filter(|server| !nets().any(|net| net.contains(*server))) {
        notices.push(Notice::new(
            Obstacle::NameServerOutside,
            format!("the name server {server} of `dns` is behind no peer, and asked outside the tunnel"),
            "name one that is in a peer's `allowed_ips`",
        ));
    }
    notices
}

/// What was used of quotas before psmcd is started.
#[must_use]
pub fn of_quotas(config: &Config, now: &Zoned) -> Vec<Notice> {
    let listed = config.peers.iter().filter_map(|peer| match &peer.paths {
        Paths::EveryUplink => None,
        Paths::Listed(paths) => Some(paths),
    });
    let with_quota = listed.flatten().filter_map(|path| Some((path.uplink(), path.quota?)));
    let quotas: BTreeMap<_, _> = with_quota.collect();
    if quotas.is_empty() {
        return Vec::new();
    }
    let file = &config.site.state_file;
    let usage = match Usage::read(file) {
        Ok(usage) => usage,
        // Whoever may not look is not the one who starts psmcd.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Vec::new(),
        Err(error) => {
            return vec![Notice::new(
                Obstacle::QuotaUnknown,
                format!("cannot read what was used of quotas from {}: {error}", file.display()),
                "psmcd would count from zero, and in memory only: mend the file, or remove it",
            )];
        }
    };
    let used_up = quotas.iter().filter_map(|(uplink, quota)| {
        let mut ledger = *usage.uplinks.get(uplink)?;
        ledger.charge(quota, 0, now);
        let (used, of, then) = (in_words(ledger.used), in_words(quota.bytes), quota.then);
        (ledger.stage(quota) == Stage::UsedUp).then(|| {
            Notice::new(
                Obstacle::QuotaUsedUp,
                format!(
                    "the uplink {uplink} has used {used} of its quota of {of}: its paths begin as \"{then}\""
                ),
                "raise `bytes` if there is more to be used in this period",
            )
        })
    });
    used_up.collect()
}

/// Where a control group (version 2) is, of which nftables knows the path.
pub(crate) fn cgroup_folder(path: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(path)
}

/// What to say if so many open files are less than the configuration may need.
#[must_use]
pub fn too_few_files(config: &Config, most: u64) -> Option<Notice> {
    let needed = config.open_files();
    (needed as u64 > most).then(|| {
        Notice::new(
            Obstacle::FewOpenFiles,
            format!("this configuration may need {needed} open files, and psmcd may have {most}"),
            "raise `LimitNOFILE=` in its unit, or the hard limit, `ulimit -Hn`",
        )
    })
}

/// What a person should know of the network of this machine.
///
/// # Errors
/// What the kernel says.
pub async fn of_network(config: &Config) -> Result<Vec<Notice>, NetlinkError> {
    let netlink = Netlink::new()?;
    let uplinks = netlink.uplinks(&[]).await?;
    let mut notices =
        of_uplinks(&netlink, &uplinks, &config.site, &config.peers.iter().collect::<Vec<_>>()).await?;
    notices.extend(unforwarded(&netlink, &uplinks, config).await?);
    Ok(notices)
}

/// What a person should know of these uplinks of a site with these peers.
pub(crate) async fn of_uplinks(
    netlink: &Netlink,
    uplinks: &[Uplink],
    site: &Site,
    peers: &[&Peer],
) -> Result<Vec<Notice>, NetlinkError> {
    let mut notices = Vec::new();
    let is_called = peers.iter().any(|peer| peer.endpoint.is_none());
    let is_default = |allowed: &AllowedNet, is_v6| {
        allowed.net().prefix_len() == 0 && allowed.net().addr().is_ipv6() == is_v6
    };
    let is_led =
        |is_v6| peers.iter().flat_map(|peer| &peer.allowed_ips).any(|allowed| is_default(allowed, is_v6));
    let is_full = is_led(false);
    if is_full && !is_led(true) && !site.internet.kill_switch && uplinks.iter().any(|uplink| uplink.v6) {
        notices.push(Notice::new(
            Obstacle::BesideTunnel,
            "IPv4 goes through the tunnel, and IPv6 beside it",
            "give the sites addresses of IPv6 and a peer \"::/0\", or set `kill_switch`",
        ));
    }
    for (position, uplink) in uplinks.iter().enumerate() {
        let is_used_for_answers = position == 0 && !is_full;
        if is_called && !is_used_for_answers && is_strict(&uplink.name) {
            notices.push(strict_filter(&uplink.name));
        }
        let addresses = netlink.addresses(uplink.index).await?;
        let inside = addresses.iter().filter(|address| is_inside(address.addr(), &site.addresses));
        notices.extend(inside.map(|address| uplink_inside(&uplink.name, *address)));
    }
    Ok(notices)
}

/// Whether an address is in a network of the tunnel's interface.
pub(crate) fn is_inside(address: IpAddr, own: &[IpNet]) -> bool {
    own.iter().any(|own| own.contains(&address))
}

fn uplink_inside(name: &str, address: IpNet) -> Notice {
    Notice::new(
        Obstacle::UplinkInside,
        format!(
            "the uplink {name} has the address {address}, in the tunnel's own network, whose hosts are reached through the tunnel \
             only if a peer has them in its allowed_ips"
        ),
        "choose other `addresses`",
    )
}

/// What a person has to know whose peers are not heard over an uplink.
fn strict_filter(interface: &str) -> Notice {
    Notice::new(
        Obstacle::StrictFilter,
        format!(
            "rp_filter is strict on {interface}, so that the kernel drops datagrams of peers that dial in over it, unless it would \
             answer by it"
        ),
        format!("`sysctl -w net.ipv4.conf.{interface}.rp_filter=2` lets them in"),
    )
}

/// What a person has to know who has a network of a peer.
#[must_use]
pub fn hidden(net: IpNet) -> Notice {
    Notice::new(
        Obstacle::Hidden,
        format!("{net} is also a network of this host, so that nothing of it goes through the tunnel"),
        "if it is the peer's that you want, leave that network, or have one of the two renumbered",
    )
}

/// What a person has to know whose uplinks and endpoint have no version of IP in common; `nat64` is the prefix of this network's
/// NAT64.
#[must_use]
pub fn no_common_version(
    peer: &Name,
    endpoint: &Endpoint,
    remotes: &[SocketAddr],
    nat64: Option<Ipv6Addr>,
) -> Notice {
    let v4 = remotes.iter().find_map(|remote| match remote.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let lacks = if v4.is_some() { "IPv6" } else { "IPv4" };
    let through = match (v4, nat64) {
        (Some(v4), Some(prefix)) => {
            let there = Ipv6Addr::from_bits(prefix.to_bits() | u128::from(v4.to_bits()));
            format!("; this network has NAT64, through which it is [{there}]:{}", endpoint.port)
        }
        (_, _) => String::new(),
    };
    Notice::new(
        Obstacle::NoCommonVersion,
        format!(
            "no uplink leads to {peer}, as the uplinks have {lacks} only, and the endpoint {endpoint} has no {lacks} address"
        ),
        format!("give {peer} one{through}"),
    )
}

/// The prefix of this network's NAT64, if it has one (RFC 7050): what it makes of the addresses of a name that has none of
/// IPv6. Only prefixes of 96 bits, which nearly all are.
pub async fn nat64_prefix() -> Option<Ipv6Addr> {
    prefix_of(&lookup("ipv4only.arpa", 0).await)
}

fn prefix_of(made: &[SocketAddr]) -> Option<Ipv6Addr> {
    const KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
    made.iter().find_map(|address| {
        let IpAddr::V6(address) = address.ip() else { return None };
        let known = KNOWN.iter().find(|known| address.octets().ends_with(&known.octets()))?;
        Some(Ipv6Addr::from_bits(address.to_bits() ^ u128::from(known.to_bits())))
    })
}

/// The addresses of an endpoint as psmcd finds them, those first to which a route leads; none if its name has none.
pub async fn addresses_of(endpoint: &Endpoint) -> Vec<SocketAddr> {
    match &endpoint.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, endpoint.port.get())],
        Host::Dns(name) => lookup(name.as_str(), endpoint.port.get()).await,
    }
}

/// By what a site's packets, rules and routes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The mark on what the site sends itself.
    pub mark: u32,
    /// The tables with its routes.
    pub tables: [u32; 2],
}

impl Marks {
    /// Those of a site.
    #[must_use]
    pub fn of(site: &Site) -> Self {
        let numbers = Numbers::of(site.private_key.public());
        Self { mark: numbers.mark.get(), tables: [numbers.table, numbers.back_table] }
    }
}

/// Has nothing that this process sends by itself go through the tunnel of the site, nor come from an address in it.
pub fn keep_outside(site: &Site) {
    psmc_net::mark::set(Numbers::of(site.private_key.public()).mark);
    psmc_net::mark::set_inside(site.addresses.iter().map(IpNet::addr).collect());
}

/// Whether the kernel lets packets in by this interface only if it would send those back by it (RFC 3704, section 2.2): the
/// greater one of two settings counts, and 2 is loose.
pub(crate) fn is_strict(interface: &str) -> bool {
    let filter = |name: &str| -> u8 {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    filter("all").max(filter(interface)) == 1
}

/// Networks that peers might want to reach behind this site, while the kernel forwards nothing. The file does not name them: peers'
/// files do. So it is said only where somebody calls this site, or where a link is no uplink.
async fn unforwarded(
    netlink: &Netlink,
    uplinks: &[Uplink],
    config: &Config,
) -> Result<Option<Notice>, NetlinkError> {
    if config.site.internet.is_offered || !forwards_nothing(Ipv4Addr::UNSPECIFIED.into()) {
        return Ok(None);
    }
    let is_called = config.peers.iter().any(|peer| peer.endpoint.is_none());
    let mut networks = BTreeSet::new();
    for name in netlink.link_names().await? {
        let Ok(index) = netlink.link_index(&name).await else { continue };
        let addresses = netlink.addresses(index).await?;
        let is_ours = addresses.iter().any(|address| is_inside(address.addr(), &config.site.addresses));
        let is_uplink = uplinks.iter().any(|uplink| uplink.index == index);
        if is_ours || is_uplink && !is_called {
            continue;
        }
        let private = addresses.iter().filter(|address| has_others(address));
        networks.extend(private.map(|address| format!("{} on {name}", address.trunc())));
    }
    let listed = networks.into_iter().collect::<Vec<_>>().join(", ");
    Ok((!listed.is_empty()).then(|| {
        Notice::new(
            Obstacle::ForwardsNothing,
            format!("this machine forwards no packets, so that peers do not reach the network behind it ({listed})"),
            format!("if they are to, run `sysctl -w {IP_FORWARD}=1`, and write that into /etc/sysctl.d"),
        )
    }))
}

/// Whether the address is of a private network (RFC 1918) in which there may be other hosts.
fn has_others(address: &IpNet) -> bool {
    let IpNet::V4(address) = address else { return false };
    address.addr().is_private() && address.prefix_len() < 31
}

/// The sysctl that has the kernel forward packets to addresses of IPv4, and of IPv6.
const IP_FORWARD: &str = "net.ipv4.ip_forward";
const IP6_FORWARD: &str = "net.ipv6.conf.all.forwarding";

/// The sysctl that has the kernel forward packets to addresses of this family.
#[must_use]
pub fn forwarding_sysctl(address: IpAddr) -> &'static str {
    if address.is_ipv4() { IP_FORWARD } else { IP6_FORWARD }
}

/// Whether the kernel forwards nothing to such an address. What cannot be read is taken to be right.
#[must_use]
pub fn forwards_nothing(address: IpAddr) -> bool {
    let file = format!("/proc/sys/{}", forwarding_sysctl(address).replace('.', "/"));
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "0")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_private_key_that_may_be_a_public_one_is_warned_of() {
        let text = include_str!("../../psmc-tool/tests/check/good/minimal.toml");
        let parse = |text: &str| Config::parse(text, Path::new("van.toml")).unwrap();
        assert_eq!(of_key(&parse(text).site), None);
        let public = parse(text).site.private_key.public().to_string();
        let private = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let said = of_key(&parse(&text.replace(private, &public)).site).unwrap().to_string();
        assert!(said.contains("form of a public key"), "{said}");
    }

    #[test]
    fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
        let text = include_str!("../../psmc-tool/tests/check/good/minimal.toml");
        let config = Config::parse(text, Path::new("van.toml")).unwrap();
        let needed = config.open_files() as u64;
        assert_eq!(too_few_files(&config, needed), None);
        let said = too_few_files(&config, needed - 1).unwrap().to_string();
        assert!(said.contains(&needed.to_string()) && said.contains("LimitNOFILE="), "{said}");
    }

    #[test]
    fn who_has_no_common_version_is_told_which() {
        let remotes = ["203.0.113.5:5115".parse().unwrap()];
        let say = |nat64| {
            no_common_version(&"hq".parse().unwrap(), &"203.0.113.5:5115".parse().unwrap(), &remotes, nat64)
                .to_string()
        };
        let said = say(None);
        assert!(said.contains("has no IPv6 address") && !said.contains("NAT64"), "{said}");
        let prefix = prefix_of(&["192.0.0.170:0", "[64:ff9b::c000:ab]:0"].map(|text| text.parse().unwrap()));
        assert!(say(prefix).contains("[64:ff9b::cb00:7105]:5115"), "{}", say(prefix));
    }
}
