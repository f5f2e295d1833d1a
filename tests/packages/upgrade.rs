//! Packages installed, used, upgraded and removed.

use std::process::Stdio;
use std::time::Duration;

use psmc_testbed::netns::link_pair;
use psmc_testbed::poll::wait_for;

use crate::machine::{Machine, Root};
use crate::{NAMES, NEWER, deb, newer_deb};

/// The address of headquarters in the tunnel.
const INSIDE: &str = "10.77.0.1";

/// Until a tunnel is up, or gone.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn purged_packages_leave_nothing() {
    let root = Root::new();
    let before = (root.listing(), root.types("cat /etc/passwd /etc/group"));
    for name in NAMES {
        let file = root.take(&deb(name));
        root.types(&format!("dpkg -i {file} && rm {file}"));
    }
    root.types(
        "psmc init --no-start --name hq --endpoint 203.0.113.5 && systemctl enable psmcd@hq psmc-relay@fra1",
    );
    root.types("test -L /etc/systemd/system/multi-user.target.wants/psmcd@hq.service");
    root.types("systemd-analyze verify /usr/lib/systemd/system/psmc*@.service && rm -r /run/systemd");
    for user in ["psmc-relay", "psmc-dns", "psmc-front", "psmc-coordinator"] {
        let owner = root.types(&format!("stat --format %U /etc/{user}"));
        assert_eq!(owner, format!("{user}\n"));
        root.types(&format!(
            "mkdir -p /var/lib/{user} /run/{user} && touch /etc/{user}/key /var/lib/{user}/state"
        ));
    }
    // What the resolver of `psmc` has beside the name server stays until both are gone.
    root.types("dpkg --purge psmc-dns && test -e /etc/psmc-dns/key && getent passwd psmc-dns");
    let rest: Vec<&str> = NAMES.into_iter().filter(|name| *name != "psmc-dns").collect();
    root.types(&format!("dpkg --purge {}", rest.join(" ")));
    let after = (root.listing(), root.types("cat /etc/passwd /etc/group"));
    assert_eq!(before.1, after.1);
    for line in after.0.lines().filter(|line| !before.0.contains(line)) {
        println!("left: {line}");
    }
    assert!(before.0 == after.0, "something is left, or missing");
}

#[test]
fn a_tunnel_stays_up_while_its_package_is_upgraded() {
    let (hq, van) = (Machine::boot(), Machine::boot());
    link_pair(&van.namespace, "wan", &hq.namespace, "lan").unwrap();
    for (machine, name, address) in [(&hq, "lan", "192.0.2.1/24"), (&van, "wan", "192.0.2.2/24")] {
        machine.namespace.add_address(name, address.parse().unwrap()).unwrap();
        machine.namespace.set_link(name, true).unwrap();
        let package = machine.root.take(&deb("psmc"));
        machine.types(&format!("dpkg -i {package}"));
    }
    hq.types(&format!("psmc init --name hq --endpoint 192.0.2.1 --address {INSIDE}/24"));
    let printed = hq.types("psmc invite van");
    let line = printed.split('\'').find(|part| part.starts_with("psmc:")).unwrap();
    van.types(&format!("psmc join '{line}'"));
    van.types(&format!("ping -c 3 {INSIDE}"));
    let upgraded = [(&hq, "psmcd@hq"), (&van, "psmcd@van")];
    for (machine, unit) in upgraded {
        machine.types(&format!("systemctl is-enabled {unit} && systemctl is-active {unit}"));
    }

    let mut ping = van.command("ping");
    let ping = ping.args(["-n", "-i", "0.02", INSIDE]).stdout(Stdio::piped()).spawn().unwrap();
    for (machine, unit) in upgraded {
        let process = machine.types(&format!("systemctl show --property MainPID --value {unit}"));
        let package = machine.root.take(&newer_deb());
        let printed = machine.types(&format!("dpkg -i {package}"));
        assert!(printed.contains(&format!("systemctl restart {unit}")), "{printed}");
        assert_eq!(machine.types("dpkg-query --show --showformat '${Version}' psmc"), NEWER);
        assert_eq!(machine.types(&format!("systemctl show --property MainPID --value {unit}")), process);
        let program = machine.types(&format!("readlink /proc/{}/exe", process.trim()));
        assert!(program.contains("deleted"), "the file was not replaced: {program}");
    }
    van.types("pkill -INT ping");
    let said = String::from_utf8(ping.wait_with_output().unwrap().stdout).unwrap();
    let (sent, answered) = pings(&said);
    let last = last_answered(&said);
    println!("{answered} of {sent} pings were answered during the upgrade, the last of them number {last}");
    // Those of half a second may have been on their way at the end: this machine stands still for so long when others use its disk.
    assert!(sent > 20 && answered == last && last + 25 >= sent, "{said}");

    for (machine, unit) in upgraded {
        machine.types(&format!("systemctl restart {unit}"));
    }
    is_up(&van);
    a_purged_machine_is_clean(&van);
}

