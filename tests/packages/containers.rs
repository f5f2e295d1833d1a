//! The images of the daemons that carry no tunnel of their own, built and run by podman as docs/CONTAINERS.md has it: without a
//! right, as an ordinary user, on a root that cannot be written to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::poll::wait_for;
use psmc_testbed::programs::program;
use tempfile::TempDir;

use crate::{done, empty_folder};

/// Until a daemon has started, or a tunnel is up, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user and the group that all images run as.
const USER: u32 = 65532;

/// How long a container lives, at most: nobody removes those of a test that was killed.
const LIFE: &str = "--timeout=600";

/// The user that runs these tests may not be allowed to raise limits to podman's own defaults.
const LIMITS: [&str; 2] = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096"];

#[test]
fn a_tunnel_leads_through_a_relay_in_a_container() {
    let [van, relay, hq] = [(); 3].map(|()| Namespace::new().unwrap());
    join([(&van, "wan", "192.0.2.2/24"), (&relay, "van", "192.0.2.1/24")]);
    join([(&relay, "hq", "198.51.100.1/24"), (&hq, "lan", "198.51.100.2/24")]);
    let [van_key, relay_key, hq_key] = [(); 3].map(|()| PrivateKey::generate());
    let folder = folder();
    write(&folder.path().join("relay.key"), relay_key.to_base64().as_str());
    let text =
        "[relay]\nname = \"fra1\"\nprivate_key_file = \"relay.key\"\ndestinations = [\"198.51.100.0/24\"]\n";
    let allow = format!("[[allow]]\nname = \"van\"\npublic_key = \"{}\"\n", van_key.public());
    write(&folder.path().join("relay.toml"), &format!("{text}{allow}"));
    let container = Container::run(&relay, "psmc-relay", folder.path());
    assert!(container.executes(&["psmc-relay", "status"]).contains("relay fra1"));

    let sockets = tempfile::tempdir().unwrap();
    let path = format!(
        "[[peer.path]]\nname = \"fra1\"\nrelays = [\"fra1\"]\nendpoint = \"198.51.100.2:5115\"\n\
         [[relay]]\nname = \"fra1\"\naddress = \"192.0.2.1:5115\"\npublic_key = \"{}\"\n",
        relay_key.public()
    );
    let mut sites = [
        start_site(&hq, sockets.path(), ["hq", "van"], [1, 2], [&hq_key, &van_key], ""),
        start_site(&van, sockets.path(), ["van", "hq"], [2, 1], [&van_key, &hq_key], &path),
    ];
    let answers = || {
        van.run(|| {
            Command::new("ping").args(["-c", "1", "-W", "1", "10.77.0.1"]).stdout(Stdio::null()).status()
        })
    };
    wait_for("a ping through the relay", PATIENCE, || answers().unwrap().success().then_some(()));
    let status: serde_json::Value =
        serde_json::from_str(&container.executes(&["psmc-relay", "status", "--json"])).unwrap();
    println!("{status:#}");
    assert_eq!(status["sessions"].as_array().unwrap().len(), 1, "{status:#}");
    container.is_healthy();
    container.stops();
    for site in &mut sites {
        site.kill().unwrap();
        site.wait().unwrap();
    }
}

#[test]
fn a_name_server_in_a_container_answers_and_keeps_what_it_was_told() {
    let host = Namespace::new().unwrap();
    let folder = folder();
    let zone = "$ORIGIN example.com.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\n\
                ns1 IN A 192.0.2.53\nwww IN A 192.0.2.80\n";
    write(&folder.path().join("example.com.zone"), zone);
    let update = "key \"up\" {\n\talgorithm hmac-sha256;\n\tsecret \"bm90aGluZyB0aGF0IG5lZWRzIHRvIGJlIHNlY3JldCE=\";\n};\n";
    write(&folder.path().join("up.key"), update);
    let text = "[server]\nname = \"ns1\"\nlisten = [\"127.0.0.1:5353\"]\n[[key]]\nfile = \"up.key\"\n\
                [[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\nupdate = [\"up\"]\n";
    write(&folder.path().join("dns.toml"), text);
    let container = Container::run(&host, "psmc-dns", folder.path());
    assert!(container.executes(&["psmc-dns", "status"]).contains("zone example.com. serial 1"));
    assert_eq!(dig(&host, "www.example.com"), "192.0.2.80\n");
    let update =
        "server 127.0.0.1 5353\nzone example.com.\nupdate add new.example.com. 60 A 192.0.2.81\nsend\n";
    let lines = folder.path().join("update");
    write(&lines, update);
    let key = folder.path().join("up.key");
    done_in(&host, Command::new("nsupdate").arg("-k").arg(key).arg(lines));
    assert_eq!(dig(&host, "new.example.com"), "192.0.2.81\n");
    container.is_healthy();
    container.stops();
    container.starts_again();
    assert_eq!(dig(&host, "new.example.com"), "192.0.2.81\n");
    container.stops();
}

#[test]
fn a_coordinator_in_a_container_says_how_it_is() {
    let host = Namespace::new().unwrap();
    let folder = folder();
    write(&folder.path().join("co1.key"), PrivateKey::generate().to_base64().as_str());
    write(&folder.path().join("www.key"), PrivateKey::generate().to_base64().as_str());
    let text = format!(
        "[coordinator]\nname = \"co1\"\nprivate_key_file = \"co1.key\"\n[[relay]]\nname = \"fra1\"\n\
         address = \"127.0.0.1:5115\"\npublic_key = \"{}\"\n[[service]]\nname = \"www.example.com\"\n\
         key_file = \"www.key\"\naddresses = [\"203.0.113.5\"]\n",
        PrivateKey::generate().public()
    );
    write(&folder.path().join("coordinator.toml"), &text);
    let container = Container::run(&host, "psmc-coordinator", folder.path());
    let said = container.executes(&["psmc-coordinator", "status"]);
    assert!(said.contains("www.example.com"), "{said}");
    container.is_healthy();
    container.stops();
}

