//! The packages: what is in them, and what they do on a machine that has nothing else of ours.
//!
//! They are built of the programs of this test, on which nothing depends here but their time.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod by_rpm;
mod coexistence;
mod containers;
mod contents;
mod machine;
mod upgrade;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use psmc_testbed::programs::{copy_program, program};
use tempfile::TempDir;

/// The version of the package that others are upgraded to.
const NEWER: &str = concat!(env!("CARGO_PKG_VERSION"), "+1");

/// All packages, of the version of these sources.
const NAMES: [&str; 7] =
    ["psmc", "psmc-coordinator", "psmc-dns", "psmc-front", "psmc-lab", "psmc-relay", "psmc-shed"];

/// A folder with all packages, and with the `.deb` of `psmc` and the `.rpm` of `psmc-relay` in the version [`NEWER`], too.
fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let folder = empty_folder("packages");
        let programs = program("psmc-manual").parent().unwrap().to_owned();
        build(&folder, &programs, &["--format", "deb"]);
        build(&folder, &programs, &["--format", "deb", "--only", "psmc", "--version", NEWER]);
        let stand_ins = stand_ins(&programs);
        build(&folder, stand_ins.path(), &["--format", "rpm"]);
        build(&folder, stand_ins.path(), &["--format", "rpm", "--only", "psmc-relay", "--version", NEWER]);
        folder
    };
    PACKAGES.get_or_init(build)
}

/// A folder for what all tests use, until they run again: nobody sees the last of them end.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn build(folder: &Path, programs: &Path, further: &[&str]) {
    let mut script = Command::new("packaging/build.sh");
    script.arg("--fast").arg("--programs").arg(programs).arg("--output").arg(folder).args(further);
    done(&mut script);
}

/// Programs of the same names that are small: nobody executes those of an `.rpm` here, and as cargo-generate-rpm is installed for
/// tests, it takes a minute for the real ones.
fn stand_ins(programs: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in contents::programs() {
        fs::copy("/bin/true", folder.path().join(name)).unwrap();
    }
    copy_program(&programs.join("psmc-manual"), &folder.path().join("psmc-manual"));
    folder
}

/// The `.deb` of a package.
fn deb(name: &str) -> PathBuf {
    only(&format!("{name}_{}_", env!("CARGO_PKG_VERSION")), ".deb")
}

/// The `.deb` of the newer `psmc`.
fn newer_deb() -> PathBuf {
    only(&format!("psmc_{NEWER}_"), ".deb")
}

/// The `.rpm` of a package.
fn rpm(name: &str) -> PathBuf {
    only(&format!("{name}-{}-", env!("CARGO_PKG_VERSION")), ".rpm")
}

/// The `.rpm` of the newer `psmc-relay`.
fn newer_rpm() -> PathBuf {
    only(&format!("psmc-relay-{NEWER}-"), ".rpm")
}

/// The only package that is called so.
fn only(start: &str, end: &str) -> PathBuf {
    let files = fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let is_meant = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.starts_with(start) && name.ends_with(end)
    };
    let files: Vec<PathBuf> = files.filter(is_meant).collect();
    assert_eq!(files.len(), 1, "{start}…{end}: {files:?}");
    files.into_iter().next().unwrap()
}

/// Runs a command, and returns what it prints.
///
/// # Panics
/// If it fails, or cannot be run.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (printed, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{complaint}", output.status);
    printed.into_owned()
}
