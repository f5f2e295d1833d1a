//! `psmc doctor`: a table of set-ups that are broken, each by what breaks them in the world, and one of sound ones.

mod nat;
mod world;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use nix::sys::signal::Signal;
use psmc_net::keys::PrivateKey;

use crate::harness::wait_for;
use world::At::{Hq, Van};
use world::{At, ENDPOINT, ENDPOINT_V6, PATIENCE, World, sh};

/// Breaks a sound set-up, and has it examined: exactly this is wrong, or to be noticed while nothing is wrong.
fn find(name: &str, at: At, part: &str, break_it: fn(&mut World)) {
    let mut world = World::new();
    break_it(&mut world);
    let report = world.doctor(at);
    let (wrong, notices) = (report.names("wrong"), report.names("notice"));
    if notices.contains(&name) {
        assert_eq!((wrong, report.status), (vec![], Some(0)), "{:#}", report.json);
    } else {
        assert_eq!((wrong, report.status), (vec![name], Some(1)), "{:#}", report.json);
    }
    let text = report.json.to_string();
    assert!(text.contains(part), "no {part} in {:#}", report.json);
}

/// Makes a test of each row: what is to be found, where it is looked for, a part of what is said, and what is broken.
macro_rules! broken {
    ($($test:ident $name:literal $at:ident $part:literal |$world:ident| $break_it:block)*) => {
        $(#[test]
        fn $test() {
            find($name, $at, $part, |$world| $break_it);
        })*
    };
}

