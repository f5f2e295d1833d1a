//! The resolver for services: routes are published by our tools on a real name server, and handed to a psmcd.

use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_routes::update::{Change, Mode, Scope, run};
use psmc_routes::{GroupKey, RouteSet};
use psmc_testbed::netns::Namespace;

use crate::harness::{bind, bind_with_records, name, routes, service_key, target, until};
use crate::resolving::{Resolving, service};

/// Changes what BIND has of the service.
fn change(namespace: &Namespace, change: &Change) {
    let target = target(&["127.0.0.1"]);
    let report = namespace.block_on(|| run(&target, change, Mode::Change)).unwrap();
    assert!(report.is_complete(), "{report:?}");
}

fn publish(namespace: &Namespace, set: RouteSet, key: &PrivateKey, group: Option<&GroupKey>, svcb: bool) {
    // A TTL of one second, so that news comes soon.
    change(namespace, &Change::publish(set, key, group, svcb, 1).unwrap());
}

fn serials(resolving: &Resolving) -> String {
    format!("{:?}", resolving.psmcd.serials())
}

#[test]
fn published_routes_reach_psmcd_and_the_answer_waits_for_them() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", &service("policy = \"on-failure\"\n"));
    // Without routes, DNS has the last word.
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    assert!(resolving.psmcd.peer().given.is_empty());

    // With routes that do not come up the answer waits, as long as it may.
    publish(&namespace, routes(5, &["192.0.2.7", "192.0.2.8"]), &service_key(), None, false);
    until("[5]", || serials(&resolving));
    {
        let given = &resolving.psmcd.peer().given[0];
        let relays: Vec<String> = given.relays.iter().map(|relay| relay.address.to_string()).collect();
        assert_eq!(relays, ["192.0.2.7:5115", "192.0.2.8:5115"]);
        assert_eq!(given.policy.map(psmc_resolver::tunnels::Policy::as_str), Some("on-failure"));
    }
    let start = Instant::now();
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    assert!(start.elapsed() >= Duration::from_secs(1), "it has waited");
    assert_eq!(resolving.status().counts.awaited_in_vain, 1);

    // As soon as a path is up nobody waits, and the TTL ends before the routes do.
    {
        let mut peer = resolving.psmcd.peer();
        (peer.state.usable, peer.state.learned_up) = (true, true);
    }
    until("true", || resolving.status().services[0].tunnel.unwrap().learned_up.to_string());
    let answer = resolving.dig(&["www.example.com", "A"]);
    assert!(answer.contains("\t10\tIN\tA\t203.0.113.5"), "{answer}");
    assert_eq!(resolving.status().counts.awaited_in_vain, 1);

    // News replace what was there; that the records are gone does not.
    publish(&namespace, routes(6, &["192.0.2.9"]), &service_key(), None, false);
    until("[5, 6]", || serials(&resolving));
    change(&namespace, &Change::withdraw(&name("www.example.com."), Scope::All).unwrap());
    until("nothing", || resolving_alt(&resolving));
    let checks = resolving.status().counts.checks + 2;
    until("looked", || {
        if resolving.status().counts.checks < checks { "not yet" } else { "looked" }.to_owned()
    });
    let status = resolving.status();
    assert_eq!(status.services[0].routes.as_ref().unwrap().serial, 6);
    assert_eq!((status.counts.routes_believed, resolving.psmcd.peer().cleared), (2, 0));
}

/// What the resolver's upstream has of the service's routes.
fn resolving_alt(resolving: &Resolving) -> String {
    let found = resolving.short(&["www.example.com", "TYPE65400"]);
    if found.is_empty() { "nothing".to_owned() } else { found }
}

#[test]
fn forged_replayed_and_foreign_routes_are_refused_and_counted() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    let resolving =
        Resolving::start(&namespace, "\"127.0.0.1\"", &service("group_key_file = \"group.key\"\n"));
    resolving.psmcd.peer().comes_up = true;
    publish(&namespace, routes(5, &["192.0.2.7"]), &service_key(), None, true);
    resolving.short(&["www.example.com", "A"]);
    until("[5]", || serials(&resolving));

    let group = |seed| GroupKey::new(&PrivateKey::from_seed([seed; 32]));
    publish(&namespace, routes(9, &["192.0.2.66"]), &service_key(), Some(&group(8)), false);
    publish(&namespace, routes(4, &["192.0.2.7"]), &service_key(), None, false);
    let forger = PrivateKey::from_seed([66; 32]);
    publish(&namespace, routes(99, &["192.0.2.66"]), &forger, Some(&group(9)), false);
    until("(true, true, true)", || {
        let counts = resolving.status().counts;
        let refused =
            (counts.routes_forged > 0, counts.routes_replayed > 0, counts.routes_of_other_groups > 0);
        format!("{refused:?}")
    });
    assert_eq!(serials(&resolving), "[5]");

    // The group's own set goes before everyone's, whatever its serial number.
    publish(&namespace, routes(3, &["192.0.2.10"]), &service_key(), Some(&group(9)), false);
    until("192.0.2.10:5115", || {
        resolving
            .psmcd
            .peer()
            .given
            .last()
            .map_or_else(String::new, |given| given.relays[0].address.to_string())
    });
    assert!(resolving.status().services[0].routes.as_ref().unwrap().of_group);
}