/// A container with one of our images, in a namespace with which it shares the network. Gone on drop, with its volumes.
struct Container<'a> {
    host: &'a Namespace,
    image: &'static str,
}

impl<'a> Container<'a> {
    /// Starts the image `NAME`, with the configuration in `folder`, as a container of that name.
    fn run(host: &'a Namespace, image: &'static str, folder: &Path) -> Self {
        let mut run = podman();
        run.args(["run", "--detach", "--name", image, "--network=host", LIFE]).args(LIMITS);
        run.args(["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]);
        run.arg(format!("--volume={}:/etc/{image}:ro", folder.display()));
        images();
        done_in(host, run.arg(format!("{image}:{}", env!("CARGO_PKG_VERSION"))));
        let this = Self { host, image };
        this.is_up();
        this.has_no_rights();
        this
    }

    /// Runs a program in it, and returns what it prints.
    fn executes(&self, line: &[&str]) -> String {
        done_in(self.host, podman().args(["exec", self.image]).args(line))
    }

    fn is_up(&self) {
        let status = || podman().args(["exec", self.image, self.image, "status"]).output().unwrap();
        wait_for("the daemon in the container answers", PATIENCE, || status().status.success().then_some(()));
    }

    fn has_no_rights(&self) {
        let process = self.inspects("{{.State.Pid}}");
        let status = fs::read_to_string(format!("/proc/{}/status", process.trim())).unwrap();
        let is_said = |name: &str, value: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            assert_eq!(line.split_whitespace().nth(1), Some(value), "{line}");
        };
        is_said("Uid:", &USER.to_string());
        is_said("Gid:", &USER.to_string());
        is_said("CapEff:", "0000000000000000");
        is_said("NoNewPrivs:", "1");
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", process.trim())).unwrap();
        let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
        assert!(root.split(' ').nth(5).unwrap().starts_with("ro"), "{root}");
    }

    /// What whoever looks after containers asks.
    fn is_healthy(&self) {
        done_in(self.host, podman().args(["healthcheck", "run", self.image]));
    }

    fn inspects(&self, what: &str) -> String {
        done(podman().args(["inspect", "--format", what, self.image]))
    }

    /// It obeys SIGTERM, and is not killed.
    fn stops(&self) {
        done(podman().args(["stop", "--time=30", self.image]));
        let code = self.inspects("{{.State.ExitCode}}");
        assert_eq!(code.trim(), "0", "{}", self.log());
    }

    fn starts_again(&self) {
        done_in(self.host, podman().args(["start", self.image]));
        self.is_up();
    }

    fn log(&self) -> String {
        let output = podman().args(["logs", self.image]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = podman().args(["rm", "--force", "--time=0", "--volumes", self.image]).output();
    }
}

/// podman, with images and containers of these tests only.
fn podman() -> Command {
    let folder = storage();
    let mut podman = Command::new("podman");
    // What works everywhere: copies for layers, groups of processes without systemd, and runc, which takes those of both versions.
    podman.args(["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--runtime=runc", "--log-level=fatal"]);
    for (option, name) in [("--root", "images"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
        podman.arg(option).arg(folder.join(name));
    }
    podman
}

fn storage() -> &'static Path {
    static STORAGE: OnceLock<PathBuf> = OnceLock::new();
    STORAGE.get_or_init(|| empty_folder("containers"))
}

/// Builds all images once.
fn images() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let podman = podman();
        let words = [podman.get_program()].into_iter().chain(podman.get_args());
        let command: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        let command = command.join(" ") + " build --format=docker --layers=false";
        let mut script = Command::new("packaging/containers/build.sh");
        script.args(["--with", &command, "--programs"]).arg(program("psmc-relay").parent().unwrap());
        done(&mut script);
    });
}

/// A folder for a configuration, which the user of the image may read.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(USER), Some(USER)).unwrap();
    folder
}

/// Writes a file that only the user of the image may read.
fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    chown(file, Some(USER), Some(USER)).unwrap();
}

/// Joins two hosts by a link, of which each end has a name and an address.
fn join(ends: [(&Namespace, &str, &str); 2]) {
    link_pair(ends[0].0, ends[0].1, ends[1].0, ends[1].1).unwrap();
    for (host, name, address) in ends {
        host.add_address(name, address.parse().unwrap()).unwrap();
        host.set_link(name, true).unwrap();
    }
}

/// Starts psmcd with one peer.
fn start_site(
    host: &Namespace,
    folder: &Path,
    names: [&str; 2],
    inside: [u8; 2],
    keys: [&PrivateKey; 2],
    path: &str,
) -> Child {
    let file = folder.join(names[0]).with_extension("toml");
    let text = format!(
        "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.{}/24\"]\ncontrol_socket = '{}'\n\
         [[peer]]\nname = \"{}\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.{}/32\"]\n{path}",
        names[0],
        keys[0].to_base64().as_str(),
        inside[0],
        file.with_extension("sock").display(),
        names[1],
        keys[1].public(),
        inside[1],
    );
    write(&file, &text);
    chown(&file, Some(0), Some(0)).unwrap();
    host.spawn(Command::new(program("psmcd")).arg("--config").arg(file)).unwrap()
}

fn dig(host: &Namespace, name: &str) -> String {
    done_in(host, Command::new("dig").args(["@127.0.0.1", "-p", "5353", "+short", name]))
}

fn done_in(host: &Namespace, command: &mut Command) -> String {
    host.run(|| done(command))
}
