//! What is in the packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{NAMES, deb, done, rpm};

/// The programs that are installed, each with its section of the manual.
const PROGRAMS: [(&str, char); 11] = [
    ("psmc", '1'),
    ("psmc-coordinator", '8'),
    ("psmc-demo", '1'),
    ("psmc-dns", '8'),
    ("psmc-fetch", '1'),
    ("psmc-front", '8'),
    ("psmc-guard", '8'),
    ("psmc-lab", '1'),
    ("psmc-relay", '8'),
    ("psmc-shed", '8'),
    ("psmcd", '8'),
];

/// The names of the programs that are installed.
pub(crate) fn programs() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().map(|(name, _)| name)
}

/// The files of all packages, in one folder.
fn unpacked() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        done(Command::new("dpkg-deb").arg("--extract").arg(deb(name)).arg(folder.path()));
    }
    folder
}

#[test]
fn lintian_finds_nothing() {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root"]).args(NAMES.map(deb));
    let said = done(&mut lintian);
    assert!(!said.lines().any(|line| line.starts_with("E:") || line.starts_with("W:")), "{said}");
}

#[test]
fn every_program_has_a_page_and_completions() {
    let root = unpacked();
    let there = fs::read_dir(root.path().join("usr/bin")).unwrap();
    let there: BTreeSet<String> =
        there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, programs().map(str::to_owned).collect());
    for (name, section) in PROGRAMS {
        for file in [
            format!("man/man{section}/{name}.{section}.gz"),
            format!("bash-completion/completions/{name}"),
            format!("zsh/vendor-completions/_{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ] {
            assert!(root.path().join("usr/share").join(&file).is_file(), "{file}");
        }
    }
}

#[test]
fn pages_are_rendered_without_a_complaint() {
    let root = unpacked();
    let mut pages = 0;
    for section in ["man1", "man8"] {
        for page in fs::read_dir(root.path().join("usr/share/man").join(section)).unwrap() {
            let page = page.unwrap().path();
            let mut man = Command::new("man");
            man.env("MANROFFSEQ", "").env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
            let output = man.args(["--warnings=w", "--local-file", "-Tutf8"]).arg(&page).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", page.display());
            let text = String::from_utf8(output.stdout).unwrap();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // What whatis(1) says of it.
            let name = page.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
            assert!(text.contains(&format!("{name} - ")), "{}: {text}", page.display());
            pages += 1;
        }
    }
    assert!(pages > PROGRAMS.len(), "{pages}");
}

#[test]
fn bash_completes_commands_and_their_options() {
    let root = unpacked();
    let completions = root.path().join("usr/share/bash-completion/completions");
    for (typed, completed) in [
        ("psmc inv", "invite"),
        ("psmc join --no", "--no-start"),
        ("psmc fetch --sha", "--sha256"),
        ("psmcd --con", "--config"),
        ("psmc-relay sta", "status"),
    ] {
        let program = typed.split(' ').next().unwrap();
        let script = "set -eu; . \"$1\"; read -ra COMP_WORDS <<<\"$2\"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
            function=$(complete -p \"$3\" | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); \
            \"$function\" \"$3\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash"]).arg(completions.join(program)).args([typed, program]);
        let offered = done(&mut bash);
        assert!(offered.lines().any(|offer| offer == completed), "{typed}: {offered}");
    }
}

#[test]
fn an_rpm_has_what_the_deb_has() {
    for name in NAMES {
        let file = rpm(name);
        done(Command::new("rpm").arg("--checksig").arg(&file));
        let listed = done(Command::new("rpm").args(["--query", "--list", "--package"]).arg(&file));
        let rpm: BTreeSet<&str> = listed.lines().collect();
        let root = tempfile::tempdir().unwrap();
        done(Command::new("dpkg-deb").arg("--extract").arg(deb(name)).arg(root.path()));
        let files = done(Command::new("find").args([".", "-type", "f"]).current_dir(root.path()));
        let deb: BTreeSet<String> = files.lines().map(|file| rpm_path(&file[1..])).collect();
        assert_eq!(rpm, deb.iter().map(String::as_str).collect(), "{name}");
        assert!(deb.len() > 5, "{name}: {deb:?}");

        // Installing it is tried, in a database of its own; what it requires is not there.
        let database = root.path().join("rpm");
        fs::create_dir(&database).unwrap();
        let mut test = Command::new("rpm");
        test.args(["--install", "--test", "--nodeps", "--dbpath"]).arg(&database).arg(&file);
        done(&mut test);
        let scripts = done(Command::new("rpm").args(["--query", "--scripts", "--package"]).arg(&file));
        assert!(scripts.contains("daemon-reload") && !scripts.contains("@UNITS@"), "{scripts}");
    }
}

/// Where a file of a `.deb` is in an `.rpm`.
fn rpm_path(path: &str) -> String {
    path.replace("/zsh/vendor-completions/", "/zsh/site-functions/")
}

/// Programs keep their symbols while they are built, for those who look for faults.
#[test]
fn programs_are_stripped() {
    let root = unpacked();
    for name in programs() {
        let file = root.path().join("usr/bin").join(name);
        assert_eq!(sections(&file).find(".symtab"), None, "{name}");
    }
}

fn sections(file: &Path) -> String {
    done(Command::new("readelf").args(["--sections", "--wide"]).arg(file))
}
