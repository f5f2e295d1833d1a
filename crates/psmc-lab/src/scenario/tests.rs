//! Every text is either a scenario or shown with what is wrong; and what `psmcd` gets to read at both ends of a tunnel.

mod defaults;
mod events;
mod routes;

use std::path::Path;

use proptest::prelude::*;
use psmc_net::keys::PrivateKey;
use psmc_toml::Complaint;
use psmcd::config::{Config, Paths};

use super::{Scenario, TunnelId};
use crate::site::Site;

/// A scenario that is right.
fn right(text: &str) -> Scenario {
    Scenario::parse(text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// The reasons why a scenario is wrong.
fn reasons(text: &str) -> Vec<String> {
    let Err(error) = Scenario::parse(text, Path::new("test.toml")) else {
        panic!("this should be wrong:\n{text}")
    };
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}

const RIGHT: &str = include_str!("../../tests/lab/check/good/everything.toml");

/// Checks a text, and shows what it means or what is wrong with it. The files that it names are not there.
fn check(text: &str) {
    match Scenario::parse(text, Path::new("/nonexistent/test.toml")) {
        Ok(scenario) => assert!(scenario.summary().to_string().starts_with("scenario ")),
        Err(error) => {
            assert!(error.complaints().iter().all(|complaint| !complaint.remedy().is_empty()));
            let places = error.complaints().iter().filter_map(Complaint::span);
            places
                .for_each(|place| assert!(text.get(place.clone()).is_some(), "{place:?} is not in the text"));
            assert!(error.render(false).contains("test.toml cannot be used"));
        }
    }
}

/// Words of the format, from which random texts come that get past the first check.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(RIGHT.split_inclusive(['\n', ' ', ',', '=']).collect::<Vec<_>>());
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

/// The lines of a scenario, some of them left out or put elsewhere.
fn lines() -> impl Strategy<Value = String> {
    let lines = RIGHT.lines().collect::<Vec<_>>();
    let count = lines.len();
    prop::sample::subsequence(lines, count / 2..count).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn random_words_never_panic(text in words()) {
        check(&text);
    }

    #[test]
    fn missing_lines_never_panic(text in lines()) {
        check(&text);
    }

    #[test]
    fn damage_never_panics(at in 0..RIGHT.len(), length in 0..40_usize, new in "[a-z0-9\"\\[\\]{}=.%-]{0,3}") {
        let head: String = RIGHT.chars().take(at).collect();
        let tail: String = RIGHT.chars().skip(at + length).collect();
        check(&format!("{head}{new}{tail}"));
    }
}

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
