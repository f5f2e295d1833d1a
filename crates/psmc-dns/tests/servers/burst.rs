//! A burst of updates, in the middle of which the server fails: each is retried, and each is carried out once and whole.

use std::collections::BTreeSet;

use psmc_routes::update::{Change, Mode, run};
use psmc_routes::{RouteSet, Validity};
use psmc_service::clock::unix_seconds;
use psmc_testbed::netns::Namespace;
use rusqlite::Connection;

use crate::harness::{DYNAMIC, KEY, dig, name, ours, ours_in, routes, service_key, target, until};

/// How many services are published at once.
const SERVICES: usize = 12;

fn service(number: usize) -> String {
    format!("service{number}.example.com.")
}

fn publication(number: usize) -> Change {
    let relays = routes(1, &["192.0.2.7", "192.0.2.8"]).relays().to_vec();
    let validity = Validity { serial: 1, expires_s: unix_seconds() + 600 };
    let set = RouteSet::new(&name(&service(number)), validity, relays).unwrap();
    Change::publish(set, &service_key(), None, true, 10).unwrap()
}

/// The whole zone, and its serial number.
fn zone(namespace: &Namespace) -> (BTreeSet<String>, String) {
    let text =
        dig(namespace, &["@127.0.0.1", "-y", KEY, "+noall", "+answer", "+onesoa", "example.com", "AXFR"]);
    let records = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let serial = dig(namespace, &["@127.0.0.1", "+short", "example.com", "SOA"]);
    (records.collect(), serial.split(' ').nth(2).unwrap_or_default().to_owned())
}

#[test]
fn a_server_that_fails_in_the_middle_of_a_burst_has_done_nothing_by_halves() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    let path = program.directory.path().to_owned();
    // Another program keeps the database for longer than the server waits.
    let mut database = Connection::open(path.join("zones.db")).unwrap();
    let backup = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let reports = std::thread::scope(|scope| {
        let publish = |number: usize| {
            let namespace = &namespace;
            scope.spawn(move || {
                let (target, change) = (target(&["127.0.0.1"]), publication(number));
                namespace.block_on(|| run(&target, &change, Mode::Change)).unwrap()
            })
        };
        let threads: Vec<_> = (0..SERVICES).map(publish).collect();
        until("failed", || {
            let failed = program.log().contains("update failed; the zone is unchanged");
            if failed { "failed" } else { "waiting" }.to_owned()
        });
        assert_eq!(zone(&namespace).1, "1", "what was not confirmed is not served");
        drop(backup);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let attempts = reports.iter().map(|report| report.servers[0].attempts).max();
    assert!(reports.iter().all(psmc_routes::update::Report::is_complete), "{reports:?}");
    assert!(attempts > Some(1), "{reports:?}");
    let served = zone(&namespace);
    for number in 0..SERVICES {
        let of = |start: &str| served.0.iter().filter(|record| record.starts_with(start)).count();
        let service = service(number);
        assert_eq!((of(&format!("{service} ")), of(&format!("_psmc.{service} "))), (1, 2), "{served:?}");
    }
    // Each publication has raised it once.
    assert_eq!(served.1, (1 + SERVICES).to_string());
    let directory = program.kill();
    let _again = ours_in(&namespace, directory, "127.0.0.1", DYNAMIC).serves(&namespace, "127.0.0.1");
    assert_eq!(zone(&namespace), served, "what was confirmed has survived");
}