broken! {
    no_tun_device "tun-missing" Van "modprobe tun" |world| {
        world.start_hq();
        world.see("mount -t tmpfs tmpfs /dev/net");
    }
    a_tun_device_that_may_not_be_opened "tun-denied" Van "/dev/net/tun" |world| {
        world.start_hq();
        world.see("mount -t tmpfs -o nodev tmpfs /dev/net; mknod /dev/net/tun c 10 200");
    }
    a_key_file_that_is_missing "key-file-missing" Van "nowhere.key" |world| {
        key_file(world, "nowhere.key");
    }
    a_key_file_that_others_can_read "key-file-exposed" Van "chmod 600" |world| {
        let key = world.van.key.to_base64().to_string();
        write_key(world, &key, 0o644);
    }
    a_key_file_with_something_else "key-file-wrong" Van "psmc genkey" |world| {
        write_key(world, "correct horse battery staple", 0o600);
    }
    the_own_key_in_the_place_of_the_peers "config-invalid" Van "key" |world| {
        world.edit(Van, &world.hq.key.public().to_string(), &world.van.key.public().to_string());
    }
    a_clock_that_is_behind "clock-wrong" Van "timedatectl" |world| {
        world.start_hq();
        let file = world.van.file("toml");
        world.at(Van, &format!("touch -d '+2 days' {}", file.display()));
    }
    too_few_open_files "open-files-low" Hq "LimitNOFILE=" |world| {
        world.hq.start_with_open_files(200);
        wait_for("the daemon", PATIENCE, || world.hq.try_status());
    }
    a_daemon_that_was_killed "daemon-dead" Van "nobody listens on it" |world| {
        world.start_and_wait(2);
        world.van.kill();
    }
    a_daemon_that_is_stopped "daemon-silent" Van "no answer" |world| {
        world.start_and_wait(2);
        world.van.signal(Signal::SIGSTOP);
    }
    two_sites_with_one_socket "socket-of-another-site" Van "control_socket" |world| {
        world.start_and_wait(2);
        world.van.kill();
        let [own, other] = [world.van.file("sock"), world.hq.file("sock")].map(|file| file.display().to_string());
        world.edit(Van, &own, &other);
    }
    a_port_that_another_program_has "port-in-use" Van "(process " |world| {
        world.start_hq();
        let other = world.van.namespace.run(|| UdpSocket::bind("0.0.0.0:5115")).unwrap();
        world.kept.push(Box::new(other));
    }
    a_network_that_is_local_too "network-hidden" Van "192.168.10.0/24" |world| {
        world.edit(Van, "[\"10.77.0.1/32\"]", "[\"10.77.0.1/32\", \"192.168.10.0/24\"]");
        world.at(Van, LAN);
        world.start_and_wait(2);
    }
    rules_of_another_vpn "route-conflict" Van "lookup 99" |world| {
        world.start_and_wait(2);
        world.at(Van, "ip route add default via 10.1.1.2 table 99; ip rule add priority 100 lookup 99");
    }
    an_uplink_in_the_tunnels_network "uplink-inside" Van "10.77.0.9/24" |world| {
        world.start_hq();
        world.at(Van, "ip addr add 10.77.0.9/24 dev v2");
    }
    a_strict_filter_where_peers_dial_in "rp-filter-strict" Hq "net.ipv4.conf.h2.rp_filter=2" |world| {
        world.at(Hq, "sysctl -qw net.ipv4.conf.h2.rp_filter=1");
        world.start_and_wait(2);
    }
    a_control_group_that_is_not_there "cgroup-missing" Van "no-such.slice" |world| {
        world.edit(Van, "[site]\n", "[site]\nexclude = [\"cgroup:no-such.slice\"]\n");
        world.start_and_wait(2);
    }
    a_firewall_of_its_own_drops_datagrams "firewall-drops" Hq "the rule with handle" |world| {
        world.at(Hq, "nft 'table inet fw { chain in { type filter hook input priority 0; udp dport 5115 counter drop; }; }'");
        world.start();
    }
    a_firewall_of_its_own_lets_in_too_little "firewall-drops" Hq "the policy of" |world| {
        world.at(Hq, "nft 'table inet fw { chain in { type filter hook input priority 0; policy drop;
            iif lo accept; ct state established,related accept; meta l4proto ipv6-icmp accept; tcp dport { 22, 5115 } accept; }; }'");
        world.start();
    }
    a_firewall_of_its_own_lets_nothing_out "firewall-drops" Van "outgoing" |world| {
        world.at(Van, "nft 'table inet fw { chain out { type filter hook output priority 0; udp dport 5115 drop; }; }'");
        world.start();
    }
    a_lan_that_is_announced_and_not_forwarded_to "forwarding-off" Hq "net.ipv4.ip_forward=1" |world| {
        world.at(Hq, LAN);
        world.edit(Hq, "control_socket", "networks = [\"192.168.10.0/24\"]\ncontrol_socket");
        world.start_and_wait(2);
    }
    a_line_that_corrupts "checksum-errors" Van "ethtool" |world| {
        for (site, links) in [(&world.van, ["v1", "v2"]), (&world.hq, ["h1", "h2"])] {
            for link in links {
                site.namespace.disable_offloads(link).unwrap();
            }
        }
        world.start_and_wait(2);
        // As an offload does that is broken: a checksum that fits nothing.
        world.on_routers("nft 'table inet fw { chain out { type filter hook postrouting priority 0;
            oifname van meta l4proto udp numgen random mod 10 0 udp checksum set 57005; }; }'");
        world.van.try_run(&["ping", "-f", "-c", "400", "-w", "5", "10.77.0.1"]);
        world.on_routers("nft flush ruleset");
    }
    a_name_that_nobody_knows "name-unresolved" Van "hq.example" |world| {
        world.edit(Van, ENDPOINT, "hq.example");
        world.name_server(&[]);
    }
    an_endpoint_that_is_the_own_address "endpoint-is-own" Van "10.1.1.1:5115" |world| {
        world.edit(Van, ENDPOINT, "10.1.1.1");
    }
    no_network_at_all "no-uplink" Van "default route" |world| {
        world.at(Van, "ip route flush default; ip -6 route flush default");
        world.start();
    }
    uplinks_of_the_other_version "no-common-version" Van "no IPv6 address" |world| {
        world.at(Van, "ip route flush default");
        world.start();
    }
    a_path_over_an_interface_that_does_not_exist "interface-missing" Van "wwan0" |world| {
        world.list_paths("interface = \"wwan0\"\n");
        world.start_and_wait(1);
    }
    a_path_over_an_interface_that_is_down "interface-down" Van "ip link set v2 up" |world| {
        world.list_paths("");
        world.at(Van, "ip link set v2 down");
        world.start_and_wait(1);
    }
    a_path_from_an_address_of_nobody "address-missing" Van "10.1.2.99" |world| {
        world.list_paths("address = \"10.1.2.99\"\n");
        world.start_and_wait(1);
    }
    a_path_over_an_interface_without_an_address "interface-no-address" Van "no IPv4 address" |world| {
        world.list_paths("");
        world.at(Van, "ip -4 addr flush dev v2");
        world.start_and_wait(1);
    }
    a_path_without_a_route "no-route" Van "metric 200" |world| {
        world.list_paths("");
        world.at(Van, "ip route del default dev v2");
        world.start_and_wait(1);
    }
    a_router_that_is_not_there "gateway-silent" Van "10.1.2.77" |world| {
        world.at(Van, "ip route del default dev v2; ip route add default via 10.1.2.77 dev v2 metric 200");
        world.start_and_wait(1);
    }
    routers_that_drop_everything "peer-unreachable" Van "the last router that answers is 10.1.1.2" |world| {
        world.on_routers(&forward(&format!("ip daddr {ENDPOINT} drop")));
        world.start();
    }
    routers_that_know_no_way "peer-unreachable" Van "that the host is not reached" |world| {
        world.on_routers(&format!("ip route replace unreachable {ENDPOINT}"));
        world.start_hq();
    }
    nobody_listens "peer-not-listening" Van "refuses connections" |world| {
        world.van.start();
    }
    the_wrong_port "peer-not-listening" Van "203.0.113.5:5116" |world| {
        world.edit(Van, &format!("{ENDPOINT}:5115"), &format!("{ENDPOINT}:5116"));
        world.start();
    }
    a_router_that_drops_tcp "tcp-blocked" Van "hq over v2" |world| {
        sh(&world.routers[1], &forward("meta l4proto tcp drop"));
        world.start_and_wait(2);
    }
    a_router_that_drops_udp "udp-blocked" Van "the last router that answers is 10.1.2.2" |world| {
        sh(&world.routers[1], &forward("meta l4proto udp udp dport 5115 drop"));
        world.start_and_wait(1);
    }
    a_router_that_rejects_udp "udp-blocked" Van "10.1.2.2 says of a datagram that a firewall prohibits it" |world| {
        sh(&world.routers[1], &forward("udp dport 5115 reject with icmp admin-prohibited"));
        world.start_hq();
    }
    a_link_that_is_too_narrow "mtu-too-small" Van "10.1.2.2 says that" |world| {
        sh(&world.routers[1], "ip link set hq mtu 1000");
        world.start_hq();
    }
    a_program_that_says_nothing "handshake-stalls" Van "has no end" |world| {
        let listener = world.hq.namespace.run(|| TcpListener::bind((ENDPOINT, 5115))).unwrap();
        world.kept.push(Box::new(listener));
    }
    another_program_at_the_endpoint "peer-not-psmc" Van "TLS handshake failed" |world| {
        greet(world);
    }
    another_key_than_the_peers "peer-key-wrong" Van "psmc pubkey" |world| {
        let other = PrivateKey::generate().public().to_string();
        world.edit(Van, &world.hq.key.public().to_string(), &other);
        world.start();
    }
    a_key_that_the_peer_does_not_know "own-key-refused" Van "[[peer]] there" |world| {
        let other = PrivateKey::generate().public().to_string();
        world.edit(Hq, &world.van.key.public().to_string(), &other);
        world.start();
    }
    a_relay_that_does_not_run "relay-failing" Van "psmc-relay" |world| {
        world.list_paths("relays = [\"fra1\"]\n");
        let text = fs::read_to_string(world.van.file("toml")).unwrap();
        let key = PrivateKey::generate().public();
        world.van.configure(&format!("{text}\n[[relay]]\nname = \"fra1\"\naddress = \"{ENDPOINT}:6000\"\npublic_key = \"{key}\"\n"));
        world.start_and_wait(1);
    }
    a_path_that_was_added_by_hand "path-dead" Van "nowhere0" |world| {
        world.start_and_wait(2);
        world.van.psmc_ok(&["path", "add", "hq", "later", "--interface", "nowhere0", "--endpoint", "203.0.113.5:5115"]);
    }
    packets_that_vanish_for_their_size "mtu-black-hole" Van "those of 1500 bytes do not" |world| {
        world.on_routers("ip link set hq mtu 1400
            nft 'table inet fw { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }'");
        world.start_and_wait(2);
        wait_for("the end of the search", PATIENCE, || {
            let peer = world.van.try_status()?.peers.pop()?;
            peer.paths.iter().all(|path| path.since_s > 5.5 && path.mtu > 1390).then_some(())
        });
    }
    a_daemon_that_was_not_started "daemon-not-running" Van "psmcd --config" |world| {
        world.start_hq();
    }
    a_file_that_was_changed "not-reloaded" Hq "psmc reload" |world| {
        world.start_and_wait(2);
        let text = fs::read_to_string(world.hq.file("toml")).unwrap();
        world.hq.configure(&format!("{text}\n{}", peer("bus", 3)));
    }
    a_peer_that_does_not_call "peer-not-called" Hq "never heard of" |world| {
        world.start_hq();
    }
    a_nat_in_front_of_the_endpoint "behind-nat" Hq "198.51.100.9" |world| {
        world.edit(Hq, "control_socket", "endpoint = \"198.51.100.9:5115\"\ncontrol_socket");
        world.start_and_wait(2);
    }
    keepalives_that_come_late "keepalive-long" Van "25 s" |world| {
        world.edit(Van, "endpoint = ", "keepalive = \"60s\"\nendpoint = ");
        world.start_and_wait(2);
    }
    containers_in_a_network_of_the_peer "network-overlaps" Van "containers" |world| {
        world.edit(Van, "[\"10.77.0.1/32\"]", "[\"10.77.0.1/32\", \"172.16.0.0/12\"]");
        world.at(Van, "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up");
        world.start_and_wait(2);
    }
}

