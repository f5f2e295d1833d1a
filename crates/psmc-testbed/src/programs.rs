//! The programs of this workspace, for tests and benchmarks of the real ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The path of the program `name` of this workspace, up to date, and built with the profile of this test.
///
/// Cargo tells a test the programs of its own package only (`CARGO_BIN_EXE_*`).
/// So the first call in a process has cargo build them all, which is a matter of a moment when they are fresh.
///
/// # Panics
/// If the programs don't compile, or `name` is none of them.
pub fn program(name: &str) -> PathBuf {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    path_of(name, PROGRAMS.get_or_init(|| build_programs(None)))
}

/// The path of the program `name`, as it is installed: benchmarks are of that one, whatever their own profile is.
///
/// # Panics
/// As [`program`].
pub fn installed_program(name: &str) -> PathBuf {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    path_of(name, PROGRAMS.get_or_init(|| build_programs(Some(INSTALLED))))
}

/// The path of each program, by its name.
type Programs = BTreeMap<String, PathBuf>;

/// The profile with which programs are built that are installed.
const INSTALLED: &str = "dist";

fn path_of(name: &str, programs: &Programs) -> PathBuf {
    let path = programs.get(name);
    path.unwrap_or_else(|| panic!("no program {name} among {:?}", programs.keys())).clone()
}

/// Builds them with this profile, or with that of this test.
/// Makes a file that can be executed, with this text. Another process writes it: where this one does, a child that another test
/// starts meanwhile has it open for writing for a moment, and the kernel executes no such file (ETXTBSY, execve(2)).
///
/// # Panics
/// If it cannot be written.
pub fn write_script(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
    run(Command::new("sh").args(["-c", write, "sh", text]).arg(path));
}

/// Copies a program, to be executed; by another process, as [`write_script`] does.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    run(Command::new("cp").arg(from).arg(to));
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}");
}

fn build_programs(profile: Option<&str>) -> Programs {
    let this_test = std::env::current_exe().expect("Linux knows the path of a running program");
    let (target_dir, profile_of_test) = target_dir_and_profile(&this_test);
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--workspace", "--bins"])
        .args(["--quiet", "--message-format", "json"])
        // A test among the targets adds the features that dev-dependencies ask for, as in `cargo test`. Without
        // it cargo would build half of the dependencies a second time.
        .args(["--test", "layering"])
        .args(["--profile", profile.unwrap_or(profile_of_test)])
        .arg("--target-dir")
        .arg(target_dir)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo started this test, so it can be run");
    assert!(output.status.success(), "the programs don't compile");
    output.stdout.split(|&byte| byte == b'\n').filter_map(built_program).collect()
}

/// Cargo puts a test at `<target directory>/<profile>/deps/<name>-<hash>`.
fn target_dir_and_profile(this_test: &Path) -> (&Path, &str) {
    let profile_dir = this_test.ancestors().nth(2).expect("three levels below the target directory");
    let target_dir = profile_dir.parent().expect("three levels below the target directory");
    match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => (target_dir, "dev"),
        Some(profile) => (target_dir, profile),
        None => panic!("{} is no profile's directory", profile_dir.display()),
    }
}

/// Name and path of the program that a line of cargo's JSON messages reports as built (or fresh).
fn built_program(line: &[u8]) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_slice(line).ok()?;
    let executable = message["executable"].as_str()?;
    let name = message["target"]["name"].as_str()?;
    Some((name.to_owned(), PathBuf::from(executable)))
}
