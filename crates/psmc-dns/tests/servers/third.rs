//! dnspython as a third reader, beside BIND's and Knot's tools: of the records, of transfers, and of signatures.

use std::process::Command;

use psmc_routes::update::Change;
use psmc_testbed::netns::Namespace;
use serde_json::{Value, json};

use crate::harness::{DYNAMIC, KEY, bind, dig, knot, ours, routes, service_key, target};
use crate::reroute::done;
use crate::serving::update;

/// Debian's own, which has the package python3-dnspython.
const PYTHON: &str = "/usr/bin/python3";

/// What it says of the server at 127.0.0.1.
fn python(namespace: &Namespace, what: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/reader.py");
    let secret = KEY.rsplit(':').next().unwrap();
    let mut command = Command::new(PYTHON);
    command.args([script, secret, what]);
    let output = namespace.run(|| command.output()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Publishes routes, and asserts that dnspython reads what was published.
fn is_read(namespace: &Namespace) {
    let set = routes(1, &["192.0.2.7", "[2001:db8::8]"]);
    let change = Change::publish(set, &service_key(), None, true, 10).unwrap();
    done(namespace, &target(&["127.0.0.1"]), &change);
    let shown = dig(namespace, &["@127.0.0.1", "+short", "www.example.com", "TYPE65400"]);
    let hex = shown.split(' ').skip(2).collect::<String>().to_lowercase();
    let read = python(namespace, "read");
    assert_eq!(read["alt"], json!([hex]));
    for (record, (priority, hint, address)) in
        read["svcb"].as_array().unwrap().iter().zip([(1, "4", "192.0.2.7"), (2, "6", "2001:db8::8")])
    {
        assert_eq!((&record["priority"], &record["target"]), (&json!(priority), &json!(".")), "{record}");
        let params = &record["params"];
        assert_eq!((&params["3"], &params[hint]), (&json!("\"5115\""), &json!(format!("\"{address}\""))));
        // 32 bytes of key, and 81 of proof.
        assert!(params["65400"].is_string() && params["65401"].is_string(), "{record}");
    }
    assert_eq!(read["svcb"].as_array().map(Vec::len), Some(2), "{read}");
}

#[test]
fn dnspython_reads_routes_and_transfers_of_ours() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    is_read(&namespace);
    let before = python(&namespace, "transfer").as_u64().unwrap();
    // So many take several messages.
    let mut many = String::from("server 127.0.0.1\nzone example.com.\n");
    for host in 0..800 {
        many += &format!("update add host-{host}.example.com. 60 A 203.0.113.9\n");
    }
    update(&namespace, "nsupdate", program.directory.path(), &(many + "send\n"));
    assert_eq!(python(&namespace, "transfer"), before + 800);
}

#[test]
fn dnspython_reads_routes_of_bind_and_of_knot() {
    for server in [bind, knot] {
        let namespace = Namespace::new().unwrap();
        let _server = server(&namespace, "127.0.0.1");
        is_read(&namespace);
    }
}

#[test]
fn wrong_secrets_and_clocks_are_told_and_change_nothing() {
    for server in [|namespace: &_, ip: &_| ours(namespace, ip, DYNAMIC), bind, knot] {
        let namespace = Namespace::new().unwrap();
        let _server = server(&namespace, "127.0.0.1");
        let outcomes = python(&namespace, "update");
        let told = json!({ "right": "NOERROR", "spoilt": "PeerBadSignature", "late": "PeerBadTime" });
        assert_eq!(outcomes, told);
        let address = |host| dig(&namespace, &["@127.0.0.1", "+short", &format!("{host}.example.com"), "A"]);
        assert_eq!(["right", "spoilt", "late"].map(address), ["203.0.113.9", "", ""]);
    }
}
