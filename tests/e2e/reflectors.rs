//! A target on the way to a STAMP reflector, and reflectors that do not do their work.

use std::collections::VecDeque;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Family, HQ, Plan, Site, Tunnel, wait_for};
use crate::sla::{target, wait_for_state};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_way_to_a_reflector_is_watched_too() {
    let tunnel = Tunnel::start(Plan::default());
    let (hq, van) = (&tunnel.hq, &tunnel.van);
    let reflector = HQ.outer(1, Family::V4);
    let text = fs::read_to_string(hq.file("toml")).unwrap();
    hq.reload(&text, "[sla]\nreflector = 862\n");
    let text = fs::read_to_string(van.file("toml")).unwrap();
    let sla = format!(
        "[[sla.target]]\nname = \"up\"\nstamp = \"{reflector}\"\ninterval = \"10ms\"\nloss = \"1%\"\nwindow = \"4s\"\n"
    );
    assert!(van.reload(&text, &sla).contains("sla.target"));
    wait_for_state(van, "met");
    let mut nft = Command::new("nft");
    nft.arg("table inet bad { chain in { type filter hook input priority 0; udp dport 862 numgen random mod 100 < 20 drop; }; }");
    assert!(hq.namespace.run(|| nft.output()).unwrap().status.success());
    wait_for_state(van, "broken");
    let found =
        wait_for("a fault", PATIENCE, || Some(target(van)).filter(|target| target["faults"].is_array()));
    let faults = found["faults"].as_array().unwrap();
    assert!(faults.len() == 1 && faults[0]["from"] == "van", "{found}");
    assert_eq!(faults[0]["to"], format!("{reflector}:862"), "{found}");
    // A target that is gone is not watched.
    van.reload(&text, "");
    assert_eq!(String::from_utf8(van.psmc(&["sla", "--json"]).stdout).unwrap().trim(), "[]");
}

/// What becomes of the answers of a reflector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Vice {
    None,
    Doubles,
    /// One of two overtakes the one before.
    Reorders,
    /// Answers when nobody waits any more.
    Late,
    /// Every second probe came an hour before it was sent.
    Lies,
}

/// Later than psmcd waits for an answer.
const LATE: Duration = Duration::from_millis(2500);

/// Where the time at which a probe came is in an answer (RFC 8762, section 4.3.1): seconds.
const RECEIVED_AT: usize = 16;

/// Sits before the reflector of a site, and spoils what it answers.
struct Spoiler {
    address: SocketAddr,
    vice: Arc<Mutex<Vice>>,
    answers: Arc<AtomicU32>,
    ends: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Spoiler {
    fn start(site: &Site, reflector: SocketAddr) -> Self {
        let open = || (UdpSocket::bind((reflector.ip(), 0)), UdpSocket::bind((reflector.ip(), 0)));
        let (front, back) = site.namespace.run(open);
        let (front, back) = (front.unwrap(), back.unwrap());
        let address = front.local_addr().unwrap();
        back.connect(reflector).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        }
        let vice = Arc::new(Mutex::new(Vice::None));
        let (answers, ends) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let worker = {
            let (vice, answers, ends) = (Arc::clone(&vice), Arc::clone(&answers), Arc::clone(&ends));
            thread::spawn(move || spoil(&front, &back, &vice, &answers, &ends))
        };
        Self { address, vice, answers, ends, worker: Some(worker) }
    }

    fn take_to(&self, vice: Vice) {
        *self.vice.lock().unwrap() = vice;
    }

    /// Until so many more probes were answered.
    fn wait_for_answers(&self, count: u32) {
        let before = self.answers.load(Ordering::Relaxed);
        wait_for("answers", PATIENCE, || {
            (self.answers.load(Ordering::Relaxed) > before + count).then_some(())
        });
    }
}

impl Drop for Spoiler {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn spoil(front: &UdpSocket, back: &UdpSocket, vice: &Mutex<Vice>, answers: &AtomicU32, ends: &AtomicBool) {
    let (mut probe, mut answer) = ([0; 1500], [0; 1500]);
    let (mut asks, mut waiting) = (None, VecDeque::new());
    while !ends.load(Ordering::Relaxed) {
        if let Ok((length, from)) = front.recv_from(&mut probe) {
            asks = Some(from);
            back.send(&probe[..length]).unwrap();
        }
        if let Ok(length) = back.recv(&mut answer) {
            let number = answers.fetch_add(1, Ordering::Relaxed);
            let (now, vice) = (Instant::now(), *vice.lock().unwrap());
            if vice == Vice::Lies && number.is_multiple_of(2) {
                let seconds = &mut answer[RECEIVED_AT..RECEIVED_AT + 4];
                let at = u32::from_be_bytes(seconds.try_into().unwrap()) - 3600;
                seconds.copy_from_slice(&at.to_be_bytes());
            }
            let due = match vice {
                Vice::Late => now + LATE,
                Vice::Reorders if number.is_multiple_of(2) => now + Duration::from_millis(15),
                Vice::None | Vice::Doubles | Vice::Reorders | Vice::Lies => now,
            };
            let copies = if vice == Vice::Doubles { 2 } else { 1 };
            waiting.extend((0..copies).map(|_| (due, answer[..length].to_vec())));
        }
        waiting.retain(|(due, answer)| {
            let is_due = *due <= Instant::now();
            if let Some(to) = asks.filter(|_| is_due) {
                let _ = front.send_to(answer, to);
            }
            !is_due
        });
    }
}

fn told(target: &Value) -> String {
    target["untold"].to_string()
}

#[test]
fn a_reflector_that_misbehaves_is_not_believed_and_moves_no_blame() {
    let tunnel = Tunnel::start(Plan::default());
    let (hq, van) = (&tunnel.hq, &tunnel.van);
    let text = fs::read_to_string(hq.file("toml")).unwrap();
    hq.reload(&text, "[sla]\nreflector = 862\n");
    let spoiler = Spoiler::start(hq, SocketAddr::new(HQ.outer(1, Family::V4), 862));
    let text = fs::read_to_string(van.file("toml")).unwrap();
    let sla = format!(
        "[[sla.target]]\nname = \"up\"\nstamp = \"{}\"\ninterval = \"10ms\"\nloss = \"1%\"\nwindow = \"2s\"\n",
        spoiler.address
    );
    van.reload(&text, &sla);
    wait_for_state(van, "met");
    for vice in [Vice::Doubles, Vice::Reorders, Vice::Lies] {
        spoiler.take_to(vice);
        spoiler.wait_for_answers(400);
        let target = target(van);
        println!("{vice:?}: {target}");
        assert_eq!((&target["state"], &target["breaches"]), (&"met".into(), &0.into()), "{vice:?}: {target}");
    }
    spoiler.take_to(Vice::Late);
    let late = wait_for("a breach without a culprit", PATIENCE, || {
        let target = target(van);
        assert!(target["faults"].is_null(), "nobody has lost anything: {target}");
        Some(target).filter(|target| told(target).contains("contradicts itself"))
    });
    println!("late: {late}");
    assert_eq!(late["state"], "broken", "{late}");
    assert!(late["loss_to_pct"].as_f64().is_some_and(|lost| lost > 90.0), "{late}");
    spoiler.take_to(Vice::None);
    assert_eq!(wait_for_state(van, "met")["breaches"], 1);
}
