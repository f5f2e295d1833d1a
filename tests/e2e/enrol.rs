//! A tunnel set up by commands alone, as the README does it: `psmc init`, `psmc invite`, `psmc join`.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::programs::program;
use psmc_testbed::steadily::turn;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Keyboard, wait_for};

/// Where the van finds headquarters.
const ENDPOINT: &str = "203.0.113.5";

/// Headquarters, and a van with two uplinks to it.
struct Hosts {
    hq: Host,
    van: Host,
}

/// A machine on which somebody types.
struct Host {
    namespace: Namespace,
    folder: TempDir,
}

impl Host {
    fn new() -> Self {
        Self { namespace: Namespace::new().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    /// Types a command.
    fn psmc(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program("psmc"));
        command.args(args);
        self.namespace.run(|| command.output()).unwrap()
    }

    /// Types a command that does what it says, and returns what it prints.
    fn done(&self, args: &[&str]) -> String {
        let output = self.psmc(args);
        assert!(output.status.success(), "psmc {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types a command that is refused, and returns why.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.psmc(args);
        assert!(!output.status.success(), "psmc {args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Somebody who reads the README, with files of this host's own.
    fn keyboard(&self) -> Keyboard<'_> {
        Keyboard::new(&self.namespace, self.folder.path())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn status(&self, site: &str) -> Value {
        let socket = self.file(&format!("{site}.sock"));
        serde_json::from_str(&self.done(&["--socket", socket.to_str().unwrap(), "status", "--json"])).unwrap()
    }

    /// Whether that address answers a ping.
    fn pings(&self, address: &str) -> bool {
        let mut ping = Command::new("ping");
        ping.args(["-c", "1", "-W", "1", address]);
        self.namespace.run(|| ping.output()).unwrap().status.success()
    }

    /// The daemons that were started here.
    fn daemons(&self) -> Vec<i32> {
        let is_ours = |pid: &i32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("psmcd") && line.contains(self.folder())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }

    fn kill_daemons(&self) {
        for daemon in self.daemons() {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(daemon), Signal::SIGKILL);
        }
    }

    /// Kills the daemon of a site, and waits until nothing of it is left.
    fn kill_site(&self, site: &str) {
        self.kill_daemons();
        let socket = self.file(&format!("{site}.sock"));
        // A process that ends has no command line any more before its sockets are closed.
        let is_gone = || UnixStream::connect(&socket).is_err().then_some(());
        wait_for("it has ended", Duration::from_secs(10), is_gone);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for file in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
                let is_shown =
                    [".log", ".toml"].iter().any(|end| file.path().to_string_lossy().ends_with(end));
                if is_shown {
                    eprintln!(
                        "{}:\n{}",
                        file.path().display(),
                        fs::read_to_string(file.path()).unwrap_or_default()
                    );
                }
            }
        }
        self.kill_daemons();
    }
}

impl Hosts {
    fn new() -> Self {
        let this = Self { hq: Host::new(), van: Host::new() };
        let (hq, van) = (&this.hq.namespace, &this.van.namespace);
        hq.add_address("lo", format!("{ENDPOINT}/32").parse().unwrap()).unwrap();
        for (uplink, metric) in [(0, 100), (1, 200)] {
            let (near, far) = (format!("wan{uplink}"), format!("lan{uplink}"));
            link_pair(van, &near, hq, &far).unwrap();
            van.add_address(&near, format!("192.0.2.{}/26", 64 * uplink + 2).parse().unwrap()).unwrap();
            hq.add_address(&far, format!("192.0.2.{}/26", 64 * uplink + 1).parse().unwrap()).unwrap();
            van.set_link(&near, true).unwrap();
            hq.set_link(&far, true).unwrap();
            let gateway = format!("192.0.2.{}", 64 * uplink + 1).parse().unwrap();
            van.add_route_with_metric("0.0.0.0/0".parse().unwrap(), gateway, metric).unwrap();
        }
        this
    }

    /// Headquarters runs.
    fn init(&self) {
        self.init_with(&[]);
    }

    fn init_with(&self, further: &[&str]) {
        let args = ["init", "--name", "hq", "--endpoint", ENDPOINT, "--network", "192.168.10.0/24", "--dir"];
        let printed =
            self.hq.done(&[&args[..], &[self.hq.folder(), "--address", "10.77.0.1/24"], further].concat());
        assert!(printed.contains("psmcd runs") && printed.contains("psmc invite NAME"), "{printed}");
    }

