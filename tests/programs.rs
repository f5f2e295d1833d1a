//! The programs are there, and say who they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn programs_print_their_name_and_version() {
    for name in ["psmcd", "psmc", "psmc-demo", "psmc-fetch"] {
        let output = Command::new(psmc_testbed::programs::program(name))
            .arg("--version")
            .output()
            .expect("the program starts");
        let expected = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}: {output:?}");
    }
}

/// systemd looks for a program without a path in `/usr/local/bin`, too, where the README puts them.
#[test]
fn units_find_the_programs_where_the_readme_puts_them() {
    let mut programs = 0;
    for entry in fs::read_dir("packaging").expect("the units are here") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "service") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a unit");
        for command in text.lines().filter(|line| line.starts_with("Exec")) {
            let (_, command) = command.split_once('=').expect("a setting");
            let program = command.split(' ').next().expect("a program");
            if program.starts_with('/') {
                assert!(Path::new(program).exists() && !program.contains("psmc"), "{path:?}: {command}");
            } else {
                assert!(psmc_testbed::programs::program(program).exists(), "{path:?}: {command}");
                programs += 1;
            }
        }
    }
    assert!(programs > 5, "{programs}");
}

/// systemd drops a unit from a cycle, and with it what should have come first (systemd.unit(5)).
#[test]
fn no_unit_waits_for_itself() {
    let mut before: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir("packaging").expect("the units are here") {
        let path = entry.expect("an entry").path();
        let Some(name) =
            path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".service"))
        else {
            continue;
        };
        for line in fs::read_to_string(&path).expect("a unit").lines() {
            let Some((order, others)) = line.split_once('=') else { continue };
            for other in others.split(' ').map(str::to_owned) {
                assert!(order != "After" || !other.contains("@."), "{name}: which instance is {other}?");
                match order {
                    "Before" => before.entry(name.to_owned()).or_default().insert(other),
                    "After" => before.entry(other).or_default().insert(name.to_owned()),
                    _ => false,
                };
            }
        }
    }
    assert!(reached(&before, "psmc-dns-resolve@.service").contains("nss-lookup.target"));
    for unit in before.keys() {
        assert!(!reached(&before, unit).contains(unit.as_str()), "{unit} waits for itself");
    }
}

/// All units that wait for one.
fn reached<'a>(before: &'a BTreeMap<String, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(unit) = next.pop() {
        let later = before.get(unit).into_iter().flatten();
        next.extend(later.map(String::as_str).filter(|later| reached.insert(*later)));
    }
    reached
}

#[test]
fn tests_that_the_security_model_names_are_there() {
    let page = fs::read_to_string("docs/SECURITY-MODEL.md").expect("the page is here");
    let named: Vec<_> = page.split('`').filter_map(|words| words.split_once(".rs::")).collect();
    for (file, test) in &named {
        let path =
            if file.starts_with("tests/") { format!("{file}.rs") } else { format!("crates/{file}.rs") };
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}(")), "there is no {file}.rs::{test}");
    }
    assert!(named.len() > 20, "{}", named.len());
}

/// A table of what works is worth as much as the tests that it names.
#[test]
fn tests_that_the_documentation_names_are_there() {
    let page = fs::read_to_string("docs/TROUBLESHOOTING.md").expect("the page is here");
    let mut named = 0;
    // An IPv6 address has the same colons.
    let tests = page.split('`').filter_map(|words| words.split_once("::"));
    for (module, test) in tests.filter(|(module, _)| module.starts_with(|first: char| first.is_alphabetic()))
    {
        let text = fs::read_to_string(format!("tests/e2e/{module}.rs")).expect("a module of tests");
        assert!(text.contains(&format!("fn {test}()")), "there is no {module}::{test}");
        named += 1;
    }
    assert!(named > 20, "{named}");
}