#[test]
fn svcb_serves_where_alt_is_missing() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    publish(&namespace, routes(5, &["192.0.2.7", "192.0.2.8"]), &service_key(), None, true);
    let script = "server 127.0.0.1\nzone example.com.\nupdate delete www.example.com. TYPE65400\nsend\n";
    crate::serving::update(&namespace, "nsupdate", tempfile::tempdir().unwrap().path(), script);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", &service(""));
    resolving.psmcd.peer().comes_up = true;
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    assert_eq!(serials(&resolving), "[5]");
}

#[test]
fn routes_outlive_their_name_servers_and_the_resolver_and_end_in_time() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let bind = bind(&namespace, "127.0.0.1");
    let mut set = routes(5, &["192.0.2.7"]);
    let lifetime = Duration::from_secs(12);
    let ends = psmc_service::clock::unix_seconds() + lifetime.as_secs();
    set = RouteSet::new(
        set.service(),
        psmc_routes::Validity { serial: 5, expires_s: ends },
        set.relays().to_vec(),
    )
    .unwrap();
    publish(&namespace, set, &service_key(), None, false);
    let first = Resolving::start(&namespace, "\"127.0.0.1\"", &service(""));
    first.psmcd.peer().comes_up = true;
    assert_eq!(first.short(&["www.example.com", "A"]), "203.0.113.5");
    until("[5]", || serials(&first));
    until("kept", || {
        let kept = std::fs::read_to_string(first.directory.path().join("state/www.example.com.routes"));
        if kept.is_ok_and(|kept| kept.contains("203.0.113.5")) { "kept" } else { "not kept" }.to_owned()
    });
    let directory = first.directory.clone();
    drop((first, bind.kill()));

    let second = Resolving::start_in(&namespace, directory, "\"127.0.0.1\"", &service(""));
    second.psmcd.peer().comes_up = true;
    assert_eq!(second.short(&["www.example.com", "A"]), "203.0.113.5");
    assert_eq!(serials(&second), "[5]");
    until("1 time cleared", || format!("{} time cleared", second.psmcd.peer().cleared));
    assert!(psmc_service::clock::unix_seconds() >= ends);
    until("no routes", || {
        if second.status().services[0].routes.is_none() { "no routes" } else { "routes" }.to_owned()
    });
}

#[test]
fn a_service_has_its_own_addresses_inside_the_tunnel() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    publish(&namespace, routes(5, &["192.0.2.7"]), &service_key(), None, false);
    let inner = service("addresses = [\"10.77.0.1\"]\n");
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", &inner);
    // What is not reached has the address that DNS has.
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    {
        let mut peer = resolving.psmcd.peer();
        (peer.state.usable, peer.state.learned_up) = (true, true);
    }
    until("10.77.0.1", || resolving.short(&["www.example.com", "A"]));
    assert_eq!(resolving.short(&["www.example.com", "AAAA"]), "");
}

#[test]
fn a_services_addresses_are_those_inside_wherever_an_answer_has_them() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let zone = "zone \"example.com\" { type primary; file \"zone\"; };";
    let records = "www HTTPS 1 . alpn=h2 ipv4hint=203.0.113.5\n_8443._https HTTPS 1 www ipv4hint=203.0.113.5 port=8443\n\
                   alias CNAME www\nmail MX 1 www\n";
    let _bind = bind_with_records(&namespace, "127.0.0.1", zone, records);
    let inner = service("addresses = [\"10.77.0.1\"]\n");
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", &inner);
    assert_eq!(resolving.short(&["alias.example.com", "A"]), "www.example.com.\n203.0.113.5");
    {
        let mut peer = resolving.psmcd.peer();
        (peer.state.usable, peer.state.direct_well) = (true, true);
    }
    until("10.77.0.1", || resolving.short(&["www.example.com", "A"]));
    assert_eq!(resolving.short(&["alias.example.com", "A"]), "www.example.com.\n10.77.0.1");
    assert_eq!(resolving.short(&["alias.example.com", "AAAA"]), "www.example.com.");
    assert_eq!(resolving.short(&["www.example.com", "HTTPS"]), "1 . alpn=\"h2\" ipv4hint=10.77.0.1");
    let port = resolving.short(&["_8443._https.example.com", "HTTPS"]);
    assert_eq!(port, "1 www.example.com. port=8443 ipv4hint=10.77.0.1");
    assert!(!resolving.short(&["+tcp", "www.example.com", "ANY"]).contains("203.0.113.5"));
    let beside = resolving.dig(&["+noall", "+answer", "+additional", "mail.example.com", "MX"]);
    assert!(beside.contains("1 www.example.com.") && !beside.contains("203.0.113.5"), "{beside}");
    let ttl = resolving.dig(&["+noall", "+answer", "+ttlid", "www.example.com", "HTTPS"]);
    let ttl: u32 = ttl.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(ttl <= 10, "{ttl}");
}

#[test]
fn what_psmcd_refuses_is_told_and_tried_again() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    publish(&namespace, routes(5, &["192.0.2.7"]), &service_key(), None, false);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", &service(""));
    {
        let mut peer = resolving.psmcd.peer();
        (peer.refuses, peer.comes_up) = (true, true);
    }
    // Nobody waits for what psmcd does not want.
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    assert_eq!(resolving.status().counts.awaited_in_vain, 0);
    let problem = resolving.status().services[0].routes.as_ref().unwrap().problem.clone();
    assert_eq!(problem.as_deref(), Some("refused"));
    resolving.psmcd.peer().refuses = false;
    until("[5]", || serials(&resolving));
    // A psmcd that was started anew gets them again.
    resolving.psmcd.peer().state = psmc_resolver::tunnels::TunnelState::default();
    until("[5, 5]", || serials(&resolving));
}
