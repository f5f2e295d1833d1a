//! Delay and loss by STAMP: `psmc stamp` and the reflector of psmcd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use psmc_testbed::programs::program;
use serde_json::Value;

use crate::harness::{Family, HQ, Plan, Site, Tunnel};

/// Sends some probes; returns the exit status, and what was printed.
fn stamp(site: &Site, reflector: &str, more: &[&str]) -> (Option<i32>, String) {
    let args =
        [&["stamp", reflector, "--count", "20", "--interval", "5ms", "--timeout", "500ms"], more].concat();
    let output = site.namespace.run(|| Command::new(program("psmc")).args(args).output());
    let Output { status, stdout, stderr } = output.unwrap();
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn answered(summary: &str) -> u64 {
    let summary: Value = serde_json::from_str(summary).expect(summary);
    assert_eq!(summary["sent"], 20, "{summary}");
    summary["answered"].as_u64().unwrap()
}

#[test]
fn who_measures_is_answered_as_the_file_says() {
    let tunnel = Tunnel::start(Plan::default());
    let (hq, van) = (&tunnel.hq, &tunnel.van);
    let reflector = HQ.outer(1, Family::V4).to_string();
    let text = fs::read_to_string(hq.file("toml")).unwrap();
    let (code, said) = stamp(van, &reflector, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing listens at that port; see that a STAMP reflector runs there"), "{said}");

    assert!(hq.reload(&text, "[sla]\nreflector = 862\n").contains("reflector"));
    for address in [reflector.clone(), HQ.outer(2, Family::V6).to_string()] {
        let (code, said) = stamp(van, &address, &[]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("seq=0 time=") && said.contains("round trip"), "{said}");
        assert!(answered(&stamp(van, &address, &["--json"]).1) > 0);
    }
    // The way through the tunnel is not measured so: an answer would leave outside of it.
    let (code, said) = stamp(van, &HQ.inner(Family::V4).to_string(), &[]);
    assert_eq!(code, Some(1), "{said}");

    let key = hq.file("stamp");
    fs::write(&key, "000102030405060708090a0b0c0d0e0f").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let key = key.to_str().unwrap();
    hq.reload(&text, &format!("[sla]\nreflector = 862\nreflector_key_file = '{key}'\n"));
    let (code, said) = stamp(van, &reflector, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(answered(&stamp(van, &reflector, &["--json", "--key-file", key]).1) > 0);

    hq.reload(&text, "");
    assert_eq!(stamp(van, &reflector, &["--key-file", key]).0, Some(1));
    tunnel.ping(Family::V4);
}

#[test]
fn a_source_is_not_answered_more_often_than_the_file_says() {
    let tunnel = Tunnel::start(Plan::default());
    let text = fs::read_to_string(tunnel.hq.file("toml")).unwrap();
    tunnel.hq.reload(&text, "[sla]\nreflector = 862\nreflector_rate = 1\n");
    let reflector = HQ.outer(1, Family::V4).to_string();
    let (code, said) = stamp(&tunnel.van, &reflector, &["--json"]);
    assert_eq!(code, Some(0), "{said}");
    // Twenty probes take a tenth of a second, or longer on a machine that stands still.
    assert!(answered(&said) < 20, "{said}");
}
