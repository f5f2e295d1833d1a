//! What is in the way of a configuration on this machine, though the file is right.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use psmc_net::netlink::{Netlink, NetlinkError, Uplink};
use psmc_service::{open_files, programs};

use crate::config::{AllowedNet, Config, Exclusion, Internet, Peer, Site};

/// All that a person should know before psmcd is started here with this configuration. To be called outside of a runtime.
#[must_use]
pub fn notices(config: &Config) -> Vec<String> {
    let mut notices: Vec<String> = of_key(&config.site).into_iter().collect();
    notices.extend(of_internet(config));
    notices.extend(open_files::most().ok().and_then(|most| too_few_files(config, most)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Who may not ask the kernel is not the one who starts psmcd.
    notices.extend(
        runtime.ok().and_then(|runtime| runtime.block_on(of_network(config)).ok()).unwrap_or_default(),
    );
    notices
}

/// What to say of a private key that could be a public one as well.
fn of_key(site: &Site) -> Option<String> {
    site.private_key.may_be_public().then(|| {
        "the private key has the form of a public key, as one in sixteen has that `psmc genkey` did not make: see that no public \
         key was put in its place"
            .to_owned()
    })
}

/// What is missing here for what the site does about the Internet.
fn of_internet(config: &Config) -> Vec<String> {
    let Internet { is_offered, dns, kill_switch, exclude } = &config.site.internet;
    let by_mark = |excluded: &Exclusion| matches!(excluded, Exclusion::User(_) | Exclusion::Cgroup(_));
    let mut notices = Vec::new();
    if (*is_offered || *kill_switch || exclude.iter().any(by_mark)) && programs::find("nft").is_err() {
        let notice = "`internet`, `kill_switch`, and `exclude` with users or control groups need the program `nft`: install nftables";
        notices.push(notice.to_owned());
    }
    for excluded in exclude {
        if let Exclusion::Cgroup(path) = excluded
            && !cgroup_folder(path).is_dir()
        {
            notices.push(format!(
                "there is no control group {}: what is to be excluded is led into the tunnel until there is one",
                cgroup_folder(path).display()
            ));
        }
    }
    let nets = || config.peers.iter().flat_map(|peer| &peer.allowed_ips).map(|allowed| allowed.net());
    for server in dns.iter().filter(|server| !nets().any(|net| net.contains(*server))) {
        notices.push(format!(
            "the name server {server} of `dns` is behind no peer, and asked outside the tunnel: name one that is in a peer's \
             `allowed_ips`"
        ));
    }
    notices
}

/// Where a control group (version 2) is, of which nftables knows the path.
pub(crate) fn cgroup_folder(path: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(path)
}

/// What to say if so many open files are less than the configuration may need.
pub(crate) fn too_few_files(config: &Config, most: u64) -> Option<String> {
    let needed = config.open_files();
    (needed as u64 > most).then(|| {
        format!(
            "this configuration may need {needed} open files, and psmcd may have {most}: raise `LimitNOFILE=` in its unit, or the \
             hard limit, `ulimit -Hn`"
        )
    })
}

async fn of_network(config: &Config) -> Result<Vec<String>, NetlinkError> {
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
) -> Result<Vec<String>, NetlinkError> {
    let mut notices = Vec::new();
    let is_called = peers.iter().any(|peer| peer.endpoint.is_none());
    let is_default = |allowed: &AllowedNet, is_v6| {
        allowed.net().prefix_len() == 0 && allowed.net().addr().is_ipv6() == is_v6
    };
    let is_led =
        |is_v6| peers.iter().flat_map(|peer| &peer.allowed_ips).any(|allowed| is_default(allowed, is_v6));
    let is_full = is_led(false);
    if is_full && !is_led(true) && !site.internet.kill_switch && uplinks.iter().any(|uplink| uplink.v6) {
        notices.push(
            "IPv4 goes through the tunnel, and IPv6 beside it: give the sites addresses of IPv6 and a peer \"::/0\", or set \
             `kill_switch`"
                .to_owned(),
        );
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

fn uplink_inside(name: &str, address: IpNet) -> String {
    format!(
        "the uplink {name} has the address {address}, in the tunnel's own network: hosts of that network are reached through the \
         tunnel only if a peer has them in its allowed_ips; choose other `addresses`"
    )
}

/// What a person has to know whose peers are not heard over an uplink.
fn strict_filter(interface: &str) -> String {
    format!(
        "rp_filter is strict on {interface}: datagrams of peers that dial in over it are dropped by the kernel, unless it would \
         answer by it; `sysctl -w net.ipv4.conf.{interface}.rp_filter=2` lets them in"
    )
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
) -> Result<Option<String>, NetlinkError> {
    if !forwards_nothing(Ipv4Addr::UNSPECIFIED.into()) {
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
        format!(
            "this machine forwards no packets, so that peers do not reach the network behind it ({listed}): if they are to, run \
             `sysctl -w {IP_FORWARD}=1`, and write that into /etc/sysctl.d"
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
pub(crate) fn forwarding_sysctl(address: IpAddr) -> &'static str {
    if address.is_ipv4() { IP_FORWARD } else { IP6_FORWARD }
}

/// Whether the kernel forwards nothing to such an address. What cannot be read is taken to be right.
pub(crate) fn forwards_nothing(address: IpAddr) -> bool {
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
        let said = of_key(&parse(&text.replace(private, &public)).site).unwrap();
        assert!(said.contains("form of a public key"), "{said}");
    }

    #[test]
    fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
        let text = include_str!("../../psmc-tool/tests/check/good/minimal.toml");
        let config = Config::parse(text, Path::new("van.toml")).unwrap();
        let needed = config.open_files() as u64;
        assert_eq!(too_few_files(&config, needed), None);
        let said = too_few_files(&config, needed - 1).unwrap();
        assert!(said.contains(&needed.to_string()) && said.contains("LimitNOFILE="), "{said}");
    }
}
