//! The tool itself: how it ends, and what stays when it is not let end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_lab::results::Results;
use tempfile::TempDir;

use super::{joined_by, tolerated};
use psmc_testbed::steadily::{Measured, steadily};

/// How long a lab may take to start or to end: a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(20);

/// An ordinary user.
const NOBODY: &str = "65534";

/// A lab in which a program has started a daemon that is no child of it any more.
struct Lab {
    process: Child,
    daemon: String,
    /// The directory of the run.
    directory: PathBuf,
    _files: TempDir,
}

impl Lab {
    /// Starts it by this command, whose last argument will be the file, and waits until the daemon runs.
    fn start(mut command: Command) -> Self {
        let files = tempfile::tempdir().unwrap();
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (scenario, note) = (files.path().join("scenario.toml"), files.path().join("note"));
        let daemon = daemon();
        fs::write(&scenario, with_daemon(&daemon, &note)).unwrap();
        let process = command.arg(scenario).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| is_running(&daemon) && fs::read_to_string(&note).is_ok_and(|it| it.ends_with('\n')));
        let directory = PathBuf::from(fs::read_to_string(&note).unwrap().trim());
        assert!(directory.is_dir(), "{}", directory.display());
        Self { process, daemon, directory, _files: files }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    fn is_gone(&self) -> bool {
        !is_running(&self.daemon) && !self.directory.exists()
    }
}

/// The command line of a daemon that no other test has.
fn daemon() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 1000.{}{count}", std::process::id())
}

/// A scenario that lasts for long, and says in the file `note` where its directory is.
fn with_daemon(daemon: &str, note: &Path) -> String {
    let note = note.display();
    joined_by(&["dsl"]).replace("2s", "1000s")
        + &format!(
            "[[program]]\nname = 'server'\nhost = 'a'\n\
             command = ['sh', '-c', 'setsid {daemon} & echo {{dir}} > {note}; exec sleep 1000']\n"
        )
}

fn psmc_lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-lab"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn is_running(command_line: &str) -> bool {
    let wanted = command_line.replace(' ', "\0") + "\0";
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|it| fs::read(it.path().join("cmdline")).ok()).any(|it| it == wanted.as_bytes())
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        sleep(Duration::from_millis(10));
    }
}

fn clean() {
    let output = psmc_lab(&["clean"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_signal_ends_a_lab_and_all_that_it_has_started() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut lab = Lab::start(psmc_lab(&["run", "--quiet"]));
        lab.signal(signal);
        assert_eq!(lab.process.wait().unwrap().code(), Some(1));
        assert!(lab.is_gone());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut lab.process.stderr.take().unwrap(), &mut text).unwrap();
        assert_eq!(text, "error: stopped; everything that the lab created has been removed\n");
    }
}

#[test]
fn what_a_killed_lab_leaves_is_cleaned_up_and_a_living_one_is_not_touched() {
    let mut dead = Lab::start(psmc_lab(&["run", "--quiet"]));
    let mut living = Lab::start(psmc_lab(&["run", "--quiet"]));
    dead.signal(Signal::SIGKILL);
    dead.process.wait().unwrap();
    // The program is killed by the kernel; its daemon has nobody to kill it.
    assert!(is_running(&dead.daemon) && dead.directory.exists());
    clean();
    assert!(dead.is_gone());
    assert!(is_running(&living.daemon) && living.directory.exists());
    assert_eq!(living.process.try_wait().unwrap(), None);
    living.signal(Signal::SIGTERM);
    living.process.wait().unwrap();
    assert!(living.is_gone());
}

#[test]
fn an_ordinary_user_has_labs_as_well() {
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
            env!("CARGO_BIN_EXE_psmc-lab"),
        ]);
        command.args(arguments).env_remove("XDG_RUNTIME_DIR").stdout(Stdio::null());
        command
    };
    let mut lab = Lab::start(as_nobody(&["run", "--quiet"]));
    lab.signal(Signal::SIGKILL);
    lab.process.wait().unwrap();
    assert!(is_running(&lab.daemon));
    // Another user's labs are nobody's business, not even root's.
    clean();
    assert!(is_running(&lab.daemon));
    assert!(as_nobody(&["clean"]).status().unwrap().success());
    assert!(lab.is_gone());
}

#[test]
fn two_labs_at_once_do_not_disturb_each_other() {
    steadily(Measured::Rate, || {
        let scenario =
            joined_by(&["dsl"]) + "[[traffic]]\nname = 'bulk'\nkind = 'tcp'\nfrom = 'a'\nto = 'b'\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), scenario).unwrap();
        let path = file.path().to_str().unwrap();
        let labs = [(); 2].map(|()| psmc_lab(&["run", "--quiet", "--json", "-", path]).spawn().unwrap());
        for lab in labs {
            let output = lab.wait_with_output().unwrap();
            let results: Results = serde_json::from_slice(&output.stdout).unwrap();
            let goodput = results.traffic[0].goodput_mbps;
            assert!(tolerated(&results, 14.0..20.0, 2.0).contains(&goodput), "{results:?}");
        }
    });
}

#[test]
fn the_exit_code_says_whether_all_checks_hold() {
    let scenario = joined_by(&["dsl"]).replace("2s", "500ms")
        + "[[traffic]]\nname = 'ping'\nkind = 'ping'\nfrom = 'a'\nto = 'b'\n\
       [[check]]\ntraffic = 'ping'\nrtt_median = { at_most = 'LIMIT' }\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    for (limit, code, word) in [("9ms", 1, "FAILED"), ("1s", 0, "ok")] {
        fs::write(file.path(), scenario.replace("LIMIT", limit)).unwrap();
        let output = psmc_lab(&["run", "--quiet", file.path().to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(word), "{output:?}");
    }
}

#[test]
fn a_lab_may_have_as_many_files_open_as_the_machine_allows() {
    let directory = tempfile::tempdir().unwrap();
    let (file, note) = (directory.path().join("files.toml"), directory.path().join("note"));
    let scenario = joined_by(&["dsl"]).replace("2s", "500ms")
        + &format!(
            "[[program]]\nname = 'note'\nhost = 'a'\ncommand = ['sh', '-c', 'ulimit -Sn > {}']\n",
            note.display()
        );
    fs::write(&file, scenario).unwrap();
    let limited = "ulimit -Sn 20 && ulimit -Hn 4000 && exec \"$0\" run --quiet \"$1\"";
    let lab = Command::new("sh").args(["-c", limited, env!("CARGO_BIN_EXE_psmc-lab")]).arg(file).output();
    assert!(lab.as_ref().unwrap().status.success(), "{lab:?}");
    assert_eq!(fs::read_to_string(note).unwrap(), "4000\n");
}
