use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use psmc_net::keys::PrivateKey;

use super::*;

const ZONE: &str = "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\n";

const KEY: &str =
    "key up { algorithm hmac-sha256; secret \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"; };\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let signing = PrivateKey::from_seed([3; 32]).to_base64();
    let broken = ZONE.replace("192.0.2.53", "nonsense");
    let signed = format!("{ZONE}@ IN DNSKEY 257 3 15 AAAA\n");
    let files =
        [("zone", ZONE), ("up.key", KEY), ("sign.key", &signing), ("broken", &broken), ("signed", &signed)];
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
        fs::set_permissions(directory.path().join(name), Permissions::from_mode(0o600)).unwrap();
    }
    Config::parse(text, &directory.path().join("dns.toml"))
}

fn complaints(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("it is wrong");
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

const SERVER: &str = "[server]\nname = \"ns1\"\nlisten = [\"192.0.2.53\"]\n";

#[test]
fn the_least_is_enough() {
    let config = parse(&format!("{SERVER}[[zone]]\nname = \"Example.COM\"\nfile = \"zone\"\n")).unwrap();
    assert_eq!(config.listen, ["192.0.2.53:53".parse().unwrap()]);
    assert_eq!(config.control_socket.to_string(), "/run/psmc-dns/ns1.sock");
    assert_eq!((config.zones[0].origin.to_string().as_str(), config.rate_limit), ("example.com.", 1000));
    assert!(config.summary().contains("example.com. 3 records, does not change"), "{}", config.summary());
}

#[test]
fn everything_can_be_said() {
    let config = parse(&format!(
        "{SERVER}database = \"zones.db\"\nrate_limit = 50\n[[key]]\nfile = \"up.key\"\n\
         [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\nsigning_key_file = \"sign.key\"\n\
         transfer = [\"up\", \"192.0.2.60\"]\nnotify = [\"192.0.2.54:5353\"]\nnotify_key = \"up\"\n\
         [[zone]]\nname = \"example.org\"\nprimary = \"192.0.2.1\"\nkey = \"up\"\n"
    ));
    let config = config.unwrap();
    let access = &config.zones[0].access;
    assert_eq!((access.keys.len(), access.addresses.len()), (1, 2));
    let summary = config.summary();
    for said in
        ["changed by up.", "tells 192.0.2.54:5353", "IN DS ", "fetched from 192.0.2.1:53, with the key up."]
    {
        assert!(summary.contains(said), "{said}: {summary}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    assert_eq!(complaints(SERVER), ["the server would serve nothing: the file has no [[zone]]"]);
    let zone = |rest: &str| complaints(&format!("{SERVER}[[zone]]\nname = \"example.com\"\n{rest}"));
    assert_eq!(zone(""), ["the zone has no content"]);
    assert_eq!(zone("file = \"zone\"\nprimary = \"192.0.2.1\"\n"), ["the zone has a file and a primary"]);
    assert_eq!(zone("file = \"zone\"\nupdate = [\"nobody\"]\n"), ["there is no key nobody."]);
    assert!(parse(&format!("{SERVER}[[zone]]\nname = \"example.com\"\nfile = \"signed\"\n")).is_ok());
    let signed = complaints(&format!(
        "{SERVER}[[key]]\nfile = \"up.key\"\n[[zone]]\nname = \"example.com\"\nfile = \"signed\"\nupdate = [\"up\"]\n"
    ));
    assert!(signed[0].contains("updates could not be signed"), "{signed:?}");
    let broken = zone("file = \"broken\"\n");
    assert!(broken[0].contains("broken is wrong at line "), "{broken:?}");
    assert!(zone("file = \"none\"\n")[0].contains("cannot read the zone file"));
    assert!(zone("file = \"zone\"\ntransfr = []\n")[0].contains("no key \"transfr\""));
    assert!(complaints("[[zone]]\nname = \"example.com\"\nfile = \"zone\"\n")[0].contains("no [server]"));
}
