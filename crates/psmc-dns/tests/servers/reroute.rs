//! Routes are published, read, refreshed and withdrawn, on each kind of server.

use hickory_proto::rr::RData;
use psmc_net::keys::PrivateKey;
use psmc_routes::update::{Change, Mode, Report, Scope, Target, published, run};
use psmc_routes::{AltRecord, GroupKey, GroupTag};
use psmc_testbed::netns::Namespace;

use crate::harness::{bind, dig, knot, name, routes, service_key, target, text_of};

fn publish(set: psmc_routes::RouteSet, group: Option<&GroupKey>) -> Change {
    Change::publish(set, &service_key(), group, group.is_none(), 10).unwrap()
}

/// Carries a change out on all servers.
pub(crate) fn done(namespace: &Namespace, target: &Target, change: &Change) -> Report {
    let report = namespace.block_on(|| run(target, change, Mode::Change)).unwrap();
    assert!(report.is_complete(), "{report:?}");
    report
}

/// The records that the first server has.
fn alt(namespace: &Namespace, target: &Target) -> (Vec<AltRecord>, bool) {
    let service = name("www.example.com.");
    let found = namespace.block_on(|| published(target, &service)).unwrap();
    let (records, svcb): (Vec<RData>, bool) = found.unwrap();
    let read = |rdata| AltRecord::of_rdata(&service, rdata).unwrap().unwrap();
    (records.iter().map(read).collect(), svcb)
}

/// The life of routes on a server at 127.0.0.1, seen by our library, by `dig` and by `kdig`.
pub(crate) fn life_of_routes(namespace: &Namespace) {
    let target = target(&["127.0.0.1"]);
    let set = routes(
        1,
        &["192.0.2.7", "2001:db8::8"].map(|ip| if ip.contains(':') { "[2001:db8::8]" } else { ip }),
    );
    done(namespace, &target, &publish(set.clone(), None));

    let (records, svcb) = alt(namespace, &target);
    let [AltRecord::Open(signed)] = &records[..] else { panic!("{records:?}") };
    let (key, now) = (service_key().public(), psmc_service::clock::unix_seconds());
    assert_eq!(signed.verify(&key, now, 1), Ok(&set));
    assert!(svcb);

    let hex: String = records[0].encode().iter().map(|byte| format!("{byte:02X}")).collect();
    let shown = dig(namespace, &["@127.0.0.1", "+short", "www.example.com", "TYPE65400"]);
    assert_eq!(shown.replace(' ', ""), format!("\\#{}{hex}", hex.len() / 2));
    let kdig = |words: [&str; 2]| {
        let mut command = std::process::Command::new("kdig");
        text_of(namespace, command.args(["@127.0.0.1", "+short"]).args(words))
    };
    let shown = kdig(["www.example.com", "TYPE65400"]);
    assert_eq!(shown.replace(' ', ""), format!("\\#{}{hex}", hex.len() / 2));
    let shown = dig(namespace, &["@127.0.0.1", "+short", "_psmc.www.example.com", "SVCB"]);
    assert!(shown.contains("port=5115 ipv4hint=192.0.2.7 key65400="), "{shown}");
    let shown = kdig(["_psmc.www.example.com", "SVCB"]);
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(
        shown.contains("1 . mandatory=port,ipv4hint,key65400,key65401 port=5115 ipv4hint=192.0.2.7"),
        "{shown}"
    );
    assert!(shown.contains("ipv6hint=2001:db8::8 key65400="), "{shown}");

    // A group's routes stand beside them, and are replaced alone.
    let group = GroupKey::new(&PrivateKey::from_seed([9; 32]));
    done(namespace, &target, &publish(routes(2, &["192.0.2.9"]), Some(&group)));
    done(namespace, &target, &publish(routes(3, &["192.0.2.10"]), Some(&group)));
    done(namespace, &target, &publish(routes(4, &["192.0.2.11"]), None));
    let (records, _) = alt(namespace, &target);
    let serial = |tag| {
        let record = records.iter().find(|record| record.group() == tag);
        match record.unwrap() {
            AltRecord::Open(signed) => signed.claims().validity().serial,
            AltRecord::Sealed(sealed) => group.open(sealed).unwrap().claims().validity().serial,
        }
    };
    assert_eq!((records.len(), serial(GroupTag::EVERYONE), serial(group.tag())), (2, 4, 3));

    let service = name("www.example.com.");
    let withdraw = |scope| done(namespace, &target, &Change::withdraw(&service, scope).unwrap());
    withdraw(Scope::Group(GroupTag::EVERYONE));
    let (records, svcb) = alt(namespace, &target);
    assert_eq!((records.len(), records[0].group(), svcb), (1, group.tag(), false));
    withdraw(Scope::All);
    assert_eq!(alt(namespace, &target).0.len(), 0);
    // What is not there can be withdrawn again; the service's address was not touched.
    withdraw(Scope::All);
    assert_eq!(dig(namespace, &["@127.0.0.1", "+short", "www.example.com", "A"]), "203.0.113.5");
}

#[test]
fn bind_carries_routes() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, "127.0.0.1");
    life_of_routes(&namespace);
}

#[test]
fn knot_carries_routes() {
    let namespace = Namespace::new().unwrap();
    let _knot = knot(&namespace, "127.0.0.1");
    life_of_routes(&namespace);
}

#[test]
fn many_servers_are_changed_at_once_and_a_dry_run_changes_none() {
    let namespace = Namespace::new().unwrap();
    let _servers =
        (bind(&namespace, "127.0.0.1"), knot(&namespace, "127.0.0.2"), bind(&namespace, "127.0.0.3"));
    let target = target(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let change = publish(routes(1, &["192.0.2.7"]), None);
    let report = namespace.block_on(|| run(&target, &change, Mode::DryRun)).unwrap();
    assert!(report.is_complete());
    for server in &report.servers {
        let update = server.update.as_deref().unwrap();
        assert!(update.contains("update add www.example.com. 10 TYPE65400 \\# "), "{update}");
    }
    assert_eq!(alt(&namespace, &target).0.len(), 0);
    let report = done(&namespace, &target, &change);
    let servers: Vec<_> = report.servers.iter().map(|server| server.server.as_str()).collect();
    assert_eq!(servers, ["127.0.0.1:53", "127.0.0.2:53", "127.0.0.3:53"]);
    for ip in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        assert!(
            !dig(&namespace, &[&format!("@{ip}"), "+short", "www.example.com", "TYPE65400"]).is_empty(),
            "{ip}"
        );
    }
}
