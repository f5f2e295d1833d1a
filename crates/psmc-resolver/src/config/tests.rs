use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

const LEAST: &str = "[resolver]\nname = \"local\"\nlisten = [\"127.0.0.54\"]\nupstream = [\"192.0.2.53\"]\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("my.key");
    fs::write(&key, &*PrivateKey::from_seed([3; 32]).to_base64()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    Config::parse(text, &directory.path().join("resolver.toml"))
}

fn complaints(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("it is wrong");
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

fn service(more: &str) -> String {
    let key = PrivateKey::from_seed([1; 32]).public();
    format!("{LEAST}[[service]]\nname = \"WWW.example.com\"\npublic_key = \"{key}\"\npeer = \"hq\"\n{more}")
}

#[test]
fn the_least_is_enough() {
    let config = parse(LEAST).unwrap();
    assert_eq!(config.listen, ["127.0.0.54:53".parse().unwrap()]);
    assert_eq!(config.upstream[0].to_string(), "192.0.2.53:53");
    assert_eq!((config.cache_mib, config.patience), (32, Duration::from_secs(1)));
    assert_eq!(config.state_directory, Path::new("/var/lib/psmc-dns/local"));
    assert_eq!(config.control_socket.to_string(), "/run/psmc-dns/local.sock");
    assert!(config.services.is_empty() && config.coordinator.is_none() && config.system.is_none());
}

#[test]
fn everything_can_be_said() {
    let text = LEAST.replace(
        "[\"192.0.2.53\"]",
        "[\"192.0.2.53\", \"tcp://192.0.2.54:5353\", \"tls://[2001:db8::53]:8853#dns.example.net\", \"tls://192.0.2.55#d\"]\n\
         cache_mib = 4\nwait_ms = 500\nstate_directory = \"state\"\ncontrol_socket = \"/run/x.sock\"",
    );
    let services = service(
        "socket = \"/run/psmc/van.sock\"\ngroup_key_file = \"my.key\"\npolicy = \"on-failure\"\naddresses = [\"10.77.0.1\"]\n",
    );
    let key = PrivateKey::from_seed([4; 32]).public();
    let text = format!(
        "{text}{}[coordinator]\naddress = \"192.0.2.10:5116, 192.0.2.11:5116\"\npublic_key = \"{key}\"\nprivate_key_file = \"my.key\"\n\
         [system]\nresolved_link = \"psmc0\"\ndomains = [\"~example.com\"]\n",
        services.strip_prefix(LEAST).unwrap()
    );
    let summary = parse(&text).unwrap().summary();
    for said in [
        "asks 192.0.2.53:53, tcp://192.0.2.54:5353, tls://[2001:db8::53]:8853#dns.example.net, tls://192.0.2.55:853#d\n",
        "www.example.com. is the peer hq of /run/psmc/van.sock, by its group's routes before everyone's, on-failure; \
         inside it is 10.77.0.1\n",
        "from the coordinator at 192.0.2.10:5116, 192.0.2.11:5116\n",
        "the server of the link psmc0 for ~example.com\n",
    ] {
        assert!(summary.contains(said), "{said}: {summary}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let socket = "socket = \"/run/psmc/van.sock\"\n";
    let twice = service(socket) + service(socket).strip_prefix(LEAST).unwrap();
    for (text, reason) in [
        ("", "the file has no [resolver], which says where it listens and whom it asks"),
        ("[resolver]\nname = \"a\"\nlisten = [\"::1\"]\n", "[resolver] has no `upstream`"),
        (
            &LEAST.replace("192.0.2.53", "tls://192.0.2.53"),
            "\"tls://192.0.2.53\" does not say who the server is",
        ),
        (&LEAST.replace("192.0.2.53", "dns.example.com"), "\"dns.example.com\" is no address"),
        (&format!("{LEAST}ca_file = \"none.pem\"\n"), "there is no file"),
        (&format!("{LEAST}wait_ms = 60000\n"), "60000 is out of bounds"),
        (&service(""), "[[service]] has no `socket`"),
        (&service(&format!("{socket}policy = \"prefer-none\"\n")), "there is no policy \"prefer-none\""),
        (&service(&format!("{socket}group_key_file = \"no.key\"\n")), "there is no key file"),
        (&twice, "duplicate service www.example.com."),
        (&format!("{LEAST}[system]\n"), "[system] takes one of two ways"),
        (
            &format!("{LEAST}[system]\nresolv_conf = \"r\"\ndomains = [\"~.\"]\n"),
            "a resolv.conf serves all domains",
        ),
        (
            &format!("{LEAST}[coordinator]\naddress = \"192.0.2.1\"\n"),
            "\"192.0.2.1\" is no address with a port",
        ),
    ] {
        let found = complaints(text);
        assert!(found.iter().any(|found| found.contains(reason)), "{reason}: {found:?}");
    }
}
