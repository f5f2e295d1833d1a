//! Rules of Flowspec by GoBGP and ExaBGP, as GoBGP, ExaBGP and BIRD decode them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use psmc_testbed::poll::wait_for;
use psmc_testbed::steadily::{Measured, steadily, turn};

use crate::world::{Flood, Host, LIMITED, PATIENCE, SERVER};

/// The rate that is accepted, as files have it, and in bytes per second.
const RATE: (&str, &str) = ("1mbit", "125000");

/// The number of the next pipe: all tests of this process share a directory.
static PIPE: AtomicU32 = AtomicU32::new(0);

/// The first of the directories in which ExaBGP looks for pipes.
const PIPES: &str = "/run/exabgp";

/// How soon a rule is in GoBGP's table, and gone from there.
const SOON: Duration = Duration::from_secs(1);

/// GoBGP, ExaBGP and BIRD on one host, of which the first has the others for peers, and the server's agent.
struct Daemons {
    host: Host,
    running: Vec<Child>,
    pipe: PathBuf,
}

impl Daemons {
    fn start() -> Self {
        let host = Host::new("hq", &Arc::new(tempfile::tempdir().unwrap()));
        host.namespace.add_address("lo", format!("{SERVER}/32").parse().unwrap()).unwrap();
        // ExaBGP looks for its pipes in a few directories, by a name that can be chosen.
        let name = format!("psmc{}-{}", std::process::id(), PIPE.fetch_add(1, Ordering::Relaxed));
        let mut daemons = Self { host, running: Vec::new(), pipe: format!("{PIPES}/{name}.in").into() };
        fs::create_dir_all(PIPES).unwrap();
        let mkfifo =
            Command::new("mkfifo").arg(&daemons.pipe).arg(daemons.pipe.with_extension("out")).status();
        assert!(mkfifo.unwrap().success());
        let [gobgp, exabgp, bird] =
            ["gobgp.toml", "exabgp.conf", "bird.conf"].map(|name| daemons.host.file(name));
        fs::write(&gobgp, GOBGP).unwrap();
        let seen = daemons.seen();
        fs::write(&exabgp, EXABGP.replace("SEEN", seen.to_str().unwrap())).unwrap();
        fs::write(&bird, BIRD).unwrap();
        daemons.run(Command::new("gobgpd").arg("-f").arg(&gobgp).args(["--api-hosts", "127.0.0.1:50051"]));
        let mut command = Command::new("exabgp");
        command.env("exabgp.api.pipename", &name).env("exabgp.daemon.user", "root").arg(&exabgp);
        daemons.run(&mut command);
        let control = daemons.host.file("bird.ctl");
        daemons.run(Command::new("bird").arg("-f").arg("-c").arg(&bird).arg("-s").arg(&control));
        wait_for("both sessions of BGP", Duration::from_secs(60), || {
            let peers = String::from_utf8(daemons.gobgp(&["neighbor"]).stdout).unwrap();
            (peers.matches("Establ").count() == 2).then_some(())
        });
        daemons
    }

