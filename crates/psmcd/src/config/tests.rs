use std::path::Path;

use psmc_core::{ReorderPolicy, SchedulerKind};

use super::*;

const RIGHT: &str = include_str!("../../../psmc-tool/tests/check/good/everything.toml");

/// Checks a text, and shows what it means or what is wrong with it.
fn check(text: &str) {
    match Config::parse(text, Path::new("van.toml")) {
        Ok(config) => assert!(config.summary().to_string().starts_with("site ")),
        Err(error) => {
            assert!(error.complaints().iter().all(|complaint| !complaint.remedy().is_empty()));
            assert!(error.render(false).contains("van.toml cannot be used"));
        }
    }
}

#[test]
fn a_damaged_file_never_panics() {
    for (at, char) in RIGHT.char_indices() {
        let rest = &RIGHT[at + char.len_utf8()..];
        check(&RIGHT[..at]);
        check(&format!("{}{rest}", &RIGHT[..at]));
        check(&format!("{}ü{rest}", &RIGHT[..at]));
        check(&format!("{}\"{rest}", &RIGHT[..at]));
    }
}

#[test]
fn defaults_are_what_the_documentation_says() {
    let config = Config::parse(
        include_str!("../../../psmc-tool/tests/check/good/minimal.toml"),
        Path::new("van.toml"),
    )
    .unwrap();
    let (site, peer) = (&config.site, &config.peers[0]);
    assert_eq!((site.listen, site.interface.as_ref(), site.mtu), (Listen::default(), None, None));
    assert_eq!(site.control_socket.to_string(), "/run/psmc/van.sock");
    assert_eq!(
        (peer.treatment.scheduler, peer.treatment.reorder),
        (SchedulerKind::Earliest, ReorderPolicy::Deadline)
    );
    assert_eq!((peer.keepalive.as_secs(), &peer.paths), (10, &Paths::EveryUplink));
    assert_eq!(peer.allowed_ips, ["10.77.0.0/24".parse().unwrap()]);
}

#[test]
fn a_peer_inherits_and_overrides() {
    let config = Config::parse(RIGHT, Path::new("van.toml")).unwrap();
    let [van, exit] = config.peers.as_slice() else { panic!("two peers") };
    assert_eq!((van.treatment.scheduler, van.treatment.reorder), (SchedulerKind::Wrr, ReorderPolicy::Off));
    assert_eq!(
        (exit.treatment.scheduler, exit.treatment.reorder),
        (SchedulerKind::Redundant, ReorderPolicy::Deadline)
    );
    let Paths::Listed(paths) = &exit.paths else { panic!("listed paths") };
    assert_eq!(paths[0].endpoint.as_ref().unwrap().to_string(), "203.0.113.9:5115");
    assert_eq!(paths[1].endpoint.as_ref().unwrap().to_string(), "exit.example.org:5115");
}
