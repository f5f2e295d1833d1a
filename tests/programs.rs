//! The programs are there, and say who they are.

mod common;

use std::process::Command;

#[test]
fn programs_print_their_name_and_version() {
    for name in ["psmcd", "psmc"] {
        let output =
            Command::new(common::program(name)).arg("--version").output().expect("the program starts");
        let expected = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}: {output:?}");
    }
}
