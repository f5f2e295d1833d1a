//! `psmc dns resolve` as a program, in a namespace: its file is read anew, and the system's file is written. Needs root.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;
use serde_json::Value;

/// How long a busy machine may take for what takes no time.
const AT_ONCE: Duration = Duration::from_secs(60);

/// A resolver, which ends with the test.
struct Resolver(Child);

impl Drop for Resolver {
    fn drop(&mut self) {
        // It is ours, and its files are about to go.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Resolver {
    fn start(namespace: &Namespace, directory: &Path) -> Self {
        Self::start_by(namespace, directory, Command::new(env!("CARGO_BIN_EXE_psmc")))
    }

    /// Starts it by a command that takes its arguments.
    fn start_by(namespace: &Namespace, directory: &Path, mut command: Command) -> Self {
        let log = File::create(directory.join("log")).unwrap();
        command.current_dir(directory).args(["dns", "resolve", "run", "local.toml"]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Self(namespace.spawn(&mut command).unwrap())
    }

    fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn terminate(&mut self) {
        self.signal("-TERM");
        assert!(self.0.wait().unwrap().success());
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

fn write(directory: &Path, more: &str) {
    let text = format!(
        "[resolver]\nname = \"local\"\nlisten = [\"127.0.0.54\"]\nupstream = [\"127.0.0.1\"]\n\
         state_directory = \"state\"\ncontrol_socket = \"{}\"\n{more}",
        directory.join("sock").display()
    );
    fs::write(directory.join("local.toml"), text).unwrap();
}

/// How many services the running resolver has; `None` before it is up.
fn services(directory: &Path) -> Option<usize> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psmc"));
    let output =
        command.args(["dns", "resolve", "status", "--json"]).arg(directory.join("sock")).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).ok()?;
    status["services"].as_array().map(Vec::len)
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + AT_ONCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_service_comes_at_a_hangup_and_a_file_that_is_wrong_changes_nothing() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "");
    let resolver = Resolver::start(&namespace, directory);
    wait_for("it is up", || services(directory) == Some(0));
    let key = PrivateKey::from_seed([1; 32]).public();
    let service = format!(
        "[[service]]\nname = \"www.example.com\"\npublic_key = \"{key}\"\npeer = \"hq\"\nsocket = \"/run/none.sock\"\n"
    );
    write(directory, &service);
    resolver.hang_up();
    wait_for("there is a service", || services(directory) == Some(1));
    write(directory, "nonsense = 1\n");
    resolver.hang_up();
    let log = || fs::read_to_string(directory.join("log")).unwrap();
    wait_for("it complains", || log().contains("configuration not reloaded; the current one stays in force"));
    assert!(log().contains("nonsense"), "{}", log());
    assert_eq!(services(directory), Some(1));
}

/// As every container has its `/etc/resolv.conf`: no file can take the place of one that is mounted.
#[test]
fn a_file_that_is_mounted_is_written_into_and_put_back() {
    const EARLIER: &str = "search example.com\nnameserver 192.0.2.1\n";
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let [mounted, place] = ["mounted", "resolv.conf"].map(|name| directory.join(name));
    fs::write(&mounted, EARLIER).unwrap();
    fs::write(&place, "").unwrap();
    write(directory, &format!("[system]\nresolv_conf = \"{}\"\n", place.display()));
    let mut command = Command::new("unshare");
    let script = "mount --bind mounted resolv.conf; exec \"$0\" \"$@\"";
    command.args(["--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_psmc")]);
    let mut resolver = Resolver::start_by(&namespace, directory, command);
    let text = || fs::read_to_string(&mounted).unwrap();
    wait_for("the resolver is written in", || text().contains("\nnameserver 127.0.0.54\n"));
    assert!(text().ends_with("search example.com\n"), "{}", text());
    wait_for("it is up", || services(directory) == Some(0));
    resolver.terminate();
    assert_eq!(text(), EARLIER);
    assert_eq!(fs::read_to_string(&place).unwrap(), "", "outside of the mount nothing has changed");
    let is_left = |name: &str| directory.join(name).exists();
    assert!(!is_left("resolv.conf.new"), "nothing is left behind");
}