    /// The line with which a site joins.
    fn invite(&self, args: &[&str]) -> String {
        let config = self.hq.file("hq.toml");
        let printed = self.hq.done(&[&["invite"], args, &["--config", config.to_str().unwrap()]].concat());
        let start = printed.find("psmc:").unwrap();
        printed[start..].split('\'').next().unwrap().to_owned()
    }
}

#[test]
fn three_commands_make_a_tunnel() {
    let _turn = turn();
    let hosts = Hosts::new();
    let begun = Instant::now();
    hosts.init();
    let uri = hosts.invite(&["van", "--network", "192.168.20.0/24"]);
    let printed = hosts.van.done(&["join", &uri, "--dir", hosts.van.folder()]);
    assert!(hosts.van.pings("10.77.0.1"));
    println!("from nothing to a ping: {:.1} s", begun.elapsed().as_secs_f64());

    assert!(printed.contains("Joined hq as van, 10.77.0.2/24 in the tunnel"), "{printed}");
    assert!(printed.contains("wan0") && printed.contains("wan1"), "{printed}");
    assert!(printed.contains("10.77.0.0/24, 192.168.10.0/24 are reached through it"), "{printed}");
    let status = hosts.van.status("van");
    let active = |path: &&Value| path["state"] == "active";
    assert_eq!(
        status["peers"][0]["paths"].as_array().unwrap().iter().filter(active).count(),
        2,
        "{status:#}"
    );
    let allowed = &hosts.hq.status("hq")["peers"][0]["allowed_ips"];
    assert_eq!(*allowed, serde_json::json!(["10.77.0.2/32", "192.168.20.0/24"]));
    // What is written is all that there is.
    let text = fs::read_to_string(hosts.hq.file("hq.toml")).unwrap();
    assert!(text.starts_with("# The site hq.") && !text.contains("[[invitation]]"), "{text}");

    let once_more = hosts.van.refused(&["join", &uri, "--dir", hosts.van.folder()]);
    assert!(once_more.contains("van.toml is there already"), "{once_more}");
    let elsewhere = tempfile::tempdir().unwrap();
    let used = hosts.van.refused(&["join", &uri, "--dir", elsewhere.path().to_str().unwrap()]);
    assert!(used.contains("the invitation was used already"), "{used}");
    let taken = hosts.hq.refused(&["invite", "van", "--config", hosts.hq.file("hq.toml").to_str().unwrap()]);
    assert!(taken.contains("there is a site van already"), "{taken}");
}

#[test]
fn whoever_joins_gets_the_internet_unless_it_does_not_want_it() {
    let _turn = turn();
    for (option, networks) in [
        (None, r#"["10.77.0.0/24", "192.168.10.0/24", "0.0.0.0/0"]"#),
        (Some("--no-internet"), r#"["10.77.0.0/24", "192.168.10.0/24"]"#),
    ] {
        let hosts = Hosts::new();
        hosts.init_with(&["--internet"]);
        assert_eq!(
            fs::read_to_string(hosts.hq.file("hq.toml")).unwrap().matches("\ninternet = true").count(),
            1
        );
        let uri = hosts.invite(&["van"]);
        let args = ["join", &uri, "--dir", hosts.van.folder()];
        hosts.van.done(&args.into_iter().chain(option).collect::<Vec<_>>());
        let text = fs::read_to_string(hosts.van.file("van.toml")).unwrap();
        assert!(text.contains(&format!("\nallowed_ips = {networks}\n")), "{text}");
        let mut way = Command::new("ip");
        way.args(["route", "get", "198.51.100.9"]);
        let way = hosts.van.namespace.run(|| way.output()).unwrap();
        let way = String::from_utf8(way.stdout).unwrap();
        assert_eq!(way.contains("dev psmc"), option.is_none(), "{way}");
    }
}

#[test]
fn a_peer_that_has_joined_stays_until_it_is_expelled() {
    let _turn = turn();
    let hosts = Hosts::new();
    hosts.init();
    let uri = hosts.invite(&["van"]);
    hosts.van.done(&["join", &uri, "--dir", hosts.van.folder()]);
    assert!(hosts.van.pings("10.77.0.1"));

    hosts.hq.kill_site("hq");
    let config = hosts.hq.file("hq.toml");
    let log = fs::File::create(hosts.hq.file("again.log")).unwrap();
    let mut psmcd = Command::new(program("psmcd"));
    let mut psmcd = hosts.hq.namespace.spawn(psmcd.arg("--config").arg(&config).stderr(log)).unwrap();
    wait_for("the van is back", Duration::from_secs(30), || hosts.van.pings("10.77.0.1").then_some(()));

    let config = config.to_str().unwrap();
    hosts.hq.done(&["expel", "van", "--config", config]);
    let text = fs::read_to_string(config).unwrap();
    assert!(!text.contains("[[peer]]") && text.contains("# The site hq."), "{text}");
    wait_for("it is let in no longer", Duration::from_secs(10), || {
        let control = &hosts.van.status("van")["peers"][0]["control"];
        let error = control["last_error"].as_str().unwrap_or_default();
        error.contains("rejects this site's key").then_some(())
    });
    assert!(!hosts.van.pings("10.77.0.1"));
    let nobody = hosts.hq.refused(&["expel", "van", "--config", config]);
    assert!(nobody.contains("there is no peer `van`"), "{nobody}");
    psmcd.kill().unwrap();
    psmcd.wait().unwrap();
}

/// The lines that the README has typed in its section "Use it".
fn typed_by_readers() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("\n## Use it\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    section.lines().filter(|line| line.starts_with("sudo psmc ")).collect()
}

#[test]
fn the_commands_of_the_readme_make_a_tunnel() {
    let _turn = turn();
    let hosts = Hosts::new();
    let (hq, van) = (hosts.hq.keyboard(), hosts.van.keyboard());
    let lines = typed_by_readers();
    let [init, invite, join] = lines.as_slice() else { panic!("{lines:?}") };
    let begun = Instant::now();
    assert!(hq.types(init).contains("Written: /etc/psmc/hq.key, /etc/psmc/hq.toml"));
    let invited = hq.types(invite);
    let uri = invited.split('\'').nth(1).unwrap();
    assert!(join.contains("'psmc:…'"), "{join}");
    assert!(van.types(&join.replace("psmc:…", uri)).contains("The tunnel is up"));
    println!("three commands: {:.1} s", begun.elapsed().as_secs_f64());
    let address = "$(sed -n 's/^allowed_ips = ..10/10/p' /etc/psmc/van.toml | cut -d. -f1-3).1";
    van.types(&format!("ping -c 3 -W 5 {address}"));
    assert!(hq.types("psmc peers").contains("van"));
    hq.types("psmc expel van");
    assert!(!Path::new("/etc/psmc/hq.toml").exists(), "this machine is left alone");
}

/// Changes a file as a person would.
fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn invitations_that_do_not_count_say_why() {
    let _turn = turn();
    let hosts = Hosts::new();
    let join = |uri: &str| hosts.van.refused(&["join", uri, "--dir", hosts.van.folder()]);
    hosts.init();
    let (config, socket) = (hosts.hq.file("hq.toml"), hosts.hq.file("hq.sock"));
    let socket = socket.to_str().unwrap();

    let cut = hosts.invite(&["van"]);
    let why = join(&cut[..cut.len() - 3]);
    assert!(why.contains("a part of it is missing") && why.contains("copy the whole line"), "{why}");

    // Another of its name takes its place.
    let uri = hosts.invite(&["van"]);
    let why = join(&cut);
    assert!(why.contains("it was used, withdrawn, or has long expired"), "{why}");

    let text = fs::read_to_string(&config).unwrap();
    let expires = text.lines().find(|line| line.starts_with("expires")).unwrap().to_owned();
    edit(&config, &expires, "expires = \"2026-01-01T00:00:00Z\"");
    hosts.hq.done(&["--socket", socket, "reload"]);
    let why = join(&uri);
    assert!(why.contains("the invitation expired at 2026-01-01T00:00:00Z"), "{why}");
    assert!(hosts.hq.done(&["--socket", socket, "peers"]).contains("expired"), "peers");

    // A configuration that is wrong is not written; the invitation is as good as before.
    edit(&config, "expires = \"2026-01-01T00:00:00Z\"", &expires);
    hosts.hq.done(&["--socket", socket, "reload"]);
    edit(&config, "[site]\n", "[site]\nwrong = 1\n");
    let why = join(&uri);
    assert!(why.contains("hq cannot add this site as its peer") && why.contains("has no key"), "{why}");
    edit(&config, "[site]\nwrong = 1\n", "[site]\n");
    hosts.van.done(&["join", &uri, "--dir", hosts.van.folder()]);
    assert!(hosts.van.pings("10.77.0.1"));
}

#[test]
fn nobody_at_the_endpoint_is_said_and_leaves_no_site() {
    let _turn = turn();
    let hosts = Hosts::new();
    hosts.init();
    let uri = hosts.invite(&["van"]);
    hosts.hq.kill_site("hq");
    let why = hosts.van.refused(&["join", &uri, "--dir", hosts.van.folder()]);
    assert!(why.contains("cannot reach 203.0.113.5:5115 by TCP") && why.contains("firewalls"), "{why}");
    assert!(!hosts.van.file("van.toml").exists());
}
