//! Beside what else configures the network of a machine: systemd-networkd, systemd-resolved, NetworkManager.
//!
//! Everything of a van goes through the tunnel, names too, whatever they do.

use std::time::Duration;

use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::poll::wait_for;

use crate::deb;
use crate::machine::{Machine, Root};

/// Until what was undone is done again: a minute at most between attempts, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// An address that is reached through headquarters only.
const ELSEWHERE: &str = "198.51.100.99";

/// How often psmcd has said that somebody has removed its rules.
const RESTORED: &str =
    "journalctl --unit psmcd@van | grep -c 'routes or rules of the tunnel were changed; restored' || true";

/// What systemd-resolved is to know of the tunnel.
const NAMES: &str =
    "resolvectl dns psmc0 | grep -q ' 10.77.0.1$' && resolvectl domain psmc0 | grep -q ' ~\\.$'";

#[test]
fn the_tunnel_lives_beside_networkd_and_resolved() {
    let [van, hq] = prepare("systemd-networkd");
    let before = van.types("ip rule; ip route");
    join(&van, &hq);
    is_well(&van, NAMES);

    // What was removed is there again; and with what is advised nothing is removed.
    assert!(van.types("psmc doctor || true").contains("networkd-removes-rules"));
    let restored = van.types(RESTORED);
    van.types("networkctl reconfigure wan");
    wait_for("removed rules are restored", PATIENCE, || (van.types(RESTORED) != restored).then_some(()));
    is_well(&van, NAMES);
    van.types(
        "mkdir -p /etc/systemd/networkd.conf.d; printf '[Network]\\nManageForeignRoutingPolicyRules=no\\n\
         ManageForeignRoutes=no\\n' > /etc/systemd/networkd.conf.d/psmc.conf; systemctl restart systemd-networkd",
    );
    assert!(!van.types("psmc doctor || true").contains("networkd-removes-rules"));
    let restored = van.types(RESTORED);
    van.types("ip monitor rule > /srv/rules & networkctl reconfigure wan; sleep 1; kill $!");
    is_well(&van, NAMES);
    assert_eq!(van.types("cat /srv/rules"), "");
    assert_eq!(van.types(RESTORED), restored);

    // systemd-resolved is told again of what it has forgotten: by hand, with the interface, or because systemd-networkd takes that over.
    for line in [
        "resolvectl revert psmc0",
        "ip link delete psmc0",
        "printf '[Match]\\nName=*\\n[Network]\\nLLDP=no\\n' > /etc/systemd/network/20-all.network; \
         systemctl restart systemd-networkd",
    ] {
        van.types(line);
        is_well(&van, NAMES);
    }
    // One that does not run cannot be told, until it does: nothing else happens meanwhile.
    van.types("systemctl mask --now systemd-resolved; ip link delete psmc0");
    let refused = "journalctl --unit psmcd@van | grep -q 'cannot set the name servers of `dns`'";
    wait_for("psmcd says that it cannot", PATIENCE, || van.tries(refused).status.success().then_some(()));
    van.types("systemctl unmask systemd-resolved; systemctl start systemd-resolved");
    is_well(&van, NAMES);

    leaves_nothing(&van, &before, "resolvectl dns; resolvectl domain", "10.77.0.1");
}

