//! `psmc-lab accuracy`: that it measures everything. How well the lab does depends on the machine, and is not tested.

use std::process::{Command, Output};

use serde_json::Value;

fn accuracy(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-lab"));
    // Whoever has Rattan would wait for it.
    command.arg("accuracy").args(arguments).env("PATH", "").output().unwrap()
}

#[test]
fn everything_is_measured() {
    let output = accuracy(&["--json", "--seconds", "0.1"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("error: "), "this test needs root: {errors}");
    let accuracy: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (kind, rows) in [("delay", 12), ("capacity", 2), ("rate", 4), ("chance", 7)] {
        let measured = accuracy[kind].as_array().unwrap();
        assert_eq!(measured.len(), rows, "{kind}: {measured:?}");
        assert!(measured.iter().all(|row| row["emulator"] == "psmc-lab" && row["ok"].is_boolean()));
    }
    let arrived = |row: &Value| row["packets"].as_u64().unwrap() > 0 && row["p99_us"].as_f64().unwrap() > 0.0;
    assert!(accuracy["delay"].as_array().unwrap().iter().all(arrived), "{accuracy}");
}

#[test]
fn a_time_that_is_none_is_refused() {
    for seconds in ["0", "61", "soon"] {
        let output = accuracy(&["--seconds", seconds]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("--seconds"), "{errors}");
    }
}
