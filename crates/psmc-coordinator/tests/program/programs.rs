//! The programs of other packages: cargo tells a test those of its own only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The path of a program, up to date. The first call has cargo build those of others, a matter of a moment when they are
/// fresh.
pub(crate) fn program(name: &str) -> PathBuf {
    if name == "psmc-coordinator" {
        return env!("CARGO_BIN_EXE_psmc-coordinator").into();
    }
    static PROGRAMS: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    PROGRAMS.get_or_init(build)[name].clone()
}

fn build() -> BTreeMap<String, PathBuf> {
    let this_test = std::env::current_exe().unwrap();
    // `<target directory>/<profile>/deps/<name>-<hash>`
    let profile_dir = this_test.ancestors().nth(2).unwrap();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let output = Command::new(env!("CARGO"))
        .args(["build", "-p", "psmc-relay", "-p", "psmc-dns", "--bins", "--quiet"])
        .args(["--message-format", "json", "--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the programs don't compile");
    let built = |line: &[u8]| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        let path = message["executable"].as_str()?;
        Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(path)))
    };
    output.stdout.split(|byte| *byte == b'\n').filter_map(built).collect()
}
