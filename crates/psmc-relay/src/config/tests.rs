use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use psmc_net::keys::PrivateKey;

use super::*;

/// A directory with the key file that [`RELAY`] names.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fra1.key");
    fs::write(&file, PrivateKey::from_seed([7; 32]).to_base64().as_str()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    directory
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    let directory = directory();
    Config::parse(text, &directory.path().join("relay.toml"))
}

fn complaints(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("it is wrong");
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

const RELAY: &str = "[relay]\nname = \"fra1\"\nprivate_key_file = \"fra1.key\"\n";

fn key(number: u8) -> String {
    PrivateKey::from_seed([number; 32]).public().to_string()
}

fn allow(name: &str, number: u8) -> String {
    format!("[[allow]]\nname = \"{name}\"\npublic_key = \"{}\"\n", key(number))
}

#[test]
fn the_least_is_enough() {
    let config = parse(&format!("{RELAY}{}", allow("van", 1))).unwrap();
    assert_eq!((config.workers, config.max_sessions, config.max_rate), (1, 4096, None));
    assert_eq!(config.destinations, Networks::Public);
    assert_eq!(config.control_socket.to_string(), "/run/psmc-relay/fra1.sock");
    assert_eq!(config.sites[0].max_sessions, 64);
    assert!(config.ipip && !config.sites[0].gateway);
    assert!(parse(&format!("{RELAY}coordinator = \"{}\"\n", key(9))).is_ok());
}

#[test]
fn everything_can_be_said() {
    let text = format!(
        "{RELAY}listen = \"127.0.0.1:6000\"\nworkers = 2\nmax_sessions = 10\nmax_rate = \"1gbit\"\nidle = 30\n\
         destinations = [\"10.200.0.0/16\"]\nipip = false\nmetrics = \"127.0.0.1:9115\"\ncontrol_socket = \"/tmp/x.sock\"\n\
         {}max_sessions = 3\nmax_rate = \"20mbit\"\nsession_rate = \"5mbit\"\ngateway = true\n",
        allow("van", 1)
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.idle.as_secs(), 30);
    assert!(!config.ipip);
    assert!(config.sites[0].gateway);
    let summary = config.summary().to_string();
    for said in ["fra1", "127.0.0.1:6000", "1gbit", "10.200.0.0/16", "9115", "van (gateway)", "5mbit"] {
        assert!(summary.contains(said), "{said}: {summary}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    assert_eq!(
        complaints(RELAY),
        ["the file has no [[allow]], no [[tunnel]] and no coordinator, so the relay would serve nobody"]
    );
    assert!(complaints(&allow("van", 1))[0].contains("no [relay]"));
    let twice = format!("{RELAY}{}{}", allow("van", 1), allow("van", 1));
    assert_eq!(complaints(&twice), ["there are two sites van", "this key is another site's, too"]);
    let bad = format!(
        "{RELAY}workers = 0\nmax_sessions = 0\nidle = 0\nmetrics = \"x\"\ndestinations = []\nmax_rte = 1\n{}",
        allow("van", 1)
    );
    assert_eq!(complaints(&bad).len(), 6);
    let no_key = format!("[relay]\nname = \"fra1\"\nprivate_key_file = \"none.key\"\n{}", allow("van", 1));
    assert!(complaints(&no_key)[0].contains("there is no key file"));
}

const TUNNEL: &str = "[[tunnel]]\nname = \"north\"\nleft = \"203.0.113.5\"\nleft_inside = [\"10.1.0.0/16\"]\n\
                      right = \"198.51.100.7\"\nright_inside = [\"10.2.0.0/16\", \"10.3.0.0/16\"]\n";

#[test]
fn tunnels_alone_are_enough_for_a_relay() {
    let text = format!("{RELAY}{TUNNEL}left_local = \"192.0.2.1\"\nmax_rate = \"20mbit\"\n");
    let config = parse(&text).unwrap();
    let [tunnel] = &config.tunnels[..] else { panic!("{:?}", config.tunnels) };
    let pair = tunnel.pair();
    assert_eq!(pair.rate, Some(20_000_000));
    let [left, right] = &pair.ends;
    assert_eq!((left.local.to_string(), right.local.to_string()), ("192.0.2.1".into(), "0.0.0.0".into()));
    assert_eq!((left.inside.len(), right.inside.len()), (1, 2));
    let summary = config.summary().to_string();
    assert!(summary.contains("tunnel north: 203.0.113.5 (for 10.1.0.0/16) to 198.51.100.7"), "{summary}");
    assert!(summary.contains("at most 20mbit"), "{summary}");
}

#[test]
fn an_end_may_have_several_tunnels_if_they_cannot_be_confused() {
    let second = TUNNEL.replace("north", "south").replace("198.51.100.7", "198.51.100.8");
    let apart = second.replace("10.2.", "10.4.").replace("10.3.", "10.5.");
    assert_eq!(parse(&format!("{RELAY}{TUNNEL}{apart}")).unwrap().tunnels.len(), 2);
    assert_eq!(
        complaints(&format!("{RELAY}{TUNNEL}{second}")),
        ["packets of tunnel south could also be of north"]
    );
    let same_name = apart.replace("south", "north");
    assert_eq!(complaints(&format!("{RELAY}{TUNNEL}{same_name}")), ["there are two tunnels north"]);
}

#[test]
fn tunnels_that_would_be_open_or_lead_nowhere_are_refused() {
    for (what, instead, reason) in [
        ("10.1.0.0/16", "10.2.128.0/17", "tunnel north has the same addresses behind both ends"),
        (
            "10.1.0.0/16",
            "203.0.0.0/8",
            "tunnel north would lead into itself: 203.0.113.5 is an end, and inside",
        ),
        ("198.51.100.7", "203.0.113.5", "tunnel north has two ends at 203.0.113.5"),
        ("\"10.1.0.0/16\"", "", "nothing could pass: `left_inside` is missing"),
    ] {
        assert_eq!(complaints(&format!("{RELAY}{}", TUNNEL.replace(what, instead))), [reason]);
    }
    for (what, instead, reason) in [
        ("10.1.0.0/16", "0.0.0.0/0", "not all of 0.0.0.0/0 are hosts' addresses"),
        ("10.1.0.0/16", "fd00::/8", "fd00::/8 is not of IPv4"),
        ("198.51.100.7", "224.0.0.5", "224.0.0.5 is no host's address"),
        ("198.51.100.7", "there", "\"there\" is no IPv4 address"),
    ] {
        let told = complaints(&format!("{RELAY}{}", TUNNEL.replace(what, instead)));
        assert!(told.len() == 1 && told[0].contains(reason), "{told:?}");
    }
    assert_eq!(
        complaints(&format!("{RELAY}ipip = false\n{TUNNEL}")),
        ["there are tunnels of IP-in-IP, and IP-in-IP is off"]
    );
}

#[test]
fn an_end_may_be_left_to_a_site_that_is_listed() {
    let of_van = TUNNEL.replace("left = \"203.0.113.5\"", "left_site = \"van\"");
    let config = parse(&format!("{RELAY}{}{of_van}", allow("van", 1))).unwrap();
    let [left, right] = &config.tunnels[0].ends;
    assert_eq!(left.site(), Some(config.sites[0].public_key));
    assert_eq!(right.outer, Outer::Address("198.51.100.7".parse().unwrap()));
    let summary = config.summary().to_string();
    assert!(summary.contains("wherever van registers from (for 10.1.0.0/16) to 198.51.100.7"), "{summary}");
    assert_eq!(complaints(&format!("{RELAY}{of_van}")), ["there is no site van"]);
    let both = format!("{of_van}left = \"203.0.113.5\"\n");
    let told = complaints(&format!("{RELAY}{}{both}", allow("van", 1)));
    assert!(told.len() == 1 && told[0].contains("`left` and `left_site` exclude each other"), "{told:?}");
    let itself = of_van.replace("right = \"198.51.100.7\"", "right_site = \"van\"");
    assert_eq!(
        complaints(&format!("{RELAY}{}{itself}", allow("van", 1))),
        ["tunnel north has two ends at wherever van registers from"]
    );
}
