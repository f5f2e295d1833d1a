//! Two sites with two routers between them: each leads from an uplink of the van to a link of the headquarters.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use psmc_api::{PathState, PeerState};
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::programs::program;
use psmc_testbed::steadily::{Turn, turn};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{End, HQ, NameServer, Site, VAN, wait_for};

/// For what takes a second: a small machine is busy at times.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Where the headquarters are, behind both routers.
pub(super) const ENDPOINT: &str = "203.0.113.5";
pub(super) const ENDPOINT_V6: &str = "2001:db8::5";

/// The third site, if there is one, and where it is.
const BRANCH: End = End { name: "branch", inside: 3, outside: 3, interface: 'b' };
pub(super) const BRANCH_ADDRESS: &str = "203.0.113.6";

/// Which site is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Van,
    Hq,
}

/// The two sites, and the routers between them. Everything vanishes on drop.
pub(super) struct World {
    pub(super) van: Site,
    pub(super) hq: Site,
    pub(super) routers: [Namespace; 2],
    /// What is kept running beside them.
    pub(super) kept: Vec<Box<dyn std::any::Any>>,
    /// By which command psmc is run, with psmc and its arguments behind it.
    pub(super) wrapper: Vec<String>,
    directory: TempDir,
    _turn: Turn,
}

impl World {
    pub(super) fn new() -> Self {
        let turn = turn();
        let directory = tempfile::Builder::new().prefix("psmc-e2e-").tempdir().unwrap();
        let (van, hq) = (Site::new(VAN, directory.path()), Site::new(HQ, directory.path()));
        let routers = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let world = Self { van, hq, routers, kept: Vec::new(), wrapper: Vec::new(), directory, _turn: turn };
        for (number, router) in (1..).zip(&world.routers) {
            world.join(number, router);
        }
        world.hq.run(&[
            "sh",
            "-ec",
            &format!("ip addr add {ENDPOINT} dev lo; ip -6 addr add {ENDPOINT_V6} dev lo nodad"),
        ]);
        let hq_key = world.hq.key.public();
        world.configure(
            At::Van,
            "",
            &format!(
                "[[peer]]\nname = \"hq\"\npublic_key = \"{hq_key}\"\nallowed_ips = [\"10.77.0.1/32\"]\nendpoint = \"{ENDPOINT}:5115\"\n"
            ),
        );
        let van_key = world.van.key.public();
        world.configure(
            At::Hq,
            "",
            &format!(
                "[[peer]]\nname = \"van\"\npublic_key = \"{van_key}\"\nallowed_ips = [\"10.77.0.2/32\"]\n"
            ),
        );
        world
    }

    /// Lays the links of a router.
    fn join(&self, n: u8, router: &Namespace) {
        link_pair(&self.van.namespace, &format!("v{n}"), router, "van").unwrap();
        link_pair(router, "hq", &self.hq.namespace, &format!("h{n}")).unwrap();
        let metric = u32::from(n) * 100;
        self.van.run(&[
            "sh",
            "-ec",
            &format!(
                "ip addr add 10.1.{n}.1/24 dev v{n}; ip -6 addr add fd00:1:{n}::1/64 dev v{n} nodad
             ip route add default via 10.1.{n}.2 dev v{n} metric {metric}
             ip -6 route add default via fd00:1:{n}::2 dev v{n} metric {metric}"
            ),
        ]);
        self.hq.run(&[
            "sh",
            "-ec",
            &format!(
                "ip addr add 10.2.{n}.2/24 dev h{n}; ip -6 addr add fd00:2:{n}::2/64 dev h{n} nodad
             ip route add 10.1.{n}.0/24 via 10.2.{n}.1; ip -6 route add fd00:1:{n}::/64 via fd00:2:{n}::1
             ip route add default via 10.2.{n}.1 dev h{n} metric {metric}
             ip -6 route add default via fd00:2:{n}::1 dev h{n} metric {metric}"
            ),
        ]);
        sh(
            router,
            &format!(
                "ip addr add 10.1.{n}.2/24 dev van; ip -6 addr add fd00:1:{n}::2/64 dev van nodad
             ip addr add 10.2.{n}.1/24 dev hq; ip -6 addr add fd00:2:{n}::1/64 dev hq nodad
             sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
             ip route add {ENDPOINT} via 10.2.{n}.2; ip -6 route add {ENDPOINT_V6} via fd00:2:{n}::2"
            ),
        );
    }

