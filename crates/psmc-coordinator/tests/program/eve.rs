//! Events of Suricata that come, and that do not.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use crate::harness::Bed;
use psmc_testbed::programs::program;

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
    assert_eq!(log.matches("no alerts of Suricata are taken").count(), 1, "{log}");
}