    fn run(&mut self, command: &mut Command) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(self.host.namespace.spawn(command).expect("the daemon is installed"));
    }

    /// Starts the agent, which tells one daemon.
    fn start_agent(&mut self, upstream: &str) {
        self.host.start(&format!(
            "[[accept]]\nname = \"web\"\ndestination = \"{SERVER}\"\nsource = \"203.0.113.0/24\"\nprotocol = \"udp\"\nports = {LIMITED}\nrate = \"{}\"\n\
             [[upstream]]\nname = \"bgp\"\n{upstream}\nttl = 3\n",
            RATE.0
        ));
    }

    fn gobgp(&self, arguments: &[&str]) -> Output {
        self.host.namespace.run(|| Command::new("gobgp").args(arguments).output()).unwrap()
    }

    /// The rules that GoBGP has, as it writes them.
    fn table(&self) -> String {
        let output = self.gobgp(&["global", "rib", "-a", "ipv4-flowspec"]);
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.contains("destination"))
            .collect()
    }

    /// What ExaBGP has received.
    fn seen(&self) -> PathBuf {
        self.host.file("seen")
    }

    fn bird(&self) -> String {
        let mut birdc = Command::new("birdc");
        birdc.arg("-s").arg(self.host.file("bird.ctl")).args(["show", "route", "table", "f4", "all"]);
        String::from_utf8(birdc.output().unwrap().stdout).unwrap()
    }

    fn rules(&self) -> usize {
        self.host.status().server.map_or(0, |server| server.upstreams[0].rules)
    }

    fn flood(&self) -> Flood {
        Flood::start(&self.host.namespace, LIMITED, 1_000_000)
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in &mut self.running {
            // It may have ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for pipe in [self.pipe.clone(), self.pipe.with_extension("out")] {
            let _ = fs::remove_file(pipe);
        }
    }
}

const GOBGP: &str = r#"
[global.config]
  as = 65001
  router-id = "10.0.0.1"
  port = 1790
[[neighbors]]
  [neighbors.config]
    neighbor-address = "127.0.0.2"
    peer-as = 65002
  [neighbors.transport.config]
    local-address = "127.0.0.1"
    passive-mode = true
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-flowspec"
[[neighbors]]
  [neighbors.config]
    neighbor-address = "127.0.0.3"
    peer-as = 65003
  [neighbors.transport.config]
    local-address = "127.0.0.1"
    passive-mode = true
  [neighbors.ebgp-multihop.config]
    enabled = true
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-flowspec"
"#;

const EXABGP: &str = r#"
process watcher {
  run /bin/sh -c "cat > SEEN";
  encoder text;
}
neighbor 127.0.0.1 {
  router-id 10.0.0.2;
  local-address 127.0.0.2;
  local-as 65002;
  peer-as 65001;
  connect 1790;
  family { ipv4 flow; }
  api { processes [ watcher ]; receive { parsed; update; } }
}
"#;

const BIRD: &str = "
router id 10.0.0.3;
flow4 table f4;
protocol device {}
protocol bgp g {
  local 127.0.0.3 as 65003;
  neighbor 127.0.0.1 port 1790 as 65001;
  multihop;
  connect delay time 1;
  flow4 { table f4; import all; export none; };
}
";

#[test]
fn gobgp_announces_what_three_daemons_decode_alike() {
    steadily(Measured::Time, || {
        let _turn = turn();
        let mut daemons = Daemons::start();
        daemons.start_agent("kind = \"gobgp\"");
        assert_eq!(daemons.table(), "");
        let flood = daemons.flood();
        wait_for("a rule to be wanted", PATIENCE, || (daemons.rules() == 1).then_some(()));
        let wanted = Instant::now();
        let rule = wait_for("the rule in GoBGP's table", PATIENCE, || {
            Some(daemons.table()).filter(|rule| !rule.is_empty())
        });
        println!("in GoBGP's table {:?} after it was wanted", wanted.elapsed());
        assert!(wanted.elapsed() <= SOON, "{:?}", wanted.elapsed());
        for said in [
            "[destination: 203.0.113.10/32]",
            "[source: 203.0.113.0/24]",
            "[protocol: ==udp]",
            "[destination-port: ==9]",
            "[rate: 125000.000000]",
        ] {
            assert!(rule.contains(said), "{said}: {rule}");
        }
        let bird = wait_for("the rule in BIRD's", PATIENCE, || {
            Some(daemons.bird()).filter(|text| text.contains("flow4 {"))
        });
        // The rate is a number of IEEE 754 in an extended community (RFC 8955 §7.1).
        let community = format!("(generic, 0x80060000, 0x{:x})", RATE.1.parse::<f32>().unwrap().to_bits());
        for said in ["dst 203.0.113.10/32; src 203.0.113.0/24; proto 17; dport 9;", &community] {
            assert!(bird.contains(said), "{said}: {bird}");
        }
        let exabgp = wait_for("the rule at ExaBGP", PATIENCE, || {
            fs::read_to_string(daemons.seen()).ok().filter(|text| text.contains("announced flow"))
        });
        for said in [
            "destination-ipv4 203.0.113.10/32",
            "source-ipv4 203.0.113.0/24",
            "protocol =udp",
            "destination-port =9",
            "rate-limit:125000",
        ] {
            assert!(exabgp.contains(said), "{said}: {exabgp}");
        }
        let found = daemons.host.status().server.unwrap().upstreams[0].found.clone();
        assert!(found.is_some_and(|found| found.contains("gobgp version")), "it is said which");
        drop(flood);
        wait_for("the rule to be over", PATIENCE, || (daemons.rules() == 0).then_some(()));
        let over = Instant::now();
        wait_for("the rule to be gone", PATIENCE, || daemons.table().is_empty().then_some(()));
        println!("gone from GoBGP's table {:?} after its end", over.elapsed());
        assert!(over.elapsed() <= SOON, "{:?}", over.elapsed());
    });
}

