//! Programs of any kind.

use std::fs;

use psmc_lab::run::RunOptions;

use super::{joined_by, quiet, results, try_run};

fn program(name: &str, command: &str, more: &str) -> String {
    format!("[[program]]\nname = \"{name}\"\nhost = \"a\"\ncommand = ['sh', '-c', '{command}']\n{more}\n")
}

#[test]
fn a_program_says_how_it_ended() {
    let scenario = joined_by(&["dsl"])
        + &program("fine", "ping -c 1 10.1.0.2", "")
        + &program("fails", "echo what is wrong; exit 3", "")
        + &program("stays", "sleep 1000", "")
        + &program("told", "sleep 1000", "start = \"500ms\"\nstop = \"1s\"")
        + &program("stubborn", "trap true TERM; while true; do sleep 0.1; done", "stop = \"1500ms\"");
    let results = results(&scenario);
    let ended: Vec<_> = results.programs.iter().map(|it| it.exit_status).collect();
    // As a shell counts signals: 15 is SIGTERM.
    assert_eq!(ended, [Some(0), Some(3), None, Some(128 + 15), None]);
    let warning = "program fails ended with exit status 3 after\nfails: what is wrong";
    assert!(results.warnings.iter().any(|it| it == warning), "{:?}", results.warnings);
}

#[test]
fn a_program_is_killed_and_restarted() {
    let events = "[[event]]\nat = '2s'\nkill = 'count'\n[[event]]\nat = '2s'\nrestart = 'count'\n";
    // Time enough for a busy machine to start a shell.
    let scenario = joined_by(&["dsl"]).replace("2s", "4s")
        + &program("count", "echo started; exec sleep 1000", "")
        + events;
    let directory = tempfile::tempdir().unwrap();
    let options = RunOptions { keep: Some(directory.path().join("kept")), ..quiet() };
    let results = try_run(&scenario, &options).unwrap();
    assert_eq!(results.programs[0].exit_status, None);
    assert_eq!(fs::read_to_string(&results.programs[0].log).unwrap(), "started\nstarted\n");
}

#[test]
fn files_are_kept_if_asked_for() {
    let scenario = joined_by(&["dsl"])
        + "capture = \"dsl.pcap\"\n"
        + &program("writer", "echo said; echo written > {dir}/note", "");
    let directory = tempfile::tempdir().unwrap();
    let options = RunOptions { keep: Some(directory.path().to_owned()), ..quiet() };
    try_run(&scenario, &options).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!((read("note").as_str(), read("writer.log").as_str()), ("written\n", "said\n"));
    for capture in ["dsl-a.pcap", "dsl-b.pcap"] {
        assert!(fs::metadata(directory.path().join(capture)).unwrap().len() >= 24, "{capture}");
    }
}

#[test]
fn an_unknown_program_is_named_before_anything_is_made() {
    let scenario = joined_by(&["dsl"]) + "[[program]]\nname = \"web\"\nhost = \"a\"\ncommand = [\"ngnix\"]\n";
    let error = try_run(&scenario, &quiet()).unwrap_err().to_string();
    let said = "program \"ngnix\", which program \"web\" should be, is neither in ";
    assert!(error.starts_with(said), "{error}");
    assert!(error.ends_with(" nor on the PATH"), "{error}");
}

#[test]
fn an_unknown_congestion_control_is_told_what_there_is() {
    let stream = "[[traffic]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"warp\"\n";
    let error = try_run(&(joined_by(&["dsl"]) + stream), &quiet()).unwrap_err().to_string();
    assert!(
        error.starts_with("this kernel does not support congestion control \"warp\"; available: "),
        "{error}"
    );
    assert!(error.contains("reno"), "{error}");
}