    /// Writes a configuration: more lines of `[site]`, and its other sections.
    pub(super) fn configure(&self, at: At, site: &str, peers: &str) {
        let this = self.site(at);
        this.configure(&format!(
            "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.{}/24\"]\ncontrol_socket = '{}'\n{site}\n{peers}",
            this.end.name,
            this.key.to_base64().as_str(),
            this.end.inside,
            this.file("sock").display(),
        ));
    }

    /// A third site behind the headquarters, which runs, and which the van reaches at this endpoint: its own address, or a port of
    /// the headquarters' address.
    pub(super) fn start_branch(&self, endpoint: &str) -> Site {
        let mut branch = Site::new(BRANCH, self.directory.path());
        link_pair(&branch.namespace, "b1", &self.hq.namespace, "h3").unwrap();
        self.at(
            At::Hq,
            &format!(
                "ip addr add 10.3.1.2/24 dev h3; ip route add {BRANCH_ADDRESS} dev h3; sysctl -qw net.ipv4.ip_forward=1
                nft 'table ip nat {{ chain pre {{ type nat hook prerouting priority -100; \
                    meta l4proto {{ tcp, udp }} th dport 6115 dnat to {BRANCH_ADDRESS}:5115; }}; }}'"
            ),
        );
        for (n, router) in (1..).zip(&self.routers) {
            sh(router, &format!("ip route add {BRANCH_ADDRESS} via 10.2.{n}.2"));
        }
        let lines = "ip addr add 10.3.1.1/24 dev b1; ip route add default via 10.3.1.2";
        branch.run(&["sh", "-ec", &format!("ip addr add {BRANCH_ADDRESS} dev lo; {lines}")]);
        let [key, van_key] = [&branch, &self.van].map(|site| site.key.public());
        branch.configure(&format!(
            "[site]\nname = \"branch\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.3/24\"]\ncontrol_socket = '{}'\n\n\
             [[peer]]\nname = \"van\"\npublic_key = \"{van_key}\"\nallowed_ips = [\"10.77.0.2/32\"]\n",
            branch.key.to_base64().as_str(),
            branch.file("sock").display(),
        ));
        let text = fs::read_to_string(self.van.file("toml")).unwrap();
        self.van.configure(&format!(
            "{text}\n[[peer]]\nname = \"branch\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.3/32\"]\nendpoint = \"{endpoint}\"\n"
        ));
        branch.start();
        wait_for("the daemon of the branch", PATIENCE, || branch.try_status());
        branch
    }

    /// Replaces a part of a configuration.
    pub(super) fn edit(&self, at: At, from: &str, to: &str) {
        let site = self.site(at);
        let text = fs::read_to_string(site.file("toml")).unwrap();
        assert!(text.contains(from), "no {from} in {text}");
        site.configure(&text.replace(from, to));
    }

    /// Has the van list its paths; these are lines of the second one, whose interface is `v2` if they do not say otherwise.
    pub(super) fn list_paths(&self, second: &str) {
        let text = fs::read_to_string(self.van.file("toml")).unwrap();
        let interface = if second.contains("interface") { "" } else { "interface = \"v2\"\n" };
        self.van.configure(&format!(
            "{text}\n[[peer.path]]\nname = \"one\"\ninterface = \"v1\"\n\n[[peer.path]]\nname = \"two\"\n{interface}{second}"
        ));
    }

    pub(super) fn site(&self, at: At) -> &Site {
        match at {
            At::Van => &self.van,
            At::Hq => &self.hq,
        }
    }

    /// Runs commands at a site.
    pub(super) fn at(&self, at: At, commands: &str) {
        self.site(at).run(&["sh", "-ec", commands]);
    }

