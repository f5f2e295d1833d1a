//! `psmc-demo`, as the README tells people to run it. Needs root: one test gives its privileges up.

#![expect(clippy::unwrap_used, reason = "a test that cannot run the demonstration has failed")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use psmc_testbed::programs::{copy_program, program};
use psmc_testbed::stalls::{StallWatch, Stalls};
use psmc_testbed::steadily::{Measured, steadily};
use serde_json::Value;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// A way that was slow for more than this part of the time is not as good as it was, and need not be used again. On a machine that
/// stands still for so long every way is slow.
const SLOW_PART: f64 = 0.1;

/// A directory that the demonstration may use, and must leave empty.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One that belongs to an ordinary user.
    fn for_nobody() -> Self {
        let scratch = Self::new();
        chown(scratch.0.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        scratch
    }

    fn demo(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--json").env("TMPDIR", self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.0.path()).unwrap().next().is_none()
    }
}

/// A directory into which everybody can look, unlike root's target directory.
struct Shared(TempDir);

impl Shared {
    fn new() -> Self {
        let shared = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(shared.0.path(), Permissions::from_mode(0o755)).unwrap();
        copy_program(&alone(), &shared.program());
        shared
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("psmc-demo")
    }
}

/// What the first demonstration needs. Others run other programs, which [`program`] puts beside it.
fn alone() -> PathBuf {
    env!("CARGO_BIN_EXE_psmc-demo").into()
}

/// Runs a demonstration, and sees how much the machine stands still meanwhile.
fn watched(demo: &mut Command) -> (Output, Stalls) {
    let watch = StallWatch::start().unwrap();
    let output = demo.output().unwrap();
    (output, watch.finish())
}

fn assert_good((output, stalls): &(Output, Stalls)) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["hash_ok"], true, "{report}");
    assert_eq!(report["links_mbps"].as_array().unwrap().len(), 3, "{report}");
    let number = |key: &str| report[key].as_f64().unwrap();
    // How close it comes to the sum is for a machine that does nothing else to show.
    assert!(number("aggregate_mbps") > stalls.left_of(number("best_single_mbps")), "{stalls:?}: {report}");
    // Both ends may stand still.
    let most = Duration::from_secs(1) + 2 * stalls.longest;
    assert!(number("gap_ms") < 1000.0 * most.as_secs_f64(), "{stalls:?}: {report}");
    let used = |path: &Value| path["bytes"].as_u64() > Some(1_000_000);
    assert!(report["paths"].as_array().unwrap().iter().all(used), "{report}");
}

#[test]
fn root_sees_links_added_up_and_a_cut_survived() {
    steadily(Measured::Rate, || {
        let scratch = Scratch::new();
        assert_good(&watched(&mut scratch.demo(&alone())));
        assert!(scratch.is_empty());
    });
}

#[test]
fn relays_join_sites_that_nothing_else_joins_and_one_may_be_killed() {
    steadily(Measured::Rate, || {
        let scratch = Scratch::new();
        let run = watched(scratch.demo(&alone()).args(["--relays", "3"]));
        assert_good(&run);
        let report: Value = serde_json::from_slice(&run.0.stdout).unwrap();
        assert_eq!((&report["cut"], &report["cut_link"]), (&"killed".into(), &"fra1".into()));
        assert!(report["recovered_ms"].is_number(), "the relay that was started again is not used: {report}");
        assert!(scratch.is_empty());
    });
}

