//! What `psmcd` gets to read at both ends of a tunnel.

use std::path::Path;

use psmc_net::keys::PrivateKey;
use psmcd::config::{Config, Paths};

use super::right;
use crate::scenario::{Scenario, TunnelId};
use crate::site::Site;

const SCENARIO: &str = r#"
    [[link]]
    name = "dsl"
    between = ["van", "isp"]
    [[link]]
    name = "lte"
    between = ["van", "isp"]
    [[link]]
    name = "fiber"
    between = ["isp", "hq"]
    addresses = [["203.0.113.1/24", "2001:db8::1/64"], ["203.0.113.5/24", "2001:db8::5/64"]]
    [[tunnel]]
    name = "other"
    between = ["isp", "hq"]
    [[tunnel]]
    name = "vpn"
    between = ["van", "hq"]
    networks = [[], ["192.168.10.0/24"]]
    settings = { scheduler = "redundant", keepalive = 25 }
    [[tunnel.path]]
    link = "dsl"
    weight = 3
    [[tunnel.path]]
    name = "mobile"
    link = "lte"
"#;

/// The configurations of both ends of the second tunnel.
fn configs(scenario: &Scenario, directory: &Path) -> [Config; 2] {
    let keys = [PrivateKey::generate(), PrivateKey::generate()];
    [0, 1].map(|end| {
        let site = Site { scenario, tunnel: TunnelId(1), end };
        let text = site.config(&keys[end], &keys[1 - end].public(), directory);
        Config::parse(&text, Path::new("site.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
    })
}

#[test]
fn both_ends_fit_together() {
    let scenario = right(SCENARIO);
    let [van, hq] = configs(&scenario, Path::new("/tmp/a \"b\" 'c' \\d"));
    assert_eq!((van.site.name.as_str(), hq.site.name.as_str()), ("van", "hq"));
    assert_eq!(van.peers[0].public_key, hq.site.private_key.public());
    assert_eq!(hq.peers[0].public_key, van.site.private_key.public());
    assert_eq!(van.site.control_socket.as_path(), Path::new("/tmp/a \"b\" 'c' \\d/1-0.sock"));
    let allowed =
        |config: &Config| config.peers[0].allowed_ips.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(allowed(&van), ["10.77.1.1/32", "fd77:0:0:1::1/128", "192.168.10.0/24"]);
    assert_eq!(allowed(&hq), ["10.77.1.2/32", "fd77:0:0:1::2/128"]);
}

#[test]
fn the_first_one_has_the_paths() {
    let scenario = right(SCENARIO);
    let [van, hq] = configs(&scenario, Path::new("/tmp"));
    let Paths::Listed(paths) = &van.peers[0].paths else { panic!("listed paths") };
    let shown = paths.iter().map(|path| {
        let endpoint = path.endpoint.as_ref().expect("each path has one");
        format!("{} {endpoint} {}", path.name, path.weight)
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["dsl 203.0.113.5:5116 3", "mobile 203.0.113.5:5116 1"]);
    assert_eq!(paths[1].interface.as_ref().map(|name| name.as_str()), Some("lte"));
    assert_eq!((&hq.peers[0].paths, hq.site.listen.port.get()), (&Paths::EveryUplink, 5116));
}

#[test]
fn settings_go_where_they_belong() {
    let scenario = right(SCENARIO);
    for config in configs(&scenario, Path::new("/tmp")) {
        assert_eq!(config.peers[0].treatment.scheduler.name(), "redundant");
        assert_eq!(config.peers[0].keepalive.as_secs(), 25);
        assert_eq!(config.site.interface.as_ref().map(|name| name.as_str()), Some("vpn"));
    }
}
