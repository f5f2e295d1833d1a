//! The formal model of a session, `docs/model`, in all its states: what must hold does, and without one of the rules it
//! does not; `just model` has the searches that take minutes. Needs spin and a C compiler.

use std::process::{Command, Output};

/// What one search covers: a model, and how much may happen in it.
type Search = (&'static str, &'static [&'static str]);

const EPOCHS: Search = ("epochs", &[]);

/// One site may start anew; keys may end.
const RESTARTS: Search = ("session", &["-DCONNECTIONS=2", "-DRESTARTS=1", "-DOFFERS=0", "-DDATAGRAMS=3"]);

/// Both sites may begin an exchange of keys.
const EXCHANGES: Search = ("session", &["-DCONNECTIONS=1", "-DRESTARTS=0", "-DOFFERS=2", "-DDATAGRAMS=4"]);

#[test]
fn what_must_hold_holds_in_all_states() {
    for (search, least) in [(EPOCHS, 30), (EXCHANGES, 50_000)] {
        let output = check(search, &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{search:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let stored = text.lines().find_map(|line| line.trim().strip_suffix(" states, stored"));
        let stored: u32 = stored.and_then(|count| count.parse().ok()).unwrap_or_default();
        assert!(stored > least, "{search:?} has only {stored} states");
    }
}

#[test]
fn without_some_of_the_rules_a_fault_is_found() {
    let mutants = [
        ("MUTANT_NO_ACKNOWLEDGEMENT", EPOCHS),
        ("MUTANT_NO_INCARNATION", RESTARTS),
        ("MUTANT_NO_WINDOW", RESTARTS),
        ("MUTANT_NOBODY_PREVAILS", EXCHANGES),
    ];
    for (mutant, search) in mutants {
        let text = String::from_utf8_lossy(&check(search, &[&format!("-D{mutant}")]).stdout).into_owned();
        assert!(text.contains("assertion violated"), "{mutant}: {text}");
    }
}

fn check((model, bounds): Search, more: &[&str]) -> Output {
    let mut command = Command::new("docs/model/check");
    command.arg(model).args(bounds).args(more);
    if !more.is_empty() {
        // A fault is found sooner than a compiler has optimised the search.
        command.env("OPTIMISE", "-O0");
    }
    command.output().expect("docs/model/check is here, and bash")
}
