//! `psmc-lab check` on scenarios that are wrong and scenarios that are right, each beside what it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tool did.
struct Verdict {
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn check(directory: &Path, name: &str) -> Verdict {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc-lab"));
    let output = tool.args(["check", name]).current_dir(directory).output().unwrap();
    Verdict {
        exit_code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn directory(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The names of the scenarios in a directory.
fn scenarios(directory: &Path) -> Vec<String> {
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    names.sort();
    names
}

fn assert_snapshot(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("check/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name.trim_end_matches(".toml"), text));
}

#[test]
fn wrong_scenarios() {
    let directory = directory("tests/lab/check/wrong");
    let names = scenarios(&directory);
    assert!(names.len() >= 32, "{}", names.len());
    for name in names {
        let verdict = check(&directory, &name);
        assert_eq!((verdict.exit_code, verdict.stdout.as_str()), (Some(1), ""), "{name}\n{}", verdict.stderr);
        assert_snapshot("wrong", &name, &verdict.stderr);
    }
}

#[test]
fn profiles_of_devices() {
    let shipped = directory("../../scenarios/devices");
    let names = scenarios(&shipped);
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let verdict = check(&shipped, &name);
        assert_eq!((verdict.exit_code, verdict.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(
            verdict.stdout.contains("4 ports") || verdict.stdout.contains("measured"),
            "{}",
            verdict.stdout
        );
    }
    let verdict = check(&directory("tests/lab/check/wrong/nonsense"), "device.toml");
    assert_eq!((verdict.exit_code, verdict.stdout.as_str()), (Some(1), ""));
    assert_snapshot("wrong", "nonsense_device", &verdict.stderr);
}

#[test]
fn right_scenarios() {
    for path in ["../../scenarios", "tests/lab/check/good"] {
        let directory = directory(path);
        for name in scenarios(&directory) {
            let verdict = check(&directory, &name);
            assert_eq!((verdict.exit_code, verdict.stderr.as_str()), (Some(0), ""), "{name}");
            assert_snapshot("good", &name, &verdict.stdout);
        }
    }
}
