//! Loss, told apart by direction, is what nft has dropped.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use psmc_stamp::{Oddity, OneWay, Outcome, PORT, Reflector, Refusal, Sender, Settings, Target};
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::poll::wait_for;
use stamp_suite::configuration::Configuration;
use stamp_suite::receiver::{create_shared_state, run_receiver};
use stamp_suite::sender::run_sender;
use stamp_suite::shutdown::CancellationToken;

use crate::key_file;

/// Probes that are sent. Of each five one is lost on the way there, of the rest each fourth on the way back, but not the last.
const COUNT: u32 = 100;
const LOST: u64 = 20;

const REFLECTOR: &str = "10.9.0.2:862";

/// Waited for at most; nothing takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The host that measures, and the one with the reflector.
struct Hosts {
    here: Namespace,
    there: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let [here, there] = [(); 2].map(|()| Namespace::new().expect("needs root"));
        link_pair(&here, "eth0", &there, "eth0").unwrap();
        here.add_address("eth0", "10.9.0.1/24".parse().unwrap()).unwrap();
        there.add_address("eth0", "10.9.0.2/24".parse().unwrap()).unwrap();
        Self { here, there }
    }

    /// Has the reflector's host drop packets from now on.
    fn drop_some(&self) {
        self.nft("add table inet t");
        self.nft("add chain inet t in { type filter hook input priority 0; }");
        self.nft("add chain inet t out { type filter hook output priority 0; }");
        self.nft("add rule inet t in udp dport 862 numgen inc mod 5 0 counter drop");
        self.nft("add rule inet t out udp sport 862 numgen inc mod 4 0 counter drop");
    }

    /// How many it has dropped: of those that came, and of those that left.
    fn dropped(&self) -> [u64; 2] {
        ["in", "out"].map(|chain| {
            let rules = self.nft(&format!("list chain inet t {chain}"));
            let (_, rest) = rules.split_once("counter packets ").expect("a counter");
            rest.split(' ').next().unwrap().parse().unwrap()
        })
    }

    fn nft(&self, command: &str) -> String {
        let output = self.there.run(|| Command::new("nft").arg(command).output()).expect("nft is there");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn wait_for_reflector(&self) {
        let is_there = || {
            let output =
                self.there.run(|| Command::new("ss").args(["-Hnul", "sport = 862"]).output()).unwrap();
            (!output.stdout.is_empty()).then_some(())
        };
        wait_for("the reflector", PATIENCE, is_there);
    }

    /// Does `work` beside the library's reflector.
    fn beside_their_reflector(&self, arguments: &[&str], work: impl FnOnce()) {
        let conf = Configuration::try_parse_from(["stamp-suite", "-i"].iter().chain(arguments)).unwrap();
        let stop = CancellationToken::new();
        thread::scope(|scope| {
            let stopped = stop.clone();
            let running = scope.spawn(|| {
                self.there.block_on(|| async move {
                    let mut shared = create_shared_state(&conf).unwrap();
                    shared.shutdown = stopped;
                    run_receiver(&conf, &shared).await.map_err(|error| error.to_string())
                })
            });
            self.wait_for_reflector();
            work();
            stop.cancel();
            running.join().unwrap().unwrap().unwrap();
        });
    }

    /// Does `work` beside our reflector; returns how many packets it has answered.
    fn beside_our_reflector(&self, settings: &Settings, work: impl FnOnce()) -> u64 {
        let (report, bound) = mpsc::channel();
        let stop = CancellationToken::new();
        thread::scope(|scope| {
            let stopped = stop.clone();
            let running = scope.spawn(move || {
                self.there.block_on(|| async move {
                    let reflector = Reflector::bind(settings).unwrap();
                    report.send(reflector.counts()).unwrap();
                    tokio::select! { () = reflector.run() => {}, () = stopped.cancelled() => {} }
                })
            });
            let counts = bound.recv().unwrap();
            work();
            stop.cancel();
            running.join().unwrap().unwrap();
            // nft tells whose packet it drops as it leaves.
            assert_eq!(counts.refused(Refusal::NotSent), LOST);
            counts.answered()
        })
    }

    /// Measures by our sender, with losses, and sees that it tells what nft does.
    fn measure(&self, key: Option<psmc_stamp::Key>) {
        self.drop_some();
        let target = Target {
            remote: REFLECTOR.parse().unwrap(),
            key,
            interval: Duration::from_millis(5),
            patience: Duration::from_secs(2),
            count: Some(COUNT),
            interface: None,
            local: None,
        };
        let losses = self.here.block_on(|| async move {
            let mut sender = Sender::open(target).unwrap();
            let (mut answered, mut lost) = (0, 0);
            while let Some(outcome) = sender.next().await {
                match outcome {
                    Outcome::Answered(answer) => {
                        assert!(matches!(answer.one_way, OneWay::Measured { .. }), "{answer:?}");
                        assert_eq!((answer.hops_there, answer.hops_back), (Some(255), Some(255)));
                        assert!(answer.counters.is_some(), "{answer:?}");
                        answered += 1;
                    }
                    Outcome::Lost(_) => lost += 1,
                    Outcome::NotSent(error) => panic!("{error}"),
                }
            }
            let losses = sender.losses();
            assert_eq!((losses.answered, losses.lost()), (answered, lost));
            let odd: Vec<_> =
                sender.oddities().iter().filter(|(oddity, _)| *oddity != Oddity::Reordered).collect();
            assert_eq!(odd, []);
            losses
        });
        let losses = losses.unwrap();
        let [there, back] = self.dropped();
        assert_eq!((losses.forward, losses.backward, losses.unknown()), (Some(there), Some(back), 0));
        assert_eq!((losses.sent, there, back), (COUNT.into(), LOST, LOST));
    }
}