fn is_up(van: &Machine) {
    let answers = || van.tries(&format!("ping -c 1 -W 1 {INSIDE}")).status.success().then_some(());
    wait_for("the tunnel is up with the new program", PATIENCE, answers);
}

#[test]
fn a_relay_runs_as_a_user_of_its_own() {
    let machine = Machine::boot();
    for name in ["psmc", "psmc-relay"] {
        let package = machine.root.take(&deb(name));
        machine.types(&format!("dpkg -i {package}"));
    }
    // As docs/RELAY.md has it.
    machine
        .types("umask 077; cd /etc/psmc-relay; psmc genkey > fra1.key; psmc genkey | psmc pubkey > van.pub");
    machine.types(
        "cd /etc/psmc-relay; printf '[relay]\nname = \"fra1\"\nprivate_key_file = \"%s/fra1.key\"\n\
         [[allow]]\nname = \"van\"\npublic_key = \"%s\"\n' \"$PWD\" \"$(cat van.pub)\" > fra1.toml; \
         chown -R psmc-relay /etc/psmc-relay",
    );
    machine.types("systemctl enable --now psmc-relay@fra1 && systemctl reload psmc-relay@fra1");
    let process = machine.types("systemctl show --property MainPID --value psmc-relay@fra1");
    let process = process.trim();
    let user = format!("id --name --user $(awk '/^Uid:/ {{ print $2 }}' /proc/{process}/status)");
    assert_eq!(machine.types(&user), "psmc-relay\n");
    // Its memory is nobody's but root's, although it runs as that user.
    assert_eq!(machine.types(&format!("stat --format %U /proc/{process}/mem")), "root\n");
    let read = format!("runuser -u psmc-relay -- head -c 1 /proc/{process}/maps || true");
    assert_eq!(machine.types(&read), "");
    assert!(machine.types("psmc-relay status").contains("relay fra1"));
    machine.types("dpkg --purge psmc-relay");
    assert_eq!(machine.types("cat /proc/[0-9]*/comm | grep psmc || true"), "");
    assert_eq!(
        machine.types("find /etc /run /var/lib -xdev -name 'psmc-relay*' ! -path '/var/lib/dpkg/*'"),
        ""
    );
}

/// What ran is stopped, and gone with all its files.
fn a_purged_machine_is_clean(machine: &Machine) {
    machine.types("dpkg --purge psmc");
    for (line, nothing) in [
        ("systemctl list-units --all --plain --no-legend 'psmc*'", ""),
        ("ls /sys/class/net /proc/sys/net/ipv4/conf | grep psmc || true", ""),
        ("find / -xdev -name '*psmc*' ! -path '/srv/*' ! -path '/var/log/*'", ""),
        ("cat /proc/[0-9]*/comm | grep psmc || true", ""),
    ] {
        assert_eq!(machine.types(line), nothing);
    }
}

/// The number of the last packet of ping(8) that was answered.
fn last_answered(said: &str) -> u32 {
    let numbers = said.split("icmp_seq=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok());
    numbers.max().unwrap_or_default()
}

/// How many packets ping(8) has sent, and how many answers it got.
fn pings(said: &str) -> (u32, u32) {
    let summary =
        said.lines().find(|line| line.contains("packets transmitted")).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<u32> = summary.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}
