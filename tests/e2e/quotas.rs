//! Links that may carry so much and no more.

use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use psmc_api::{PathState, PathStatus, QuotaStatus};
use psmc_testbed::poll::wait_for;
use psmc_testbed::steadily::{Measured, steadily};
use tempfile::TempDir;

use crate::harness::{Bulk, Family, Plan, Site, Trickle, Tunnel};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a crash may forget, in bytes.
const FORGOTTEN: u64 = 1_000_000;

/// A van whose first path has a quota. Its file, and where it keeps what is used.
fn with_quota(tunnel: &Tunnel, quota: &str) -> String {
    let file = tunnel.van.file("toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let state = tunnel.van.file("json");
    let text = text.replacen("[site]", &format!("[site]\nstate_file = '{}'", state.display()), 1);
    let first = "name = \"van-link1\"\n";
    assert!(text.contains(first), "{text}");
    let text = text.replacen(first, &format!("{first}quota = {{ {quota} }}\n"), 1);
    std::fs::write(&file, &text).unwrap();
    text
}

fn first(site: &Site) -> (PathStatus, QuotaStatus) {
    let path = site.path("van-link1").expect("there is a path");
    let quota = path.quota.clone().expect("it has a quota");
    (path, quota)
}

/// Bytes of IP packets that the kernel has seen on the link of the first path.
fn on_the_wire(tunnel: &Tunnel) -> u64 {
    let text = tunnel.van.run(&["ip", "-json", "-statistics", "link", "show", "dev", "v1"]);
    let link: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sum = |key: &str| {
        ["rx", "tx"].map(|way| link[0]["stats64"][way][key].as_u64().unwrap()).iter().sum::<u64>()
    };
    // Ethernet's header is none of IP's.
    sum("bytes") - 14 * sum("packets")
}

#[test]
fn a_quota_that_is_used_up_spares_its_path_and_costs_no_packet() {
    steadily(Measured::Loss, || {
        let mut tunnel = Tunnel::prepare(Plan { scheduler: "wrr", ..Plan::default() });
        with_quota(&tunnel, r#"bytes = "1MB", every = "month", day = 1, then = "backup""#);
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        let trickle = Trickle::start(&tunnel.van, &tunnel.hq, Duration::from_millis(1));
        wait_for("the end of the quota", PATIENCE, || first(&tunnel.van).1.used_up.then_some(()));
        // It is known at both ends.
        for site in [&tunnel.van, &tunnel.hq] {
            wait_for("a path that is spared", PATIENCE, || {
                let path = site.path("van-link1")?;
                (path.tier == "backup" && path.state == PathState::Standby).then_some(())
            });
        }
        let (_, at_end) = first(&tunnel.van);
        let sent = || tunnel.van.path("van-link2").unwrap().tx_bytes;
        let before = sent();
        wait_for("data on the other path", PATIENCE, || (sent() > before + 2_000_000).then_some(()));
        let (path, quota) = first(&tunnel.van);
        assert!(quota.used_bytes < at_end.used_bytes + 100_000, "{at_end:?} {quota:?}");
        assert!(quota.used_bytes < quota.bytes + FORGOTTEN, "{quota:?}");
        assert_eq!((quota.then.as_str(), quota.every.as_str()), ("backup", "month"));
        assert_eq!(trickle.finish(&tunnel.van), 0, "{path:?}");
        let listed = tunnel.van.psmc(&["path", "list"]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("quota of v1: used up"), "{listed}");
        // Somebody buys more.
        let file = tunnel.van.file("toml");
        let text = std::fs::read_to_string(&file).unwrap().replace("bytes = \"1MB\"", "bytes = \"1GB\"");
        tunnel.van.reload(&text, "");
        wait_for("a path that is used again", PATIENCE, || {
            let (path, quota) = first(&tunnel.van);
            (path.tier == "primary" && path.state == PathState::Active && !quota.used_up).then_some(())
        });
    });
}

#[test]
fn people_correct_what_was_used() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    with_quota(&tunnel, r#"bytes = "1GB", every = "month", then = "backup""#);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let used =
        |site: &Site, path: &str, used: &str| site.psmc(&["path", "quota", "hq", path, "--used", used]);
    let refused = used(&tunnel.van, "van-link2", "1GB");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("v2 has no quota"), "{refused:?}");
    // The provider says that it is all gone, also at the far end.
    assert!(used(&tunnel.van, "van-link1", "1.5GB").status.success());
    wait_for("a path that is spared", PATIENCE, || {
        let path = tunnel.hq.path("van-link1")?;
        (path.tier == "backup" && path.state == PathState::Standby).then_some(())
    });
    assert!(first(&tunnel.van).1.used_up);
    // It was a mistake, and stays corrected.
    assert!(used(&tunnel.van, "van-link1", "800MB").status.success());
    tunnel.van.kill();
    tunnel.van.start();
    tunnel.wait_until_up();
    let (path, quota) = first(&tunnel.van);
    assert!((800_000_000..801_000_000).contains(&quota.used_bytes), "{quota:?}");
    assert_eq!((path.tier.as_str(), quota.used_up), ("primary", false));
    // Another path of the uplink shares the quota, and has no other.
    let endpoint = path.remote.expect("it leads somewhere");
    let add = |quota: &str| {
        let over = ["--interface", "v1", "--endpoint", &endpoint, "--quota", quota];
        tunnel.van.psmc(&[&["path", "add", "hq", "more"], &over[..]].concat())
    };
    let other = add("2GB/month,backup");
    assert!(!other.status.success());
    assert!(String::from_utf8_lossy(&other.stderr).contains("1GB/month,backup"), "{other:?}");
    let same = add("1GB/month,backup");
    assert!(same.status.success(), "{same:?}");
    let more = wait_for("the path", PATIENCE, || tunnel.van.path("more"));
    assert_eq!(more.quota.map(|quota| quota.bytes), Some(1_000_000_000));
}

#[test]
fn what_was_used_outlives_a_daemon_that_is_killed() {
    let mut tunnel = Tunnel::prepare(Plan { mbit: Some(30), ..Plan::default() });
    with_quota(&tunnel, r#"bytes = "50GB", every = "week", day = 1, then = "never""#);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
    bulk.wait_for_bytes(12_000_000, PATIENCE);
    tunnel.van.kill();
    let wire = on_the_wire(&tunnel);
    tunnel.van.start();
    let quota = wait_for("status", PATIENCE, || {
        let peer = tunnel.van.try_status()?.peers.pop()?;
        peer.paths.into_iter().find(|path| path.name == "van-link1")?.quota
    });
    println!("{wire} bytes on the wire, {} counted", quota.used_bytes);
    assert!(wire > 3_000_000, "the path has carried {wire} bytes");
    assert!(quota.used_bytes.abs_diff(wire) < FORGOTTEN, "{quota:?}, and {wire} bytes on the wire");
    // One that is stopped forgets nothing.
    tunnel.wait_until_up();
    bulk.finish();
    tunnel.ping(Family::V4);
    let before = first(&tunnel.van).1.used_bytes;
    assert!(tunnel.van.terminate().success());
    tunnel.van.start();
    tunnel.wait_until_up();
    assert!(first(&tunnel.van).1.used_bytes >= before);
}

#[test]
fn counting_goes_on_where_nothing_can_be_written() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let text = with_quota(&tunnel, r#"bytes = "1GB", every = "day", then = "slow:2mbit""#);
    let state = tunnel.van.file("json");
    // A file is no directory.
    let nowhere = tunnel.van.file("toml").join("state.json");
    let text = text.replace(&state.display().to_string(), &nowhere.display().to_string());
    std::fs::write(tunnel.van.file("toml"), text).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
    let told = wait_for("a complaint", PATIENCE, || {
        let (_, quota) = first(&tunnel.van);
        quota.error.filter(|_| quota.used_bytes > 0)
    });
    assert!(told.contains("state.json"), "{told}");
}

/// A file system of its own that is soon full; unmounted on drop.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "psmc-test"])
            .arg(disk.0.path())
            .status();
        assert!(mounted.unwrap().success());
        disk
    }

    /// Leaves no byte.
    fn fill(&self) {
        let full = std::fs::write(self.0.path().join("more"), vec![0; 1 << 20]);
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.path().join("more")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn counting_goes_on_while_a_disk_is_full_and_is_written_when_it_is_not() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let text = with_quota(&tunnel, r#"bytes = "1GB", every = "day", then = "backup""#);
    let (state, disk) = (tunnel.van.file("json"), SmallDisk::mount());
    let there = disk.0.path().join("state.json");
    let text = text.replace(&state.display().to_string(), &there.display().to_string());
    std::fs::write(tunnel.van.file("toml"), text).unwrap();
    disk.fill();
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
    bulk.wait_for_bytes(4_000_000, PATIENCE);
    let told = wait_for("a complaint", PATIENCE, || first(&tunnel.van).1.error);
    assert!(told.contains("state.json"), "{told}");
    let before = first(&tunnel.van).1.used_bytes;
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 2_000_000, PATIENCE);
    wait_for("a higher count", PATIENCE, || (first(&tunnel.van).1.used_bytes > before).then_some(()));
    disk.empty();
    wait_for("no complaint", PATIENCE, || first(&tunnel.van).1.error.is_none().then_some(()));
    bulk.finish();
    let used = first(&tunnel.van).1.used_bytes;
    tunnel.van.kill();
    tunnel.van.start();
    tunnel.wait_until_up();
    let kept = first(&tunnel.van).1.used_bytes;
    assert!(kept + FORGOTTEN > used, "{kept} of {used}");
}
