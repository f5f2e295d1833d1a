use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use psmc_net::keys::PrivateKey;
use tempfile::TempDir;

use super::*;

/// A directory with the files that configurations name.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, seed) in [("co.key", 1), ("www.key", 2), ("staff.key", 3)] {
        write(directory.path(), name, &PrivateKey::from_seed([seed; 32]).to_base64());
    }
    write(directory.path(), "up.key", "hmac-sha256:up:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    write(directory.path(), "token", "0123456789abcdef\n");
    write(directory.path(), "short", "secret\n");
    directory
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    let directory = directory();
    Config::parse(text, &directory.path().join("co.toml"))
}

fn key(seed: u8) -> PublicKey {
    PrivateKey::from_seed([seed; 32]).public()
}

fn good() -> String {
    format!(
        "[coordinator]\nname = \"co1\"\nprivate_key_file = \"co.key\"\n\
         [[relay]]\nname = \"fra1\"\naddress = \"192.0.2.7:5115\"\npublic_key = \"{}\"\n\
         [[service]]\nname = \"WWW.example.com\"\nkey_file = \"www.key\"\n",
        key(7)
    )
}

fn complaints(text: &str) -> Vec<String> {
    let error = parse(text).unwrap_err();
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

#[test]
fn the_shortest_file_has_sane_defaults() {
    let config = parse(&good()).unwrap();
    let [service] = &config.services[..] else { panic!("one service") };
    assert_eq!((service.title(), title(&service.zone)), ("www.example.com".into(), "example.com".into()));
    assert_eq!(service.site_key(), key(2));
    assert_eq!(service.groups.len(), 1);
    assert_eq!((service.groups[0].name.as_str(), service.groups[0].key.is_none()), (EVERYONE, true));
    assert_eq!(config.listen.socket_addr().port(), 5117);
    assert_eq!(config.control_socket.as_path(), Path::new("/run/psmc-coordinator/co1.sock"));
    assert_eq!(config.store, StoreAddress::Sqlite("/var/lib/psmc-coordinator/co1.db".into()));
    assert!(config.summary().contains("service www.example.com"));
}

#[test]
fn the_port_that_is_named_is_its_own() {
    let key = "private_key_file";
    for wrong in ["listen = 0\n", "listen = \"co1\"\n", "listen = []\n"] {
        let error = parse(&good().replace(key, &format!("{wrong}{key}"))).unwrap_err();
        let remedy = error.complaints()[0].remedy();
        assert!(remedy.contains("5117") && !remedy.contains("5115"), "{wrong}: {remedy}");
    }
}

#[test]
fn a_file_with_everything() {
    let text = good().replace(
        "private_key_file",
        "listen = \"127.0.0.1:5999\"\nstore = \"sqlite:state.db\"\nhook = \"127.0.0.1:1\"\nhook_token_file = \"token\"\n\
         metrics = \"127.0.0.1:2\"\nprivate_key_file",
    ) + &format!(
        "zone = \"com\"\ngateway = \"{g}\"\nsite = \"{g}\"\naddresses = [\"203.0.113.9\", \"2001:db8::/64\"]\n\
         groups = [\"staff\"]\nservers = [\"192.0.2.53,10.0.0.1\"]\ntsig_key_file = \"up.key\"\nrelays_per_group = 2\n\
         relay_rate = \"20mbit\"\nlifetime = 60\nttl = 5\nsvcb = true\nprepare = true\nhold = 7\n\
         [[group]]\nname = \"staff\"\nkey_file = \"staff.key\"\n[[group]]\nname = \"public\"\n\
         [[client]]\nname = \"van\"\npublic_key = \"{c}\"\ngroup = \"staff\"\nallowed_ips = [\"10.77.0.2/32\"]\n\
         [suricata]\neve_file = \"/var/log/suricata/eve.json\"\n",
        g = key(8),
        c = key(9)
    );
    let config = parse(&text).unwrap();
    let service = &config.services[0];
    assert_eq!((service.site_key(), service.gateway), (key(8), Some(key(8))));
    assert_eq!(service.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["staff"]);
    assert_eq!(service.servers[0].addresses().len(), 2);
    assert_eq!(config.clients[0].group, "staff");
    assert!(config.hook.unwrap().token.is(b"0123456789abcdef"));
}

#[test]
fn each_mistake_is_told() {
    let with = |more: &str| good() + more;
    let client = format!("[[client]]\nname = \"v\"\npublic_key = \"{}\"\n", key(9));
    for (text, reason) in [
        (String::new(), "the file has no [coordinator]"),
        (with("zone = \"example.org\"\n"), "is not in the zone"),
        (with("servers = [\"192.0.2.53\"]\n"), "has no `tsig_key_file`"),
        (with("groups = []\n"), "no group would receive"),
        (with("groups = [\"staff\"]\n"), "there is no group staff"),
        (with("relays_per_group = 17\n"), "out of bounds"),
        (with(&client), "has no `allowed_ips`"),
        (with("[[group]]\nname = \"a\"\n[[group]]\nname = \"b\"\n"), "only one group"),
        (
            with(&format!(
                "{client}allowed_ips = []\n[[group]]\nname = \"a\"\n[[group]]\nname = \"b\"\nkey_file = \"staff.key\"\n"
            )),
            "has no `group`",
        ),
        (good().replace("name = \"co1\"", "name = \"co1\"\nhook = \"127.0.0.1:1\""), "the hook has no token"),
        (
            good().replace(
                "name = \"co1\"",
                "name = \"co1\"\nhook = \"127.0.0.1:1\"\nhook_token_file = \"short\"",
            ),
            "is not one word",
        ),
        (good().replace("name = \"co1\"", "name = \"co1\"\nstore = \"mysql:x\""), "nowhere to keep state"),
        (good().replace("192.0.2.7:5115", "192.0.2.7"), "no address with a port"),
        (good().replace("www.key", "none.key"), "there is no key file"),
    ] {
        let found = complaints(&text);
        assert!(found.iter().any(|found| found.contains(reason)), "{reason:?} is not among {found:?}");
    }
}

#[test]
fn remedies_name_files_of_the_coordinator() {
    let remedies = |text: &str| {
        let error = parse(text).unwrap_err();
        error.complaints().iter().map(|complaint| complaint.remedy().to_owned()).collect::<Vec<_>>()
    };
    for (text, path) in [
        ("[coordinator]\nname = \"co1\"\n", "private_key_file = \"/etc/psmc-coordinator/co1.key\""),
        ("[coordinator]\ncontrol_socket = \"x\"\n", "such as \"/run/psmc-coordinator/co1.sock\""),
        ("[etcd]\n", "ca_file = \"/etc/psmc-coordinator/ca.pem\""),
        ("[suricata]\n", "eve_file = \"/var/log/suricata/eve.json\""),
    ] {
        let told = remedies(text);
        assert!(told.iter().any(|remedy| remedy.contains(path)), "{path} is not in {told:?}");
        assert!(told.iter().all(|remedy| !remedy.contains("/psmc/")), "{told:?}");
    }
}

#[test]
fn no_two_are_alike() {
    let relay = |name: &str, ip: u8, seed| {
        format!(
            "[[relay]]\nname = \"{name}\"\naddress = \"192.0.2.{ip}:5115\"\npublic_key = \"{}\"\n",
            key(seed)
        )
    };
    for (second, what) in
        [(relay("fra1", 8, 8), "name"), (relay("b", 8, 7), "public key"), (relay("b", 7, 8), "address")]
    {
        assert_eq!(complaints(&(good() + &second)), [format!("two relays have the same {what}")]);
    }
}

#[test]
fn a_cluster_is_one_line_and_its_certificates_a_table() {
    let with =
        |store: &str| good().replace("private_key_file", &format!("store = \"{store}\"\nprivate_key_file"));
    let config =
        parse(&with("etcd://10.0.0.1,etcd2.example.com:2380,[2001:db8::1]:2381,2001:db8::2/a/b")).unwrap();
    let expected = "etcd://10.0.0.1:2379,etcd2.example.com:2380,[2001:db8::1]:2381,[2001:db8::2]:2379/a/b";
    assert_eq!(config.store.to_string(), expected);
    assert!(config.etcd_tls.is_none() && config.summary().contains("without encryption"));
    for wrong in ["etcd://", "etcd://a:0", "etcd://a,,b", "etcd://a/", "etcd://a:b", "etcd://a/b c"] {
        assert!(parse(&with(wrong)).is_err(), "{wrong}");
    }
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let files = |ca: &str, certificate: &str, key: &str| {
        with("etcd://10.0.0.1")
            + &format!(
                "[etcd]\nca_file = \"{data}/{ca}\"\ncertificate_file = \"{data}/{certificate}\"\n\
                 private_key_file = \"{data}/{key}\"\n"
            )
    };
    assert!(parse(&files("ca.pem", "client.pem", "client.key")).unwrap().etcd_tls.is_some());
    for (text, complaint) in [
        (files("ca.pem", "client.pem", "etcd.key"), "TLS to etcd cannot be set up"),
        (files("none.pem", "client.pem", "client.key"), "none.pem cannot be used"),
        (files("client.key", "client.pem", "client.key"), "client.key cannot be used"),
        (with("etcd://10.0.0.1") + "[etcd]\n", "ca_file"),
    ] {
        let complaints = complaints(&text);
        assert!(complaints.iter().any(|known| known.contains(complaint)), "{complaints:?}");
    }
}