/// Examines a set-up in which nothing is wrong.
fn find_nothing(at: At, prepare: fn(&mut World)) {
    let mut world = World::new();
    prepare(&mut world);
    let report = world.doctor(at);
    assert_eq!((report.names("wrong"), report.status), (vec![], Some(0)), "{:#}", report.json);
}

/// Makes a test of each row: where it is looked at, and what is special about it.
macro_rules! sound {
    ($($test:ident $at:ident |$world:ident| $prepare:block)*) => {
        $(#[test]
        fn $test() {
            find_nothing($at, |$world| $prepare);
        })*
    };
}

sound! {
    two_uplinks_are_sound Van |world| {
        world.start_and_wait(2);
    }
    a_server_that_is_dialled_is_sound Hq |world| {
        world.start_and_wait(2);
    }
    what_has_not_been_started_is_sound Van |world| {
        world.start_hq();
    }
    a_nat_is_sound Van |world| {
        world.on_routers("nft 'table ip nat { chain post { type nat hook postrouting priority 100; oifname hq masquerade; }; }'");
        world.start_and_wait(2);
    }
    ipv6_alone_is_sound Van |world| {
        world.edit(Van, &format!("{ENDPOINT}:5115"), &format!("[{ENDPOINT_V6}]:5115"));
        for (at, links) in [(Van, "v1 v2"), (Hq, "h1 h2")] {
            world.at(at, &format!("for link in {links}; do ip -4 addr flush dev $link; done"));
        }
        world.start_and_wait(2);
    }
    a_full_tunnel_is_sound Van |world| {
        world.edit(Van, "[\"10.77.0.1/32\"]", "[\"0.0.0.0/0\", \"::/0\"]");
        world.start_and_wait(2);
    }
    a_kill_switch_is_sound Van |world| {
        world.edit(Van, "[\"10.77.0.1/32\"]", "[\"0.0.0.0/0\", \"::/0\"]");
        world.edit(Van, "[site]\n", "[site]\nkill_switch = true\nexclude = [\"lan\", \"uid:12345\"]\n");
        world.start_and_wait(2);
    }
    a_full_tunnel_with_strict_filters_is_sound Van |world| {
        world.edit(Van, "[\"10.77.0.1/32\"]", "[\"0.0.0.0/0\"]");
        world.at(Van, "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.v1.rp_filter=1 net.ipv4.conf.v2.rp_filter=1");
        world.start_and_wait(2);
    }
    many_peers_are_sound Hq |world| {
        let text = fs::read_to_string(world.hq.file("toml")).unwrap();
        let others: String = (3..250).map(|number| peer(&format!("site{number}"), number)).collect();
        world.hq.configure(&(text + &others));
        world.start_and_wait(2);
    }
    listed_paths_are_sound Van |world| {
        world.list_paths("address = \"10.1.2.1\"\n");
        world.start_and_wait(2);
    }
    a_firewall_that_lets_it_in_is_sound Hq |world| {
        world.at(Hq, "nft 'table inet fw { chain in { type filter hook input priority 0; policy drop;
            ct state vmap { established : accept, related : accept, invalid : drop }; iif lo accept
            meta l4proto { icmp, ipv6-icmp } accept; jump services; }
            chain services { tcp dport 22 accept; meta l4proto { tcp, udp } th dport 5115 counter accept; }; }'");
        world.start_and_wait(2);
    }
    a_firewall_of_a_client_is_sound Van |world| {
        world.at(Van, "nft 'table inet fw { chain in { type filter hook input priority 0; policy drop;
            iif lo accept; ct state established,related accept; meta l4proto { icmp, ipv6-icmp } accept; }; }'");
        world.start_and_wait(2);
    }
    a_name_is_sound Van |world| {
        world.edit(Van, ENDPOINT, "hq.example");
        world.name_server(&[ENDPOINT]);
        world.start_hq();
    }
    a_narrow_link_is_sound Van |world| {
        world.on_routers("ip link set hq mtu 1400");
        world.start_and_wait(2);
    }
    one_uplink_beside_a_network_of_containers_is_sound Van |world| {
        world.at(Van, "ip link del v2; ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up");
        world.start_and_wait(1);
    }
}

