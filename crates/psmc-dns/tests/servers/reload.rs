//! Our server reads its configuration anew while it serves.

use std::fs;
use std::process::Command;

use psmc_net::keys::PrivateKey;
use psmc_routes::update::Change;
use psmc_routes::{RouteSet, Validity};
use psmc_service::clock::unix_seconds;
use psmc_testbed::netns::Namespace;

use crate::harness::{
    DYNAMIC, KEY, Program, ZONE, dig, name, ours, routes, service_key, target, text_of, until, write,
};
use crate::reroute::done;
use crate::serving::update;

/// Changes the configuration, and waits until the server says that it has read it so many times.
fn reload(program: &Program, change: impl Fn(String) -> String, times: usize) {
    let file = program.directory.path().join("dns.toml");
    let text = change(fs::read_to_string(&file).unwrap());
    fs::write(file, text).unwrap();
    program.hang_up();
    until(&times.to_string(), || program.log().matches("configuration reloaded").count().to_string());
}

fn short(namespace: &Namespace, words: &[&str]) -> String {
    dig(namespace, &[&["@127.0.0.1", "+short"], words].concat())
}

fn add(namespace: &Namespace, program: &Program, hosts: &[&str]) {
    let line = |host| format!("update add {host}.example.com. 60 A 203.0.113.9\n");
    let lines: String = hosts.iter().map(line).collect();
    let script = format!("server 127.0.0.1\nzone example.com.\n{lines}send\n");
    update(namespace, "nsupdate", program.directory.path(), &script);
}

#[test]
fn zones_come_change_and_go() {
    let namespace = Namespace::new().unwrap();
    let fixed = "[[zone]]\nname = \"fixed.example\"\nfile = \"fixed\"\n";
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "fixed", ZONE);
    let program = crate::harness::ours_in(&namespace, directory, "127.0.0.1", &format!("{DYNAMIC}{fixed}"))
        .serves(&namespace, "127.0.0.1");
    // In a zone that is longer than its changes.
    add(&namespace, &program, &["a", "b", "c", "d", "e", "f", "g"]);
    add(&namespace, &program, &["before"]);
    write(
        program.directory.path(),
        "fixed",
        &ZONE.replace("203.0.113.5", "203.0.113.6").replace(" 1 3600", " 2 3600"),
    );
    write(program.directory.path(), "other", ZONE);
    let other = fixed.replace("fixed", "other");
    reload(&program, |text| text + &other, 1);
    for (host, address) in [
        ("www.fixed.example", "203.0.113.6"),
        ("www.other.example", "203.0.113.5"),
        ("before.example.com", "203.0.113.9"),
    ] {
        assert_eq!(short(&namespace, &[host, "A"]), address, "{host}");
    }
    // Secondaries get the changes since before.
    add(&namespace, &program, &["after"]);
    let since = dig(&namespace, &["@127.0.0.1", "-y", KEY, "+noall", "+answer", "example.com", "IXFR=2"]);
    let has = |host: &str| since.contains(&format!("{host}.example.com."));
    assert!(has("before") && has("after") && !has("www"), "{since}");
    reload(&program, |text| text.replace(&other, ""), 2);
    let gone = dig(&namespace, &["@127.0.0.1", "www.other.example", "A"]);
    assert!(gone.contains("status: REFUSED"), "{gone}");
}

#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    let file = program.directory.path().join("dns.toml");
    let right = fs::read_to_string(&file).unwrap();
    fs::write(&file, right.replace("update = [\"up\"]", "update = [\"nobody\"]")).unwrap();
    program.hang_up();
    until("said", || {
        let said = program.log().contains("configuration not reloaded; the current one stays in force");
        if said { "said" } else { "silent" }.to_owned()
    });
    assert!(program.log().contains("there is no key nobody."), "{}", program.log());
    add(&namespace, &program, &["one"]);
    assert_eq!(short(&namespace, &["one.example.com", "A"]), "203.0.113.9");
}

#[test]
fn keys_and_signatures_are_replaced_and_secondaries_hear_of_it() {
    let namespace = Namespace::new().unwrap();
    let signed = format!("{DYNAMIC}signing_key_file = \"sign.key\"\n");
    let program = ours(&namespace, "127.0.0.1", &signed);
    let serial =
        || short(&namespace, &["example.com", "SOA"]).split(' ').nth(2).unwrap_or_default().to_owned();
    assert_eq!(serial(), "1");
    write(program.directory.path(), "sign.key", &PrivateKey::from_seed([4; 32]).to_base64());
    write(program.directory.path(), "up.key", &KEY.replace("AAEC", "BBBB"));
    reload(&program, |text| text, 1);
    assert_eq!(serial(), "2");
    let key = PrivateKey::from_seed([4; 32]).public();
    let anchor = format!("trust-anchors {{ example.com. static-key 257 3 15 \"{key}\"; }};\n");
    write(program.directory.path(), "anchor", &anchor);
    let anchor = program.directory.path().join("anchor").display().to_string();
    let words = ["@127.0.0.1", "+root=example.com", "-a", &anchor, "www.example.com", "A"];
    let validated = text_of(&namespace, Command::new("delv").args(words));
    assert!(validated.contains("; fully validated"), "{validated}");
    let transfer =
        |key: &str| dig(&namespace, &["@127.0.0.1", "-b", "127.0.0.9", "-y", key, "example.com", "AXFR"]);
    assert!(transfer(&KEY.replace("AAEC", "BBBB")).contains("RRSIG"));
    assert!(!transfer(KEY).contains("RRSIG"));
}

#[test]
fn no_update_is_lost_while_the_file_is_read_anew() {
    const SERVICES: usize = 40;
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    let service = |number: usize| format!("service{number}.example.com.");
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            for number in 0..SERVICES {
                let relays = routes(1, &["192.0.2.7"]).relays().to_vec();
                let validity = Validity { serial: 1, expires_s: unix_seconds() + 600 };
                let set = RouteSet::new(&name(&service(number)), validity, relays).unwrap();
                let change = Change::publish(set, &service_key(), None, false, 10).unwrap();
                done(&namespace, &target(&["127.0.0.1"]), &change);
            }
        });
        let mut times = 0;
        while !publisher.is_finished() {
            times += 1;
            reload(&program, |text| text, times);
        }
        publisher.join().unwrap();
    });
    for number in 0..SERVICES {
        let routes = short(&namespace, &[&service(number), "TYPE65400"]);
        assert!(routes.starts_with("\\# "), "{number}: {routes}");
    }
    let soa = short(&namespace, &["example.com", "SOA"]);
    assert_eq!(soa.split(' ').nth(2), Some((1 + SERVICES).to_string().as_str()), "{soa}");
}
