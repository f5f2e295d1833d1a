//! The machine itself: devices, clock, kernel, counters.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::super::facts::{Machine, Tun};
use super::super::firewall::Ruleset;

/// CAP_NET_ADMIN (capabilities(7)).
const NET_ADMIN: u64 = 1 << 12;

/// Where systemd-networkd keeps its state while it runs, and where it is configured.
const NETWORKD: &str = "/run/systemd/netif/state";
const NETWORKD_FILES: [&str; 4] = [
    "/etc/systemd/networkd.conf",
    "/etc/systemd/networkd.conf.d",
    "/run/systemd/networkd.conf.d",
    "/usr/lib/systemd/networkd.conf.d",
];

/// Whether this process may do to the network what psmcd has to.
pub(super) fn may_administer() -> bool {
    let status = read("/proc/self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & NET_ADMIN != 0)
}

pub(super) fn look(config: Option<&Path>, is_privileged: bool, unseen: &mut Vec<String>) -> Machine {
    let written = config.and_then(|config| fs::metadata(config).and_then(|file| file.modified()).ok());
    Machine {
        tun: tun(is_privileged, unseen),
        kernel: kernel(&read("/proc/sys/kernel/osrelease")),
        now: SystemTime::now(),
        written,
        is_synchronised: psmc_net::clock::is_synchronised().ok(),
        networkd_removes_rules: Path::new(NETWORKD).exists() && !keeps_rules(),
        datagrams: datagrams(&read("/proc/net/snmp"), &read("/proc/net/snmp6")),
    }
}

/// The rules of the firewall; `None` if they cannot be read.
///
/// # Errors
/// If there is no nft.
pub(super) fn ruleset() -> io::Result<Option<Ruleset>> {
    let output = Command::new("nft").args(["-j", "list", "ruleset"]).output()?;
    Ok(Ruleset::parse(&output.stdout))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn tun(is_privileged: bool, unseen: &mut Vec<String>) -> Tun {
    match File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Tun::Fine,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            if is_privileged {
                return Tun::Denied;
            }
            unseen.push("whether there can be a tunnel's interface: /dev/net/tun is for root".to_owned());
            Tun::Fine
        }
        Err(_) => Tun::Missing,
    }
}

fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether systemd-networkd is told to leave rules of others alone.
fn keeps_rules() -> bool {
    let files = NETWORKD_FILES.into_iter().flat_map(|place| match fs::read_dir(place) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(_) => vec![place.into()],
    });
    let text: String = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    let setting =
        |line: &str| line.trim().strip_prefix("ManageForeignRoutingPolicyRules=").map(str::to_owned);
    text.lines().filter_map(setting).any(|value| ["no", "false", "0", "off"].contains(&value.as_str()))
}

/// Datagrams that were received, and those with wrong checksums, of both versions of IP (proc_pid_net(5)).
fn datagrams(v4: &str, v6: &str) -> Option<(u64, u64)> {
    let mut lines = v4.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let of_v4 = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let of_v6 = |wanted: &str| {
        let line = v6.lines().find_map(|line| line.strip_prefix(wanted)).unwrap_or("0");
        line.trim().parse().unwrap_or(0u64)
    };
    Some((
        of_v4("InDatagrams")? + of_v6("Udp6InDatagrams"),
        of_v4("InCsumErrors")? + of_v6("Udp6InCsumErrors"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_two_numbers_at_the_front() {
        assert_eq!(kernel("6.18.5-generic\n"), Some((6, 18)));
        assert_eq!(kernel("4.4-rc1"), Some((4, 4)));
        assert_eq!(kernel(""), None);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let v4 = "Udp: InDatagrams NoPorts InErrors InCsumErrors\nUdp: 100 1 2 3\nUdpLite: InDatagrams\nUdpLite: 9\n";
        let v6 = "Udp6InDatagrams                 \t10\nUdp6InCsumErrors                \t4\n";
        assert_eq!(datagrams(v4, v6), Some((110, 7)));
        assert_eq!(datagrams(v4, ""), Some((100, 3)));
        assert_eq!(datagrams("", ""), None);
    }
}
