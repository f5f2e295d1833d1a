//! Floods: what strangers send takes CPU time, and nothing else.

use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use psmc_relay::status::{Refused, Status};

use crate::forwarding::{Session, session};
use crate::harness::{End, Relay};

/// How long each phase takes.
const TIME: Duration = Duration::from_secs(1);

/// Datagrams per second of a flood that is not as fast as it can be.
const RATE: f64 = 500_000.0;

/// So many come with one system call where they come in runs: what a sender's network card cuts.
const RUN: usize = 32;

/// Datagrams of the session on their way at most: what the usual socket buffer holds, and then some.
const WINDOW: u32 = 64;

/// What has not arrived after this time is lost.
const LOST_AFTER: Duration = Duration::from_millis(50);

/// The phases follow on one another, and a machine that others use is not as fast in each: so often they are compared.
const ATTEMPTS: usize = 3;

/// The CPU time of a process is told in hundredths of a second (`USER_HZ`).
const TICK: f64 = 0.01;

/// How much of what should be left of the goodput may be missing, for measuring is not exact.
const TOLERANCE: f64 = 0.2;

/// Memory that a relay may take for its own reasons, in KiB: pages of buffers that it has not needed before.
const SLACK_KIB: u64 = 512;

#[tokio::test]
async fn a_flood_takes_its_share_of_the_cpu_and_no_more() {
    takes_its_share(1).await;
}

#[tokio::test]
async fn a_flood_in_runs_takes_its_share_of_the_cpu_and_no_more() {
    takes_its_share(RUN).await;
}

/// Beside a session, datagrams come in runs of so many.
async fn takes_its_share(run: usize) {
    let Session { relay, site: _site, mut near, far } = session("", "").await;
    let flood = Flood::new(&mut near, run);
    far.socket.set_read_timeout(Some(LOST_AFTER)).unwrap();

    let mut memory = None;
    let mut missed = Vec::new();
    while missed.len() < ATTEMPTS {
        let quiet = phase(&relay, || carry(&mut near, &far));
        let alone = phase(&relay, || flood.run(f64::INFINITY));
        memory.get_or_insert_with(|| relay.memory_kib());
        // So that the relay keeps up, as it does with a flood of that rate on a core of its own.
        let rate = RATE.min(0.25 / alone.cpu_per_refused());
        let both = phase(&relay, || {
            std::thread::scope(|scope| {
                scope.spawn(|| flood.run(rate));
                carry(&mut near, &far);
            });
        });

        let share = both.refused * alone.cpu_per_refused() / both.cpu;
        let (before, during) = (quiet.sent / quiet.cpu, both.sent / both.cpu);
        println!(
            "datagrams per second of CPU time: {before:.0}, {during:.0} in a flood of {refused:.0}/s, in runs of {run}, \
             that takes {share:.2}",
            refused = both.refused / TIME.as_secs_f64(),
        );
        assert!(share > 0.02, "the flood was none: {share}");
        if during >= before * (1.0 - share) * (1.0 - TOLERANCE) {
            break;
        }
        missed.push((quiet, alone, both));
    }
    assert!(missed.len() < ATTEMPTS, "{missed:?}");
    let grown = relay.memory_kib().saturating_sub(memory.unwrap_or_default());
    assert!(grown <= SLACK_KIB, "{grown} KiB more");
    let Status { sessions, refused, .. } = relay.status();
    assert_eq!(sessions.len(), 1);
    let Refused { malformed, unknown_label, replayed, forged, .. } = refused;
    assert!([malformed, unknown_label, replayed, forged].iter().all(|count| *count > 1000), "{refused:?}");
    assert_eq!(count_refused(&refused), malformed + unknown_label + replayed + forged);
    flood.kinds.iter().for_each(|(end, _)| end.hears_nothing());
}

/// What a relay has done in a while.
#[derive(Debug)]
struct Phase {
    sent: f64,
    refused: f64,
    /// In seconds.
    cpu: f64,
}

