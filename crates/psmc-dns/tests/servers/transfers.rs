//! Transfers between our server and Knot, both ways: signed, told of by signed notifications, and in parts.

use psmc_routes::update::Change;
use psmc_testbed::netns::Namespace;

use crate::harness::{DYNAMIC, Program, bind_with, dig, knot_with, ours, routes, service_key, target, until};
use crate::reroute::done;
use crate::serving::update;

/// A remote server as Knot has it, with the key that both share.
fn remote(ip: &str) -> String {
    format!("remote:\n- id: other\n  address: {ip}@53\n  key: up\n")
}

/// The routes that a server has.
fn served(namespace: &Namespace, ip: &str) -> String {
    dig(namespace, &[&format!("@{ip}"), "+short", "www.example.com", "TYPE65400"])
}

/// Publishes routes on the server at 127.0.0.1, and waits until these secondaries serve them.
fn publish(namespace: &Namespace, serial: u64, secondaries: &[String]) {
    let change = Change::publish(routes(serial, &["192.0.2.7"]), &service_key(), None, true, 10).unwrap();
    done(namespace, &target(&["127.0.0.1"]), &change);
    let published = served(namespace, "127.0.0.1");
    assert!(published.starts_with("\\# "), "{published}");
    for ip in secondaries {
        until(&published, || served(namespace, ip));
    }
}

/// Fills the zone of the server at 127.0.0.1, so that a change is shorter than the zone.
fn fill(namespace: &Namespace, program: &Program) {
    let hosts: String =
        (0..50).map(|host| format!("update add host-{host}.example.com. 60 A 203.0.113.9\n")).collect();
    let script = format!("server 127.0.0.1\nzone example.com.\n{hosts}send\n");
    update(namespace, "knsupdate", program.directory.path(), &script);
}

#[test]
fn knot_is_a_secondary_of_ours() {
    let namespace = Namespace::new().unwrap();
    let told = "notify = [\"127.0.0.2\"]\nnotify_key = \"up\"\n";
    let primary = ours(&namespace, "127.0.0.1", &format!("{DYNAMIC}signing_key_file = \"sign.key\"\n{told}"));
    let secondary = knot_with(
        &namespace,
        "127.0.0.2",
        &remote("127.0.0.1"),
        "  file: copy\n  zonefile-sync: -1\n  master: other\n  acl: up\n",
    );
    fill(&namespace, &primary);
    publish(&namespace, 1, &["127.0.0.2".to_owned()]);
    publish(&namespace, 2, &["127.0.0.2".to_owned()]);
    let log = secondary.log();
    for part in ["AXFR, incoming", "IXFR, incoming", "notify, incoming"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    // Knot complains in its log of what it cannot take.
    assert!(!log.contains("error:") && !log.contains("fallback"), "{log}");
}

#[test]
fn ours_hears_of_changes_from_knot() {
    let namespace = Namespace::new().unwrap();
    let _primary = knot_with(
        &namespace,
        "127.0.0.1",
        &remote("127.0.0.2"),
        "  file: zone\n  acl: up\n  notify: other\n",
    );
    let secondary = "[[zone]]\nname = \"example.com\"\nprimary = \"127.0.0.1\"\nkey = \"up\"\n";
    let _secondary = ours(&namespace, "127.0.0.2", secondary);
    // The SOA record says to look once in an hour.
    publish(&namespace, 1, &["127.0.0.2".to_owned()]);
}

#[test]
fn several_secondaries_have_every_change_of_a_burst() {
    let namespace = Namespace::new().unwrap();
    let ips: Vec<String> = (2..7).map(|host| format!("127.0.0.{host}")).collect();
    let told: Vec<String> = ips.iter().map(|ip| format!("\"{ip}\"")).collect();
    let primary = ours(&namespace, "127.0.0.1", &format!("{DYNAMIC}notify = [{}]\n", told.join(", ")));
    let zone = "zone \"example.com\" { type secondary; file \"copy\"; primaries { 127.0.0.1; }; };";
    let _secondaries: Vec<Program> = ips.iter().map(|ip| bind_with(&namespace, ip, zone)).collect();
    fill(&namespace, &primary);
    for serial in 1..6 {
        let change = Change::publish(routes(serial, &["192.0.2.7"]), &service_key(), None, true, 10).unwrap();
        done(&namespace, &target(&["127.0.0.1"]), &change);
    }
    publish(&namespace, 6, &ips);
    // A secondary that has missed a change in between has another zone.
    let whole = |ip: &str| {
        let mut records: Vec<String> =
            dig(&namespace, &[&format!("@{ip}"), "+noall", "+answer", "+onesoa", "example.com", "AXFR"])
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
        records.sort();
        records
    };
    let zone = whole("127.0.0.1");
    assert!(zone.len() > 50, "{zone:?}");
    for ip in &ips {
        assert_eq!(whole(ip), zone, "{ip}");
    }
}