#[test]
fn an_ordinary_user_is_told_what_is_not_looked_at() {
    let mut world = World::new();
    world.start_and_wait(2);
    let readable = "chmod -R a+rX";
    world.at(Van, &format!("chown 65534 {0}; {readable} $(dirname {0})", world.van.file("toml").display()));
    world.wrapper =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"].map(str::to_owned).into();
    world.at(Van, &format!("chmod 600 {}", world.van.file("toml").display()));
    let report = world.doctor(Van);
    assert_eq!((report.names("wrong"), report.status), (vec![], Some(0)), "{:#}", report.json);
    let unseen = report.json["unseen"].to_string();
    assert!(unseen.contains("firewall") && unseen.contains("psmcd"), "{:#}", report.json);
}

#[test]
fn without_a_file_there_is_nothing_to_look_at() {
    let world = World::new();
    let output = world.van.psmc(&["doctor", "/nonexistent/van.toml"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("/nonexistent/van.toml"), "{text}");
}

#[test]
fn the_running_daemon_names_its_file_and_people_get_words() {
    let mut world = World::new();
    world.start_and_wait(2);
    world.at(Hq, "true");
    let mut command = std::process::Command::new(psmc_testbed::programs::program("psmc"));
    command.arg("--socket").arg(world.van.file("sock")).arg("doctor");
    let output = world.van.namespace.run(|| command.output()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with(&format!("site van, {}\n", world.van.file("toml").display())), "{text}");
    assert!(text.contains("\nnothing is wrong"), "{text}");
}

/// A network behind a site, and a machine in it that keeps its interface up.
const LAN: &str = "ip link add lan0 type veth peer name lan1; ip link set lan0 up; ip link set lan1 up
    ip addr add 192.168.10.1/24 dev lan0";

/// A rule for what a router forwards.
fn forward(rule: &str) -> String {
    format!("nft 'table inet fw {{ chain forwarded {{ type filter hook forward priority 0; {rule}; }}; }}'")
}

/// A section of a peer that dials in.
fn peer(name: &str, number: u8) -> String {
    let key = PrivateKey::generate().public();
    format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.{number}/32\"]\n")
}

/// Has the van take its key from a file.
fn key_file(world: &World, file: &str) {
    let key = world.van.key.to_base64().to_string();
    world.edit(Van, &format!("private_key = \"{key}\""), &format!("private_key_file = \"{file}\""));
}

fn write_key(world: &World, text: &str, mode: u32) {
    key_file(world, "van.key");
    let file = world.van.file("key");
    fs::write(&file, format!("{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

/// A program at the headquarters that greets whoever connects, as mail servers do.
fn greet(world: &mut World) {
    let listener = world.hq.namespace.run(|| TcpListener::bind((ENDPOINT, 5115))).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Whoever has gone wants nothing.
            let _ =
                stream.write_all(b"220 mail.example ESMTP\r\n").and_then(|()| stream.read(&mut [0; 4096]));
        }
    });
}