#[test]
fn our_sender_tells_what_the_way_to_their_reflector_loses() {
    let (file, key) = key_file();
    let file = file.path().to_str().unwrap();
    for stateful in [&["--stateful-reflector"] as &[&str], &[]] {
        let hosts = Hosts::new();
        hosts.beside_their_reflector(stateful, || hosts.measure(None));
        let hosts = Hosts::new();
        let sealed = [&["-A", "A", "--hmac-key-file", file], stateful].concat();
        hosts.beside_their_reflector(&sealed, || hosts.measure(Some(key.clone())));
    }
}

#[test]
fn our_sender_tells_what_the_way_to_our_reflector_loses() {
    for key in [None, Some(key_file().1)] {
        let hosts = Hosts::new();
        let settings = Settings { listen: "[::]:862".parse().unwrap(), key: key.clone(), rate: 1000 };
        let answered = hosts.beside_our_reflector(&settings, || hosts.measure(key));
        assert_eq!(answered, u64::from(COUNT) - 2 * LOST);
    }
}

#[test]
fn their_sender_is_answered_by_our_reflector() {
    let (file, key) = key_file();
    let file = file.path().to_str().unwrap();
    let count = COUNT.to_string();
    for key in [None, Some(key)] {
        let hosts = Hosts::new();
        let listen = SocketAddr::from(([10, 9, 0, 2], PORT));
        let settings = Settings { listen, key: key.clone(), rate: 1000 };
        let mut arguments =
            vec!["stamp-suite", "--remote-addr", "10.9.0.2", "-d", "5", "-c", &count, "-L", "2"];
        // With extensions, which it has to get back as it expects them.
        arguments.extend(["--direct-measurement"]);
        if key.is_some() {
            arguments.extend(["-A", "A", "--hmac-key-file", file]);
        }
        let conf = Configuration::try_parse_from(arguments).unwrap();
        let answered = hosts.beside_our_reflector(&settings, || {
            hosts.drop_some();
            let report =
                hosts.here.block_on(|| async { run_sender(&conf).await.map_err(|error| error.to_string()) });
            let report = report.unwrap().unwrap();
            let received = u64::from(COUNT) - 2 * LOST;
            assert_eq!((report.packets_sent, report.packets_received), (COUNT.into(), received));
            assert_eq!(hosts.dropped(), [LOST, LOST]);
        });
        assert_eq!(answered, u64::from(COUNT) - 2 * LOST);
    }
}
