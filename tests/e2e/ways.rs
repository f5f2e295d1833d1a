//! Classes that prefer some paths, with the real programs.

use std::time::Duration;

use psmc_api::{ClassStatus, PathState};
use psmc_testbed::poll::wait_for;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Plan, Site, Trickle, Tunnel};

const PATIENCE: Duration = Duration::from_secs(20);

/// So much is more than probes, acknowledgements and measurements take meanwhile.
const DATA: u64 = 1_000_000;

fn class(preference: &str) -> String {
    format!("\n[[class]]\nname = \"bulk\"\nprotocol = [\"tcp\"]\n{preference}\n")
}

fn sent(site: &Site, path: &str) -> u64 {
    site.path(path).expect("there is a path").tx_bytes
}

/// Waits until a path has carried data; what the other one has carried meanwhile.
fn beside_data_on(site: &Site, path: &str, other: &str) -> u64 {
    let (before, beside) = (sent(site, path), sent(site, other));
    wait_for("data on the path", PATIENCE, || (sent(site, path) > before + DATA).then_some(()));
    sent(site, other) - beside
}

fn bulk(site: &Site) -> ClassStatus {
    let classes = site.status().peers.pop().expect("there is a peer").classes;
    classes.into_iter().find(|class| class.name == "bulk").expect("there is the class")
}

#[test]
fn a_class_keeps_to_its_paths_and_to_others_when_the_file_says_so() {
    steadily(Measured::Loss, || {
        let mut tunnel = Tunnel::prepare(Plan { scheduler: "wrr", ..Plan::default() });
        let file = tunnel.van.file("toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let with = |preference: &str| text.clone() + &class(preference);
        std::fs::write(&file, with(r#"paths = ["van-link2"]"#)).unwrap();
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        let trickle = Trickle::start(&tunnel.van, &tunnel.hq, Duration::from_millis(1));
        let beside = beside_data_on(&tunnel.van, "van-link2", "van-link1");
        assert!(beside < DATA / 10, "{beside} bytes beside it");
        tunnel.van.reload(&with(r#"avoid = ["van-link2"]"#), "");
        beside_data_on(&tunnel.van, "van-link1", "van-link2");
        let beside = beside_data_on(&tunnel.van, "van-link1", "van-link2");
        assert!(beside < DATA / 10, "{beside} bytes beside it");
        assert_eq!(trickle.finish(&tunnel.van), 0, "nothing was lost");
        // It insists on a path that there is not.
        tunnel.van.reload(&with("paths = [\"van-link2\"]\nstrict = true"), "");
        assert!(!bulk(&tunnel.van).is_stuck);
        tunnel.van.psmc_ok(&["path", "remove", "hq", "van-link2"]);
        wait_for("a class without a path", PATIENCE, || bulk(&tunnel.van).is_stuck.then_some(()));
        let said = tunnel.van.psmc(&["status"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("none of the paths that it insists on works"), "{said}");
    });
}

/// A line up and a line down, which the file, a reload and `psmc path set` say.
#[test]
fn a_path_carries_data_one_way_when_the_file_says_so() {
    steadily(Measured::Loss, || {
        let mut tunnel = Tunnel::prepare(Plan::default());
        let file = tunnel.van.file("toml");
        let both = std::fs::read_to_string(&file).unwrap();
        let name = |link: u8| format!("name = \"van-link{link}\"\n");
        let with = |link: u8, direction: &str, text: &str| {
            text.replace(&name(link), &format!("{}direction = \"{direction}\"\n", name(link)))
        };
        std::fs::write(&file, with(2, "down", &with(1, "up", &both))).unwrap();
        tunnel.hq.start();
        tunnel.van.start();
        for (site, states) in [
            (&tunnel.van, [PathState::Active, PathState::Active]),
            (&tunnel.hq, [PathState::Standby, PathState::Active]),
        ] {
            for (path, state) in ["van-link1", "van-link2"].into_iter().zip(states) {
                site.wait_for_path(path, &[state], PATIENCE);
            }
        }
        let received = |path: &str| tunnel.van.path(path).expect("there is a path").rx_bytes;
        let there = Trickle::start(&tunnel.van, &tunnel.hq, Duration::from_millis(1));
        let back = Trickle::start(&tunnel.hq, &tunnel.van, Duration::from_millis(1));
        let beside = beside_data_on(&tunnel.van, "van-link1", "van-link2");
        assert!(beside < DATA / 4, "{beside} bytes sent beside it");
        let (before, other) = (received("van-link2"), received("van-link1"));
        wait_for("data from the peer", PATIENCE, || (received("van-link2") > before + DATA).then_some(()));
        let beside = received("van-link1") - other;
        assert!(beside < DATA / 4, "{beside} bytes received beside it");
        let shown = String::from_utf8(tunnel.van.psmc(&["path", "list"]).stdout).unwrap();
        assert!(shown.contains("active (up only)") && shown.contains("active (down only)"), "{shown}");
        // The other way round, by hand, without a moment in which there is none; then both ways again, by the file.
        for (path, direction) in [("van-link2", "both"), ("van-link1", "down"), ("van-link2", "up")] {
            tunnel.van.psmc_ok(&["path", "set", "hq", path, "--direction", direction]);
        }
        beside_data_on(&tunnel.van, "van-link2", "van-link1");
        let beside = beside_data_on(&tunnel.van, "van-link2", "van-link1");
        assert!(beside < DATA / 4, "{beside} bytes sent beside it");
        tunnel.van.reload(&both, "");
        wait_for("both ways", PATIENCE, || {
            let shown = String::from_utf8(tunnel.van.psmc(&["path", "list"]).stdout).unwrap();
            (!shown.contains("only)")).then_some(())
        });
        assert_eq!(there.finish(&tunnel.van) + back.finish(&tunnel.hq), 0, "nothing was lost");
    });
}
