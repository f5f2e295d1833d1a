//! Alerts of those who do not say when they are over, and events of Suricata that come, and that do not.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use psmc_testbed::programs::{program, write_script};
use serde_json::Value;

use crate::harness::Bed;
use crate::parts::SERVICE;

/// A process that does nothing until its standard input is closed.
fn idle() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn alerts(status: &Value) -> usize {
    status["services"][0]["alerts"].as_array().map_or(0, Vec::len)
}

fn until(status: &Value) -> Option<u64> {
    status["services"][0]["alerts"][0]["until"].as_u64()
}

/// `psmc-coordinator alert`, for as long as a process runs.
fn keep(bed: &Bed, process: &Child, lasts: &str) -> Child {
    let mut command = Command::new(program("psmc-coordinator"));
    command.args(["alert", SERVICE, "--lasts", lasts, "--while", &process.id().to_string()]);
    command.arg("--socket").arg(bed.directory.path().join("co.sock")).spawn().unwrap()
}

#[test]
fn an_alert_by_command_lapses() {
    let bed = Bed::new(1, "groups = [\"public\"]\n", "[leases]\ncommand = 3000\n");
    assert!(bed.tool(&["alert", SERVICE]).status.success());
    let status = bed.status();
    assert_eq!(status["services"][0]["alerts"][0]["lasts_s"], 3000);
    let text = String::from_utf8(bed.tool(&["status"]).stdout).unwrap();
    assert!(text.contains("alert person of person: Other, expires in 29"), "{text}");
    assert!(bed.tool(&["alert", SERVICE, "--lasts", "1"]).status.success());
    bed.wait_for("the end of the alert", |status| alerts(status) == 0);
    let events = String::from_utf8(bed.tool(&["events"]).stdout).unwrap();
    assert!(events.contains("alert person from person expired: not renewed"), "{events}");
}

#[test]
fn an_alert_counts_for_as_long_as_a_process_runs() {
    let mut bed = Bed::new(1, "groups = [\"public\"]\n", "");
    let mut process = idle();
    let mut keeper = keep(&bed, &process, "3");
    let first = until(&bed.wait_for("the alert", |status| alerts(status) == 1));
    bed.wait_for("renewals", |status| until(status) > first.map(|first| first + 3000));
    // It is raised again where the coordinator was away, and its lease would have ended.
    bed.kill_coordinator();
    bed.start_coordinator();
    let before = until(&bed.wait_for("the alert", |status| alerts(status) == 1));
    bed.wait_for("renewals", |status| until(status) != before);
    process.kill().unwrap();
    process.wait().unwrap();
    bed.wait_for("the end of the alert", |status| alerts(status) == 0);
    assert!(keeper.wait().unwrap().success());

    // Whoever clears it ends the renewals, too.
    let mut process = idle();
    let mut keeper = keep(&bed, &process, "3");
    bed.wait_for("the alert", |status| alerts(status) == 1);
    assert!(bed.tool(&["alert", SERVICE, "--clear"]).status.success());
    assert!(keeper.wait().unwrap().success());
    assert_eq!(alerts(&bed.status()), 0);
    process.kill().unwrap();
    process.wait().unwrap();
}

/// A program that calls the script as FastNetMon does: details by a pipe for a ban, and else its own standard input, which
/// stays open. It waits for a line before each call.
const FASTNETMON: &str = "#!/bin/sh
while read -r action; do
    case $action in
    ban) echo details | sh -c \"$1 203.0.113.5 incoming 5000 ban; :\" ;;
    unban) sh -c \"$1 203.0.113.5 incoming 5000 unban; :\" ;;
    ban6) echo details | sh -c \"$1 2001:db8::5/128 incoming 5000 ban; :\" ;;
    esac
    echo \"$action\"
done
";

