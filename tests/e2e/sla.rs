//! What was promised to a site: who breaks it, as the daemon tells from the packets of the tunnel.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_testbed::programs::write_script;
use psmc_testbed::steadily::{Measured, steadily};
use serde_json::Value;

use crate::harness::{Family, Relayed, Site, Tunnel, wait_for};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What of a hundred datagrams a bad segment loses.
const PERCENT: u8 = 5;

/// From one packet to the next: 100 in a second.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Who is on the way, one after the other.
const WITNESSES: [&str; 4] = ["van", "r0", "r1", "hq"];

/// What `psmc sla --json` says of the only target.
pub(crate) fn target(site: &Site) -> Value {
    let output = site.psmc(&["sla", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let mut targets: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    targets.remove(0)
}

/// Waits until the only target stands so.
pub(crate) fn wait_for_state(site: &Site, state: &str) -> Value {
    wait_for(state, PATIENCE, || Some(target(site)).filter(|target| target["state"] == state))
}

/// The segments that are said to be at fault, by their numbers on the way there.
pub(crate) fn at_fault(target: &Value) -> Vec<Option<usize>> {
    let segment = |fault: &Value| {
        WITNESSES.windows(2).position(|ends| fault["from"] == ends[0] && fault["to"] == ends[1])
    };
    target["faults"].as_array().into_iter().flatten().map(segment).collect()
}

/// Waits until all of these segments are said to be at fault. None may ever be that is not among them.
fn wait_until_named(site: &Site, segments: &[usize]) {
    wait_for("all at fault", PATIENCE, || {
        let target = target(site);
        let mut named = at_fault(&target);
        named.sort_unstable();
        let is_right = named.iter().all(|at| at.is_some_and(|at| segments.contains(&at)));
        assert!(is_right, "{segments:?} are bad, and named are {target}");
        (named.len() == segments.len()).then_some(())
    });
}

/// Packets through the tunnel, until this is dropped.
pub(crate) struct Traffic {
    sent: Arc<AtomicU32>,
    sender: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start(from: &Site, to: &Site) -> Self {
        Self::of((from, to), Family::V4, PAUSE, 400)
    }

    /// Packets of so many bytes, with such pauses.
    pub(crate) fn of((from, to): (&Site, &Site), family: Family, pause: Duration, bytes: usize) -> Self {
        let socket = from.namespace.run(|| UdpSocket::bind((from.inner(family), 0))).unwrap();
        let (to, sent) = (to.inner(family), Arc::new(AtomicU32::new(0)));
        let counter = Arc::downgrade(&sent);
        let sender = thread::spawn(move || {
            while let Some(counter) = counter.upgrade() {
                // That nobody listens there is told by ICMP, and no harm.
                let _ = socket.send_to(&vec![0; bytes], (to, 9));
                counter.fetch_add(1, Ordering::Relaxed);
                sleep(pause);
            }
        });
        Self { sent, sender: Some(sender) }
    }

    fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.sent = Arc::default();
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

/// A program that notes what it is told, in a file.
pub(crate) fn hook(site: &Site) -> (PathBuf, PathBuf) {
    let (program, notes) = (site.file("breach.sh"), site.file("notes"));
    let text =
        format!("#!/bin/sh\nprintf '%s %s %s\\n' \"$1\" \"$2\" \"$PSMC_TEXT\" >> '{}'\n", notes.display());
    write_script(&program, &text);
    (program, notes)
}

/// How often the program was told of something.
pub(crate) fn told(notes: &Path, event: &str) -> usize {
    let notes = fs::read_to_string(notes).unwrap_or_default();
    notes.lines().filter(|line| line.starts_with(event)).count()
}

#[test]
fn the_segment_that_loses_is_named_each_time_and_a_breach_is_told_once() {
    steadily(Measured::Loss, || {
        let mut world = Relayed::prepare(2, None);
        let (program, notes) = hook(&world.tunnel.van);
        let _ = fs::remove_file(&notes);
        let sla = format!(
            "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\nloss = \"0.5%\"\nwindow = \"4s\"\non_breach = '{}'\n",
            program.display()
        );
        world.start("", &(Relayed::path(&[0, 1]) + &sla));
        let Tunnel { van, hq, .. } = &world.tunnel;
        for site in [van, hq] {
            site.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
        }
        let traffic = Traffic::start(van, hq);
        for (round, segments) in [&[0_usize] as &[usize], &[1], &[2], &[0, 2]].into_iter().enumerate() {
            wait_for_state(van, "met");
            let (begun, before) = (Instant::now(), traffic.sent());
            for segment in segments {
                world.worsen_segment(*segment, PERCENT);
            }
            let broken = wait_for_state(van, "broken");
            println!(
                "{segments:?}: named after {:?} and {} packets: {broken}",
                begun.elapsed(),
                traffic.sent() - before
            );
            wait_until_named(van, segments);
            assert!(broken["broken"].as_array().unwrap().iter().any(|what| what == "loss to hq"), "{broken}");
            for segment in segments {
                world.mend_segment(*segment);
            }
            wait_for_state(van, "met");
            wait_for("a program that was told", PATIENCE, || {
                (told(&notes, "recovered") > round).then_some(())
            });
            assert_eq!(
                (told(&notes, "breach promise promise: loss to hq"), told(&notes, "recovered promise")),
                (round + 1, round + 1)
            );
            assert_eq!(target(van)["breaches"], round + 1);
        }
        let text = String::from_utf8(van.psmc(&["sla"]).stdout).unwrap();
        println!("{text}");
        assert!(text.starts_with("promise (peer hq): ok") && text.contains("loss ≤ 0.5 %"), "{text}");
    });
}

/// How long the processor time is taken, and how much of a core a watched target may take; programs that are not optimised take more.
const WINDOW: Duration = Duration::from_secs(6);
const MOST: f64 = if cfg!(debug_assertions) { 0.04 } else { 0.01 };

#[test]
fn watching_a_target_costs_little() {
    let mut world = Relayed::prepare(2, None);
    world.start("", &Relayed::path(&[0, 1]));
    let van = &world.tunnel.van;
    van.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
    let _traffic = Traffic::start(van, &world.tunnel.hq);
    let share = || {
        let (begun, (user, system)) = (Instant::now(), van.processor_time());
        sleep(WINDOW);
        let (user_then, system_then) = van.processor_time();
        (user_then + system_then - user - system).as_secs_f64() / begun.elapsed().as_secs_f64()
    };
    let without = share();
    let text = fs::read_to_string(van.file("toml")).unwrap();
    van.reload(
        &text,
        "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\nloss = \"0.5%\"\ndelay_p95 = \"1s\"\n",
    );
    wait_for_state(van, "met");
    let with = share();
    println!("{:.2} % of a core without a target, {:.2} % with one", without * 100.0, with * 100.0);
    assert!(with - without < MOST, "{:.2} % more", (with - without) * 100.0);
}

/// What each segment takes, and how much longer a bad one.
const DELAY: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(20);

#[test]
fn the_segment_that_takes_longer_is_named_each_time() {
    steadily(Measured::Time, || {
        let mut world = Relayed::prepare_delayed(2, DELAY);
        // The round trip is of 12 ms, and of 32 if one segment takes longer.
        let sla =
            "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\ndelay_p95 = \"24ms\"\nwindow = \"4s\"\n";
        world.start("", &(Relayed::path(&[0, 1]) + sla));
        let Tunnel { van, hq, .. } = &world.tunnel;
        for site in [van, hq] {
            site.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
        }
        let traffic = Traffic::start(van, hq);
        for segments in [&[0_usize] as &[usize], &[1], &[2], &[0, 2]] {
            wait_for_state(van, "met");
            let (begun, before) = (Instant::now(), traffic.sent());
            for segment in segments {
                world.delay_segment(*segment, DELAY + LATER);
            }
            let broken = wait_for_state(van, "broken");
            println!(
                "{segments:?}: broken after {:?} and {} packets: {broken}",
                begun.elapsed(),
                traffic.sent() - before
            );
            wait_until_named(van, segments);
            println!("{segments:?}: all named after {:?}", begun.elapsed());
            for segment in segments {
                world.delay_segment(*segment, DELAY);
            }
        }
    });
}