    /// Runs commands on both routers.
    pub(super) fn on_routers(&self, commands: &str) {
        for router in &self.routers {
            sh(router, commands);
        }
    }

    /// Starts the daemon of the headquarters, and waits until it listens.
    pub(super) fn start_hq(&mut self) {
        self.hq.start();
        wait_for("the daemon", PATIENCE, || self.hq.try_status());
    }

    /// Starts both daemons.
    pub(super) fn start(&mut self) {
        self.start_hq();
        self.van.start();
        wait_for("the other daemon", PATIENCE, || self.van.try_status());
    }

    /// Starts both daemons, and waits until packets get through.
    pub(super) fn start_and_wait(&mut self, paths: usize) {
        self.start();
        wait_for("a tunnel", PATIENCE, || {
            let peer = self.van.try_status()?.peers.pop()?;
            let active = peer.paths.iter().filter(|path| path.state == PathState::Active).count();
            (peer.state == PeerState::Connected && active == paths).then_some(())
        });
        wait_for("the other end", PATIENCE, || {
            let peer = self.hq.try_status()?.peers.into_iter().find(|peer| peer.name == "van")?;
            (peer.state == PeerState::Connected).then_some(())
        });
    }

    /// Has psmc and the daemon of the van see a file in another's place.
    pub(super) fn see_file(&mut self, place: &str, text: &str) {
        let file = self.directory.path().join("seen");
        fs::write(&file, text).unwrap();
        self.see(&format!("mount --bind {} {place}", file.display()));
    }

    /// Has psmc run where this command has been, in mounts of its own.
    pub(super) fn see(&mut self, command: &str) {
        self.wrapper = ["unshare", "-m", "sh", "-ec", &format!("{command}\nexec \"$@\""), "sh"]
            .map(str::to_owned)
            .into();
    }

    /// A name server that both sites reach.
    pub(super) fn name_server(&mut self, addresses: &[&str]) {
        self.at(At::Hq, "ip addr add 198.51.100.53 dev lo");
        for (n, router) in (1..).zip(&self.routers) {
            sh(router, &format!("ip route add 198.51.100.53 via 10.2.{n}.2"));
        }
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.kept.push(Box::new(NameServer::start(&self.hq, "198.51.100.53", &addresses)));
        self.see_file("/etc/resolv.conf", "nameserver 198.51.100.53\n");
    }

    /// What `psmc doctor` prints, and its exit status.
    pub(super) fn doctor(&self, at: At) -> Report {
        self.doctor_with(at, &[], |_| ())
    }

    /// The same with more arguments, and each line of its progress as it is told.
    pub(super) fn doctor_with(&self, at: At, arguments: &[&str], mut progress: impl FnMut(&str)) -> Report {
        let site = self.site(at);
        let mut words = self.wrapper.iter();
        let mut command = match words.next() {
            Some(first) => Command::new(first),
            None => Command::new(program("psmc")),
        };
        if !self.wrapper.is_empty() {
            command.args(words).arg(program("psmc"));
        }
        command.args(["doctor", "--json"]).args(arguments).arg(site.file("toml"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = site.namespace.spawn(&mut command).unwrap();
        let mut told = Vec::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
            progress(&line);
            told.push(line);
        }
        let output = child.wait_with_output().unwrap();
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {told:?}, {output:?}"));
        Report { status: output.status.code(), json }
    }
}

/// What `psmc doctor` has found.
pub(super) struct Report {
    pub(super) status: Option<i32>,
    pub(super) json: Value,
}

impl Report {
    /// The names of what is of this severity, without repetitions.
    pub(super) fn names(&self, severity: &str) -> Vec<&str> {
        let findings = self.json["findings"].as_array().unwrap().iter();
        let mut names: Vec<_> =
            findings.filter(|it| it["severity"] == severity).map(|it| it["name"].as_str().unwrap()).collect();
        names.dedup();
        names
    }
}

/// Runs commands on a host.
pub(super) fn sh(host: &Namespace, commands: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]);
    let output = host.run(|| shell.output()).unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
}
