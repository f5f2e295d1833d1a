use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread::{JoinHandle, spawn};

use psmc_net::keys::PrivateKey;
use tempfile::TempDir;

use super::*;

/// A psmcd that gives one answer to one request.
fn psmcd(answer: &'static str) -> (TempDir, Tunnel, JoinHandle<String>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("van.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let asked = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
        writeln!(stream, "{answer}").unwrap();
        request
    });
    (directory, Tunnel { socket, peer: "hq".parse().unwrap() }, asked)
}

fn routes() -> TunnelRoutes {
    let key = |seed| PrivateKey::from_seed([seed; 32]).public();
    let relay = Relay { address: "192.0.2.7:5115".parse().unwrap(), key: key(7), gateway: Some(key(8)) };
    let policy = Some(Policy::PreferIndirect);
    TunnelRoutes { relays: vec![relay], expires_s: 600, serial: 5, policy, grants: vec!["g".to_owned()] }
}

#[test]
fn routes_are_set_as_psmcd_takes_them() {
    let (_directory, tunnel, asked) = psmcd(r#"{"version":1,"result":"ok"}"#);
    ControlSockets.set(&tunnel, &routes()).unwrap();
    let key = |seed| PrivateKey::from_seed([seed; 32]).public().to_string();
    let wanted = serde_json::json!({
        "version": 1, "op": "routes_set", "peer": "hq", "expires": 600, "serial": 5, "policy": "prefer-indirect",
        "grants": ["g"],
        "routes": [{ "address": "192.0.2.7:5115", "public_key": key(7), "gateway": key(8) }],
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&asked.join().unwrap()).unwrap(), wanted);
}

#[test]
fn what_psmcd_says_of_a_peer_is_understood() {
    let (_directory, tunnel, asked) = psmcd(
        r#"{"version":1,"result":"peer","value":{"peer":"hq","reached":true,"usable":true,"direct_well":false,"learned_up":2,"serial":5,"expires":600}}"#,
    );
    let state = ControlSockets.wait(&tunnel, Until::Usable, Duration::from_millis(250)).unwrap();
    let wanted = TunnelState {
        usable: true,
        direct_well: false,
        learned_up: true,
        serial: Some(5),
        expires_s: Some(600),
    };
    assert_eq!(state, wanted);
    let asked = asked.join().unwrap();
    assert!(asked.contains(r#""op":"peer_wait""#) && asked.contains(r#""timeout_ms":250"#), "{asked}");
}

#[test]
fn a_refusal_and_a_missing_psmcd_are_told() {
    let (directory, tunnel, _asked) =
        psmcd(r#"{"version":1,"result":"error","value":{"message":"too old"}}"#);
    assert_eq!(ControlSockets.set(&tunnel, &routes()), Err(TunnelError("too old".to_owned())));
    drop(directory);
    let error = ControlSockets.clear(&tunnel).unwrap_err();
    assert!(error.to_string().contains("no psmcd answers on"), "{error}");
}