#[test]
fn clients_of_a_flooded_service_go_around_by_themselves() {
    steadily(Measured::Rate, || {
        let scratch = Scratch::new();
        let (output, stalls) = watched(scratch.demo(&program("psmc-demo")).arg("--attack"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let number =
            |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("no {key}: {report}\n{stderr}"));
        assert_eq!(report["hash_ok"], true, "{report}");
        // A busy machine makes less than was asked for; of three times what the line carries two thirds are lost.
        assert!(number("flood_mbps") > 3.0 * number("line_mbps"), "{report}");
        // What the relays carry is more than the line did.
        let enough = stalls.left_of(0.7 * number("goodput_before_mbps"));
        assert!(number("goodput_under_attack_mbps") > enough, "{stalls:?}: {report}");
        let [found, published, around] = ["detect_ms", "published_ms", "route_up_ms"].map(number);
        // What a host that stood still sends at once may look like a flood, before there is one.
        assert!(found > 0.0 || stalls.share > SLOW_PART, "{stalls:?}: {report}");
        assert!(published > 0.0 && around > 0.0, "{report}");
        assert!(report["back_ms"].as_f64() > Some(0.0) || stalls.share > SLOW_PART, "{stalls:?}: {report}");
        // Both clients have paths over another relay in the place of the one that was killed, and of the one that only those can
        // know to fail who go through it, and never were without data until then.
        for failure in ["relay_failure", "relay_swallows"] {
            let number = |key: &str| {
                report[failure][key].as_f64().unwrap_or_else(|| panic!("no {failure}: {key}: {report}"))
            };
            assert!(number("replaced_ms") <= number("first_path_ms"), "{report}");
            // A sender whose retransmission is lost, too, waits for its timer twice: 200 and 400 ms.
            assert!(number("gap_ms") < number("last_path_ms").max(1000.0), "{report}");
        }
        assert_ne!(report["relay_failure"]["relay"], report["relay_swallows"]["relay"], "{report}");
        let hidden = &report["hidden_lines"];
        let count = |key: &str| hidden[key].as_u64().unwrap_or_else(|| panic!("no {key}: {report}"));
        assert_eq!(count("found"), 0, "{report}");
        assert!(count("frames") as f64 > stalls.left_of(10_000.0), "{stalls:?}: {report}");
        assert!(count("missed") * 100 < count("frames"), "{report}");
        assert!(count("files") > 8, "{report}");
        assert!(count("seen_at_relays") > 1000, "the relays do know: {report}");
        let times_to_live = hidden["times_to_live"].as_object().unwrap();
        let used: BTreeSet<_> =
            times_to_live.values().filter_map(|seen| seen.as_array()).flatten().map(Value::as_u64).collect();
        // That of every Linux host after one router, and not that of the service.
        assert_eq!(used, BTreeSet::from([Some(63)]), "{report}");
        assert!(scratch.is_empty());
    });
}

#[test]
fn resolvers_go_on_to_ask_a_flooded_root_name_server() {
    steadily(Measured::Rate, || {
        let scratch = Scratch::new();
        let (output, stalls) = watched(scratch.demo(&program("psmc-demo")).arg("--root"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["route_up_ms"].is_number(), "{report}\n{stderr}");
        let are_back = report["back_ms"].is_number();
        assert!(are_back || stalls.share > SLOW_PART, "{stalls:?}: {report}\n{stderr}");
        let resolvers = report["resolvers"].as_array().unwrap();
        let without = resolvers.iter().find(|resolver| resolver["routes"] == false).unwrap();
        let flooded_ms = without["under_attack"]["median_ms"].as_f64().unwrap_or(f64::INFINITY);
        for resolver in resolvers {
            let number = |when: &str, what: &str| resolver[when][what].as_f64();
            let share = |when: &str| number(when, "per_s").unwrap() / number("before", "per_s").unwrap();
            // As far as the machine ran, now and then.
            let runs = 1.0 - stalls.share;
            let is_whole = |share: f64| (stalls.left_of(0.8)..1.25 / runs).contains(&share);
            let median = |when: &str| number(when, "median_ms").unwrap_or(f64::INFINITY);
            let clearly = 1.0 + runs;
            let is_spared = is_whole(share("under_attack")) && median("under_attack") < flooded_ms / clearly;
            assert_eq!(is_spared, resolver["routes"] == true, "{report}\n{stderr}");
            assert!(!are_back || is_whole(share("after")), "{report}\n{stderr}");
        }
        assert!(scratch.is_empty());
    });
}

#[test]
fn an_ordinary_user_sees_the_same() {
    steadily(Measured::Rate, || {
        let (scratch, shared) = (Scratch::for_nobody(), Shared::new());
        let mut demo = scratch.demo(&shared.program());
        assert_good(&watched(demo.uid(NOBODY).gid(NOBODY)));
        assert!(scratch.is_empty());
    });
}

/// As on a system whose udev gives the device to root alone.
#[test]
fn a_user_who_may_not_open_the_tun_device_is_told_at_once() {
    let (scratch, shared) = (Scratch::for_nobody(), Shared::new());
    let script = "mknod \"$1/tun\" c 10 200 && chmod 600 \"$1/tun\" && mount --bind \"$1/tun\" /dev/net/tun && \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$2\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(shared.0.path()).arg(shared.program());
    let output = command.env("TMPDIR", scratch.0.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{stderr}");
    assert!(
        stderr.contains("cannot open /dev/net/tun") && stderr.contains("chmod 666 /dev/net/tun"),
        "{stderr}"
    );
    assert!(!stderr.contains("measuring"), "before anything was done: {stderr}");
    assert!(scratch.is_empty());
}

#[test]
fn a_demonstration_that_needs_other_programs_names_those_that_are_missing() {
    let (scratch, shared) = (Scratch::new(), Shared::new());
    let mut demo = scratch.demo(&shared.program());
    let output = demo.arg("--attack").env("PATH", shared.0.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let missing = "there is no psmc, no psmc-coordinator, no psmc-dns, no psmc-guard";
    assert!(output.status.code() == Some(1) && stderr.contains(missing), "{stderr}");
    assert!(scratch.is_empty());
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let demo = scratch.demo(&alone()).spawn().unwrap();
    while scratch.is_empty() {
        sleep(Duration::from_millis(10));
    }
    interrupt(&demo);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped"));
    assert!(scratch.is_empty());
}

/// What ^C does.
fn interrupt(program: &Child) {
    let kill = Command::new("kill").arg("-INT").arg(program.id().to_string()).status();
    assert!(kill.unwrap().success());
}