impl Phase {
    fn cpu_per_refused(&self) -> f64 {
        self.cpu / self.refused
    }
}

/// Has something done, and says what the relay has done until all of it was handled.
#[expect(clippy::cast_precision_loss, reason = "counts of a second")]
fn phase(relay: &Relay, work: impl FnOnce()) -> Phase {
    let (before, ticks) = (relay.settled(), relay.cpu_ticks());
    work();
    let after = relay.settled();
    Phase {
        sent: (after.datagrams.sent - before.datagrams.sent) as f64,
        refused: (count_refused(&after.refused) - count_refused(&before.refused)) as f64,
        cpu: (relay.cpu_ticks() - ticks) as f64 * TICK,
    }
}

fn count_refused(refused: &Refused) -> u64 {
    let Refused {
        malformed,
        unknown_label,
        replayed,
        forged,
        misaddressed,
        too_many_hops,
        no_address,
        too_long,
        queue_full,
        dropped,
    } = refused;
    let all = [
        malformed,
        unknown_label,
        replayed,
        forged,
        misaddressed,
        too_many_hops,
        no_address,
        too_long,
        queue_full,
    ];
    all.into_iter().chain(dropped).sum()
}

/// Sends as fast as datagrams arrive.
fn carry(near: &mut End, far: &End) {
    let (started, mut in_flight) = (Instant::now(), 0);
    let mut buffer = [0; 2048];
    while started.elapsed() < TIME {
        while in_flight < WINDOW {
            near.send(1200, 1);
            in_flight += 1;
        }
        in_flight = if far.socket.recv(&mut buffer).is_ok() { in_flight - 1 } else { 0 };
    }
    // What is still on its way is of no interest to the next phase.
    while far.socket.recv(&mut buffer).is_ok() {}
}

/// Somebody who has seen a datagram, and knows a label.
struct Flood {
    /// Datagrams in a run.
    run: usize,
    /// Replayed, with a wrong tag, truncated, for a label that nobody has. Each has a socket, for what is cut from one run has
    /// one length.
    kinds: [(End, Vec<u8>); 4],
}

impl Flood {
    fn new(near: &mut End, run: usize) -> Self {
        let seen = near.datagram(100, 1);
        near.send_raw(&seen);
        let mut forged = near.datagram(100, 2);
        // The first byte of its number: one that has not come yet, however many come meanwhile.
        forged[8] ^= 0x40;
        let (truncated, unknown) = (seen[..30].to_vec(), forged.clone());
        let relay = near.relay();
        let kinds = [seen, forged, truncated, unknown].map(|datagram| {
            let end = End::new(relay);
            end.socket.connect(relay).unwrap();
            let segment = if run == 1 { 0 } else { i32::try_from(datagram.len()).unwrap() };
            setsockopt(&end.socket, sockopt::UdpGsoSegment, &segment).unwrap();
            (end, datagram)
        });
        Self { run, kinds }
    }

    /// Sends so many per second, if it can.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
    fn run(&self, rate: f64) {
        let mut runs = self.kinds.each_ref().map(|(_, datagram)| datagram.repeat(self.run));
        let length = self.kinds[3].1.len();
        let (started, mut sent, mut label) = (Instant::now(), 0.0, 0_u32);
        while started.elapsed() < TIME {
            if sent >= rate * started.elapsed().as_secs_f64() {
                std::thread::yield_now();
                continue;
            }
            for ((end, _), run) in self.kinds.iter().zip(&runs) {
                // A full buffer is what a flood makes.
                drop(end.socket.send(run));
            }
            sent += self.run as f64 * self.kinds.len() as f64;
            // Never the right one: that ends with other bits.
            for datagram in runs[3].chunks_exact_mut(length) {
                label += 4;
                datagram[4..8].copy_from_slice(&label.wrapping_mul(0x9e37_79b9).to_be_bytes());
            }
        }
    }
}
