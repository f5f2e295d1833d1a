//! Commands of `psmc` that are programs of their own.

use std::path::Path;
use std::process::{Command, Output};

use psmc_testbed::programs::{copy_program, write_script};
use tempfile::TempDir;

/// All of them.
const COMMANDS: &[&str] = &["demo", "fetch"];

/// A `psmc` with nothing beside it.
fn alone() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_program(Path::new(env!("CARGO_BIN_EXE_psmc")), &directory.path().join("psmc"));
    directory
}

/// A program that prints who and what it is told, and fails.
fn put(directory: &Path, name: &str, word: &str) {
    let text = format!("#!/bin/sh\necho {word} \"$@\"\nexit 7\n");
    write_script(&directory.join(name), &text);
}

fn run(directory: &Path, path: &Path, words: &[&str]) -> Output {
    Command::new(directory.join("psmc")).args(words).env("PATH", path).output().unwrap()
}

#[test]
fn the_program_beside_comes_before_that_on_the_path() {
    let (own, elsewhere) = (alone(), tempfile::tempdir().unwrap());
    for command in COMMANDS {
        let program = format!("psmc-{command}");
        put(elsewhere.path(), &program, "elsewhere");
        let output = run(own.path(), elsewhere.path(), &[command, "--help", "--json", "x y"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "elsewhere --help --json x y\n");
        assert_eq!(output.status.code(), Some(7));
        put(own.path(), &program, "beside");
        let output = run(own.path(), elsewhere.path(), &[command]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "beside\n");
    }
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let own = alone();
    for command in COMMANDS {
        let output = run(own.path(), own.path(), &[command]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let start = format!("error: there is no psmc-{command}: install it in {}", own.path().display());
        assert!(text.starts_with(&start) && text.contains(&format!("--bin psmc-{command}`")), "{text}");
    }
}

#[test]
fn they_are_in_the_list_of_commands() {
    let own = alone();
    let text = String::from_utf8(run(own.path(), own.path(), &["--help"]).stdout).unwrap();
    let says = |command: &str, what: &str| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(command)?.strip_prefix(' '));
        assert!(line.is_some_and(|line| line.trim_start().starts_with(what)), "{command}: {text}");
    };
    says("fetch", "Fetch one file from several mirrors at once");
    says("demo", "Demonstrate PSMC on this machine: ");
}

#[test]
fn watching_needs_a_terminal() {
    let output = Command::new(env!("CARGO_BIN_EXE_psmc")).arg("watch").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "error: psmc watch needs a terminal; `psmc status` prints once\n");
    assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()));
}