fn fastnetmon(bed: &Bed) -> Child {
    let path = bed.directory.path().join("fastnetmon");
    write_script(&path, FASTNETMON);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/fastnetmon-notify.sh");
    let programs = Path::new(&program("psmc-coordinator")).parent().unwrap().to_owned();
    let path_of_programs = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(path);
    command.arg(script).env("PATH", path_of_programs);
    command.env("PSMC_COORDINATOR_SOCKET", bed.directory.path().join("co.sock"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Makes it call the script, and waits until that has ended.
fn call(fastnetmon: &mut Child, action: &str) {
    use std::io::{Read as _, Write as _};
    writeln!(fastnetmon.stdin.as_mut().unwrap(), "{action}").unwrap();
    let mut answer = vec![0; action.len() + 1];
    fastnetmon.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(answer, format!("{action}\n").as_bytes());
}

#[test]
fn what_fastnetmon_bans_counts_until_it_is_unbanned_or_forgotten() {
    let service = "groups = [\"public\"]\naddresses = [\"203.0.113.5\", \"2001:db8::/32\"]\n";
    let bed = Bed::new(1, service, "");
    let mut running = fastnetmon(&bed);
    call(&mut running, "ban");
    let first = until(&bed.wait_for("the alert", |status| alerts(status) == 1));
    bed.wait_for("a renewal", |status| until(status) > first);
    call(&mut running, "unban");
    assert_eq!(alerts(&bed.status()), 0);
    call(&mut running, "ban6");
    call(&mut running, "ban");
    bed.wait_for("both alerts", |status| alerts(status) == 2);
    running.kill().unwrap();
    running.wait().unwrap();
    bed.wait_for("the end of what it has forgotten", |status| alerts(status) == 0);
}

const LINE: &str = "{\"event_type\":\"alert\",\"dest_ip\":\"203.0.113.5\",\"alert\":{\"signature_id\":7}}\n";

#[test]
fn events_that_cannot_be_read_are_told_of_everywhere() {
    let more = "metrics = \"127.0.0.1:8118\"\n[suricata]\neve_file = \"eve.json\"\n";
    let bed = Bed::new(1, "groups = [\"public\"]\naddresses = [\"203.0.113.5\"]\n", more);
    let metric = |name: &str| {
        let curl = || Command::new("curl").args(["-s", "http://127.0.0.1:8118/metrics"]).output();
        let text = String::from_utf8(bed.namespace.run(curl).unwrap().stdout).unwrap();
        let name = format!("psmc_coordinator_suricata_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
    };
    let why = |status: &serde_json::Value| status["suricata"]["error"].as_str().map(str::to_owned);
    let error = why(&bed.wait_for("the error", |status| why(status).is_some())).unwrap();
    assert!(error.contains("eve.json: No such file") && error.contains("does Suricata run"), "{error}");
    assert_eq!(metric("readable").as_deref(), Some("0"));
    let text = String::from_utf8(bed.tool(&["status"]).stdout).unwrap();
    assert!(text.contains("suricata: no alerts are taken: cannot read"), "{text}");
    let check = || {
        let file = bed.directory.path().join("co.toml");
        let output = Command::new(program("psmc-coordinator")).arg("check").arg(file).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().contains("warning: cannot read")
    };
    assert!(check());

    let path = bed.directory.path().join("eve.json");
    fs::File::create(&path).unwrap().write_all(LINE.as_bytes()).unwrap();
    let status = bed.wait_for("the alert", |status| status["suricata"]["alerts"] == 1);
    assert_eq!(status["suricata"]["error"], serde_json::Value::Null);
    assert_eq!(status["services"][0]["alerts"][0]["alert"]["id"], "suricata-7");
    assert_eq!(metric("readable").as_deref(), Some("1"));
    assert!(!check());
    let log = fs::read_to_string(bed.directory.path().join("psmc-coordinator.log")).unwrap();
    assert_eq!(log.matches("cannot read Suricata's events").count(), 1, "{log}");
}