#[test]
fn the_tunnel_lives_beside_network_manager() {
    let [van, hq] = prepare("NetworkManager");
    van.types(
        "systemctl mask --now systemd-resolved; printf '[main]\\ndns=default\\nrc-manager=file\\n' \
         > /etc/NetworkManager/conf.d/file.conf; rm -f /etc/resolv.conf; systemctl restart NetworkManager; \
         nmcli connection add type ethernet ifname wan con-name wan ipv4.method manual ipv4.addresses 192.0.2.2/24 \
         ipv4.gateway 192.0.2.1 ipv4.dns 192.0.2.53 ipv6.method disabled; nmcli connection up wan",
    );
    let by_manager = "grep -q 'nameserver 192.0.2.5[34]' /etc/resolv.conf";
    wait_for("NetworkManager writes resolv.conf", PATIENCE, || {
        van.tries(by_manager).status.success().then_some(())
    });
    let before = van.types("ip rule; ip route");
    join(&van, &hq);
    // The unit may not write the file, and says who lets it.
    let refused = "journalctl --unit psmcd@van | grep -q 'add `ReadWritePaths=/etc` under'";
    wait_for("psmcd says what to do", PATIENCE, || van.tries(refused).status.success().then_some(()));
    van.types(
        "mkdir /etc/systemd/system/psmcd@van.service.d; printf '[Service]\\nReadWritePaths=/etc\\n' \
         > /etc/systemd/system/psmcd@van.service.d/etc.conf; systemctl daemon-reload; systemctl restart psmcd@van",
    );
    let ours =
        "grep -qx 'nameserver 10.77.0.1' /etc/resolv.conf && ! grep -q 'nameserver 192' /etc/resolv.conf";
    is_well(&van, ours);
    for line in [
        "systemctl restart NetworkManager",
        "nmcli connection modify wan ipv4.dns 192.0.2.54; nmcli connection down wan; nmcli connection up wan",
        "nmcli device disconnect psmc0",
        "nmcli networking off; nmcli networking on",
    ] {
        van.types(line);
        is_well(&van, ours);
    }
    leaves_nothing(&van, &before, "cat /etc/resolv.conf; ls /etc", "10.77.0.1\n");
    van.types("grep -q 'nameserver 192.0.2.54' /etc/resolv.conf && ! test -e /etc/resolv.conf.before-psmc");
}

/// A van whose network this service configures, and headquarters through which it reaches everything.
fn prepare(manager: &str) -> [Machine; 2] {
    let van = Machine::boot_from(Root::with_managers());
    let hq = Machine::boot_from(Root::with_managers());
    link_pair(&van.namespace, "wan", &hq.namespace, "lan").unwrap();
    up(&hq.namespace, "lan", "192.0.2.1/24");
    hq.types(&format!("ip address add {ELSEWHERE}/32 dev lo"));
    for machine in [&van, &hq] {
        let package = machine.root.take(&deb("psmc"));
        machine.types(&format!("dpkg -i {package}"));
    }
    hq.types("psmc init --name hq --endpoint 192.0.2.1 --address 10.77.0.1/24 --internet");
    van.types(
        "printf '[Match]\\nName=wan\\n[Network]\\nAddress=192.0.2.2/24\\nGateway=192.0.2.1\\nDNS=192.0.2.53\\n' \
         > /etc/systemd/network/10-wan.network",
    );
    van.types(&format!("systemctl start systemd-resolved {manager}"));
    [van, hq]
}

fn up(host: &Namespace, name: &str, address: &str) {
    host.add_address(name, address.parse().unwrap()).unwrap();
    host.set_link(name, true).unwrap();
}

fn join(van: &Machine, hq: &Machine) {
    wait_for("the uplink", PATIENCE, || {
        van.tries("ip route | grep -q '^default via 192.0.2.1'").status.success().then_some(())
    });
    let printed = hq.types("psmc invite van");
    let line = printed.split('\'').find(|part| part.starts_with("psmc:")).unwrap();
    van.types(&format!("psmc join '{line}'"));
    van.types("sed -i 's/^# dns = .*/dns = [\"10.77.0.1\"]/' /etc/psmc/van.toml && psmc reload || true");
}

/// Everything goes through the tunnel, and `names` says that names do.
fn is_well(van: &Machine, names: &str) {
    let all = format!(
        "ip route get {ELSEWHERE} | grep -q 'dev psmc0' && ping -c 1 -W 1 {ELSEWHERE} >/dev/null && {names}"
    );
    wait_for("everything goes through the tunnel", PATIENCE, || {
        van.tries(&all).status.success().then_some(())
    });
}

/// Neither one that was killed, after `psmc clean`, nor one that was stopped leaves anything; `names` prints what the machine asks.
fn leaves_nothing(van: &Machine, before: &str, names: &str, ours: &str) {
    let is_clean = || {
        assert_eq!(van.types("ip rule; ip route"), before);
        let said = van.types(names);
        assert!(!said.contains(ours), "{said}");
    };
    van.types("kill -KILL $(systemctl show --property MainPID --value psmcd@van); systemctl stop psmcd@van; psmc clean");
    is_clean();
    van.types("systemctl start psmcd@van");
    wait_for("the tunnel is up again", PATIENCE, || {
        van.tries(&format!("ping -c 1 -W 1 {ELSEWHERE}")).status.success().then_some(())
    });
    van.types("systemctl stop psmcd@van");
    is_clean();
}