#[test]
fn a_killed_agent_leaves_no_rule_and_neither_does_one_that_ends() {
    let mut daemons = Daemons::start();
    let flood = daemons.flood();
    for signal in ["-KILL", "-TERM"] {
        daemons.start_agent("kind = \"gobgp\"");
        wait_for("the rule", PATIENCE, || (!daemons.table().is_empty()).then_some(()));
        daemons.host.end(signal);
        wait_for("the rule to be gone", PATIENCE, || daemons.table().is_empty().then_some(()));
    }
    drop(flood);
}

#[test]
fn exabgp_announces_it_as_well() {
    let mut daemons = Daemons::start();
    let pipe = daemons.pipe.clone();
    daemons.start_agent(&format!("kind = \"exabgp\"\npipe = '{}'", pipe.display()));
    let flood = daemons.flood();
    let rule = wait_for("the rule in GoBGP's table", PATIENCE, || {
        Some(daemons.table()).filter(|rule| !rule.is_empty())
    });
    for said in [
        "[destination: 203.0.113.10/32]",
        "[source: 203.0.113.0/24]",
        "[protocol: ==udp]",
        "[destination-port: ==9]",
        "[rate: 125000.000000]",
    ] {
        assert!(rule.contains(said), "{said}: {rule}");
    }
    let bird = wait_for("the rule in BIRD's", PATIENCE, || {
        Some(daemons.bird()).filter(|text| text.contains("flow4 {"))
    });
    assert!(bird.contains("dst 203.0.113.10/32; src 203.0.113.0/24; proto 17; dport 9;"), "{bird}");
    drop(flood);
    wait_for("the rule to be gone", PATIENCE, || daemons.table().is_empty().then_some(()));
    daemons.host.end("-TERM");
}

#[test]
fn what_is_not_there_is_said() {
    let mut host = Host::new("alone", &Arc::new(tempfile::tempdir().unwrap()));
    host.start(&format!(
        "[[accept]]\nname = \"web\"\ndestination = \"{SERVER}\"\nrate = \"1mbit\"\n\
         [[upstream]]\nname = \"go\"\nkind = \"gobgp\"\n\
         [[upstream]]\nname = \"exa\"\nkind = \"exabgp\"\npipe = '{}'\n",
        host.file("pipe").display()
    ));
    let errors = wait_for("both to be missed", PATIENCE, || {
        let upstreams = host.status().server?.upstreams;
        upstreams.into_iter().map(|upstream| upstream.error).collect::<Option<Vec<_>>>()
    });
    assert!(errors[0].starts_with("`gobgp` says: ") && errors[1].contains("is ExaBGP running"), "{errors:?}");
}
