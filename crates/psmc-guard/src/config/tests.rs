use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use psmc_net::keys::PrivateKey;

use super::*;
use crate::detect::Signal;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hq.key");
    fs::write(&file, PrivateKey::from_seed([7; 32]).to_base64().as_str()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    Config::parse(text, &directory.path().join("guard.toml"))
}

fn complaints(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("it is wrong");
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

const GUARD: &str = "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = [\"eth0\"]\n";
const SERVICE: &str = "[[service]]\nname = \"WWW.example.com.\"\ntargets = [\"203.0.113.10\"]\n";

#[test]
fn the_least_is_enough() {
    let config = parse(&format!("{GUARD}{SERVICE}")).unwrap();
    assert_eq!(config.services[0].name, "www.example.com");
    assert_eq!(config.services[0].targets[0].to_string(), "203.0.113.10/32");
    assert_eq!(config.control_socket.to_string(), "/run/psmc-guard/hq.sock");
    assert_eq!(config.state_file.to_str(), Some("/var/lib/psmc-guard/hq.json"));
    assert_eq!(config.services[0].policy, crate::detect::Policy::default());
    assert!(config.gateway.is_none() && config.coordinators.is_empty() && !config.defence.nftables);
}

#[test]
fn everything_can_be_said() {
    let key = PrivateKey::from_seed([1; 32]).public();
    let text = format!(
        "{GUARD}gateway = \"/run/psmc/hq.sock\"\nsignal_interface = \"eth1\"\nsignal_address = \"192.0.2.7\"\n\
         learning = 10\ncalm = 5\nfactor = 4.5\nstate_file = \"hq.json\"\ncontrol_socket = \"/tmp/x.sock\"\nmetrics = \"127.0.0.1:9117\"\n\
         [[coordinator]]\naddress = \"198.51.100.9:5117\"\npublic_key = \"{key}\"\n\
         {SERVICE}ports = [443, 80]\nlimit = {{ packets = 20000, bits = \"80mbit\", syns = 500, new_sources = 200, loss = 0.2 }}\n\
         [[line]]\ninterface = \"eth1\"\naddress = \"192.0.2.7\"\n\
         [defence]\nnftables = true\nrelays = [\"198.51.100.7\"]\n"
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.metrics, Some("127.0.0.1:9117".parse().unwrap()));
    let policy = &config.services[0].policy;
    assert_eq!((policy.learning, policy.calm), (Duration::from_secs(10), Duration::from_secs(5)));
    assert_eq!(policy.fixed.get(Signal::Bits), Some(80e6));
    assert_eq!(policy.fixed.get(Signal::Loss), Some(0.2));
    let summary = config.summary().to_string();
    for said in
        ["hq", "eth0", "hq.sock", "5117", "eth1 from 192.0.2.7", "443, 80", "4.5 times", "syns fixed at 500"]
    {
        assert!(summary.contains(said), "{said}: {summary}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    assert_eq!(complaints(GUARD), ["the guard would protect nothing: the file has no [[service]]"]);
    assert!(complaints(SERVICE)[0].contains("no [guard]"));
    assert_eq!(complaints(&format!("{GUARD}{SERVICE}{SERVICE}")), ["there are two services www.example.com"]);
    let defence = "[defence]\nnftables = true\n";
    assert_eq!(complaints(&format!("{GUARD}{SERVICE}{defence}")), ["there is no hidden line to be defended"]);
    let bad = "limit = { packets = 0, bits = \"0mbit\", loss = 1.5, sins = 1 }\nports = [0]\n";
    assert_eq!(complaints(&format!("{GUARD}{SERVICE}{bad}")).len(), 5);
    let bad = "learning = 0\nfactor = 1\nsignal_address = \"x\"\nstate_file = \"\"\n";
    assert_eq!(complaints(&format!("{GUARD}{bad}{SERVICE}")).len(), 4);
    let bad = "[[coordinator]]\naddress = \"example.com:1\"\npublic_key = \"x\"\n";
    assert_eq!(complaints(&format!("{GUARD}{SERVICE}{bad}")).len(), 2);
    let empty = "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = []\n";
    assert_eq!(complaints(&format!("{empty}{SERVICE}")), ["[guard] has no `interfaces`"]);
}
