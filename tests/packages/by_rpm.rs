//! The `.rpm` packages installed, upgraded and erased by rpm itself, whose scripts run in the tree that they are installed to.

use std::process::Command;

use crate::machine::Root;
use crate::{NAMES, done, newer_rpm, rpm};

/// rpm's database, in the tree.
const DATABASE: &str = "/srv/rpm";

/// Folders of other packages, which those that complete command lines have on Fedora.
const OF_OTHERS: [&str; 3] =
    ["./usr/share/fish ", "./usr/share/fish/vendor_completions.d ", "./usr/share/zsh/site-functions "];

#[test]
fn erased_packages_leave_their_users_and_what_these_have() {
    let root = Root::new();
    root.types(&format!("mkdir -p {DATABASE}"));
    let before = root.listing();
    for name in NAMES {
        run(&root, &["--install", rpm(name).to_str().unwrap()]);
    }
    root.types("systemctl enable psmcd@hq psmc-relay@fra1 && systemd-analyze verify /usr/lib/systemd/system/psmc*@.service");
    root.types(
        "umask 077; echo key > /etc/psmc-relay/key; chown psmc-relay /etc/psmc-relay/key; rm -r /run/systemd",
    );
    assert_eq!(root.types("stat --format '%U %a' /etc/psmc-relay"), "psmc-relay 750\n");

    run(&root, &["--upgrade", newer_rpm().to_str().unwrap()]);
    let version = run(&root, &["--query", "--queryformat", "%{VERSION}", "psmc-relay"]);
    assert_eq!(version, crate::NEWER);
    root.types("test -x /usr/bin/psmc-relay && test -L /etc/systemd/system/multi-user.target.wants/psmc-relay@fra1.service");
    assert_eq!(root.types("cat /etc/psmc-relay/key"), "key\n");

    run(&root, &[&["--erase"][..], &NAMES].concat());
    let left = root.listing();
    let left = left.lines().filter(|line| !before.contains(line) && !line.starts_with("./srv/rpm"));
    let left = left.filter(|line| !OF_OTHERS.iter().any(|other| line.starts_with(other)));
    let names: Vec<&str> = left.map(|line| line.split(' ').next().unwrap()).collect();
    // As ever where there are such packages: nobody else may get the numbers of users that have files.
    let of_users = [
        "./etc/psmc-coordinator",
        "./etc/psmc-dns",
        "./etc/psmc-front",
        "./etc/psmc-relay",
        "./etc/psmc-relay/key",
    ];
    assert_eq!(names, of_users);
    for user in ["psmc-coordinator", "psmc-dns", "psmc-front", "psmc-relay"] {
        root.types(&format!("getent passwd {user}"));
    }
}

fn run(root: &Root, arguments: &[&str]) -> String {
    let mut rpm = Command::new("rpm");
    rpm.arg("--root").arg(root.path()).args(["--dbpath", DATABASE]);
    // What they require is in another database.
    let changes = ["--install", "--upgrade", "--erase"].contains(&arguments[0]);
    done(rpm.args(changes.then_some("--nodeps")).args(arguments))
}
