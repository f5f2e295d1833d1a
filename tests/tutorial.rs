//! `docs/TUTORIAL.md`, done as a reader would: every file written, every command typed, in order, in an empty directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use psmc_testbed::programs::program;
use psmc_testbed::steadily::{Measured, steadily};

const PAGE: &str = include_str!("../docs/TUTORIAL.md");

/// Something that the page tells the reader to do.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    /// Write a file of this name.
    Write { name: &'a str, text: String },
    /// Type this.
    Type { commands: String, fails: bool },
}

#[test]
fn every_command_of_the_tutorial_does_what_the_page_says() {
    steadily(Measured::Rate, || {
        let directory = tempfile::tempdir().unwrap();
        let steps = steps(PAGE);
        assert!(steps.len() > 8, "{steps:?}");
        for step in steps {
            match step {
                Step::Write { name, text } => fs::write(directory.path().join(name), text).unwrap(),
                Step::Type { commands, fails } => {
                    let succeeded = type_in(&commands, directory.path());
                    assert_eq!(succeeded, !fails, "{commands}");
                }
            }
        }
    });
}

/// Types commands into a shell that finds the programs of this workspace, and shows what they print.
fn type_in(commands: &str, directory: &Path) -> bool {
    let programs = program("psmc-lab").parent().expect("a program lies in a directory").to_owned();
    assert!(program("psmcd").starts_with(&programs));
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    println!("$ {commands}");
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", commands]).current_dir(directory).env("PATH", path);
    let output = shell.output().expect("this machine has bash");
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// The steps of a page: its blocks of code that are TOML with the name of a file, or shell.
fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let text: String =
            lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match info.split_once(' ').unwrap_or((info, "")) {
            ("toml", name) => steps.push(Step::Write { name, text }),
            ("sh", flag) => steps.push(Step::Type { commands: text, fails: flag == "fails" }),
            ("text", _) => {}
            (other, _) => panic!("a reader would not know what to do with {other:?}"),
        }
    }
    steps
}

#[test]
fn steps_are_read_in_order() {
    let page = "Text.\n```toml a.toml\nx = 1\n```\n```text\nno\n```\n```sh fails\nfalse\n```\n";
    let write = Step::Write { name: "a.toml", text: "x = 1\n".to_owned() };
    let type_in = Step::Type { commands: "false\n".to_owned(), fails: true };
    assert_eq!(steps(page), [write, type_in]);
}
