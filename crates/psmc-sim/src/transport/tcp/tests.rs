use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use psmc_wire::ip::Ecn;

use super::*;
use crate::packet::set_ecn_of;

/// A network that loses, doubles and reorders what it carries.
#[derive(Clone, Copy, Debug)]
struct Faults {
    /// In percent.
    loss: u32,
    duplicate: u32,
    reorder: u32,
}

const HARMLESS: Faults = Faults { loss: 0, duplicate: 0, reorder: 0 };
const DELAY: Duration = Duration::from_millis(10);

/// Two ends and what is between them.
struct Wire {
    start: Instant,
    now: Instant,
    ends: [Tcp; 2],
    /// When it arrives, in which order it was sent, to which end.
    flying: std::collections::BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    rng: Pcg64Mcg,
    faults: Faults,
    /// Nothing passes.
    cut: bool,
    /// Every so many packets that can be marked one is, if any; and how many were.
    marks: Option<u64>,
    marked: u64,
}

fn settings(keep: bool) -> Settings {
    Settings {
        congestion_control: CongestionControl::Cubic,
        buffer: 1 << 20,
        mtu: 1500,
        ecn: false,
        keep,
        timeout: None,
        keep_alive: None,
    }
}

impl Wire {
    fn new(settings: Settings, seed: u64, faults: Faults) -> Self {
        Self::of([settings; 2], seed, faults)
    }

    /// With different settings of both ends.
    fn of([near, far]: [Settings; 2], seed: u64, faults: Faults) -> Self {
        let now = Instant::now();
        let [a, b] = ["10.0.0.1:5000", "10.0.0.2:80"].map(|text| text.parse::<SocketAddr>().unwrap());
        let birth = |seed| Birth { seed, origin: now };
        let ends = [Tcp::connect(a, b, near, birth(seed), now), Tcp::accept(b, far, birth(seed + 1), now)];
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Self {
            start: now,
            now,
            ends,
            flying: Default::default(),
            sent: 0,
            rng,
            faults,
            cut: false,
            marks: None,
            marked: 0,
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.next_u32() % 100 < percent
    }

    fn send(&mut self) {
        for end in [0, 1] {
            while let Some(mut packet) = self.ends[end].poll_transmit() {
                self.mark(&mut packet);
                let copies = 1 + u32::from(self.chance(self.faults.duplicate));
                for _ in 0..copies {
                    let late = if self.chance(self.faults.reorder) { DELAY } else { Duration::ZERO };
                    if !self.chance(self.faults.loss) && !self.cut {
                        self.sent += 1;
                        self.flying.insert((self.now + DELAY + late, self.sent), (1 - end, packet.clone()));
                    }
                }
            }
        }
    }

    fn mark(&mut self, packet: &mut [u8]) {
        if let Some(every) = self.marks
            && ecn_of(packet) != Ecn::NotEct
        {
            self.marked += 1;
            if self.marked.is_multiple_of(every) {
                set_ecn_of(packet, Ecn::Ce);
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send();
            let now = self.now;
            let timers = self.ends.iter_mut().filter_map(|tcp| tcp.poll_timeout(now));
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, packet) = entry.remove();
                self.ends[to].handle_packet(packet, self.now);
            }
            for tcp in &mut self.ends {
                tcp.handle_timeout(self.now);
            }
        }
    }
}

/// Each end writes so many bytes to the other, and closes.
fn exchange(
    congestion_control: CongestionControl,
    seed: u64,
    faults: Faults,
    lengths: [usize; 2],
) -> Result<(), TestCaseError> {
    let mut wire = Wire::new(Settings { congestion_control, ..settings(true) }, seed >> 1, faults);
    let texts = lengths.map(|length| (0..length).map(|at| at.to_le_bytes()[at % 3]).collect::<Vec<_>>());
    for (end, text) in texts.iter().enumerate() {
        let now = wire.now;
        wire.ends[end].write(text, now);
        wire.ends[end].close(now);
    }
    // Of packets sent one after the other, a quarter of which is lost, a few wait for timers that double each time.
    wire.run_for(Duration::from_secs(3600));
    for end in [0, 1] {
        prop_assert!(wire.ends[end].take_received() == texts[1 - end], "end {}", end);
        prop_assert!(wire.ends[end].is_over(), "end {}", end);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_arrives_whole_and_in_order(
        seed: u64,
        loss in 0..25u32,
        duplicate in 0..20u32,
        reorder in 0..30u32,
        lengths in proptest::array::uniform2(0..200_000usize),
        congestion_control in prop::sample::select(&[CongestionControl::Cubic, CongestionControl::Bbr]),
    ) {
        exchange(congestion_control, seed, Faults { loss, duplicate, reorder }, lengths)?;
    }
}

/// The last acknowledgement arrives after the FIN that was sent behind it, and counts for nothing.
#[test]
fn acknowledgements_that_a_fin_has_overtaken_are_taken_when_they_repeat() {
    let faults = Faults { loss: 3, duplicate: 2, reorder: 17 };
    exchange(CongestionControl::Cubic, 14_187_582_069_552_273_150, faults, [105_934, 172_325]).unwrap();
}

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    let mut wire = Wire::new(settings(false), 1, HARMLESS);
    wire.ends[0].fill(1_000_000, wire.start);
    wire.run_for(Duration::from_secs(2));
    assert_eq!(wire.ends[1].received(), 1_000_000);
    // A segment for 1448 bytes, an acknowledgement for two, and three packets to open.
    let segments = 1_000_000u64.div_ceil(1448);
    assert!((segments..=segments * 8 / 5 + 10).contains(&wire.sent), "{} packets", wire.sent);
}

#[test]
fn a_silence_is_survived_and_ended_by_the_next_attempt() {
    let mut wire = Wire::new(settings(false), 1, HARMLESS);
    wire.ends[0].fill(u64::MAX, wire.start);
    wire.run_for(Duration::from_secs(1));
    wire.cut = true;
    wire.run_for(Duration::from_secs(3));
    let before = wire.ends[1].received();
    wire.cut = false;
    // Attempts are 220 ms apart at first, and then twice as long each time.
    wire.run_for(Duration::from_secs(4));
    assert!(wire.ends[1].received() > before + 1_000_000);
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let alive = Settings {
        timeout: Some(Duration::from_secs(10)),
        keep_alive: Some(Duration::from_secs(5)),
        ..settings(true)
    };
    let mut wire = Wire::new(alive, 1, HARMLESS);
    wire.ends[0].write(b"hello", wire.start);
    wire.run_for(Duration::from_secs(60));
    assert!(wire.ends.iter().all(Tcp::is_open), "silence alone is no reason");
    wire.cut = true;
    wire.run_for(Duration::from_secs(16));
    assert!(wire.ends.iter().all(Tcp::is_over));
}

#[test]
fn a_connection_that_is_aborted_is_over_at_both_ends() {
    let mut wire = Wire::new(settings(false), 1, HARMLESS);
    wire.ends[0].fill(u64::MAX, wire.start);
    wire.run_for(Duration::from_secs(1));
    wire.ends[0].abort(wire.now);
    wire.run_for(Duration::from_secs(1));
    assert!(wire.ends.iter().all(Tcp::is_over));
}

#[test]
fn what_nobody_takes_is_refused() {
    let mut wire = Wire::new(settings(false), 1, HARMLESS);
    let syn = wire.ends[0].poll_transmit().expect("it was opened");
    let reset = refusal(syn, "10.0.0.2:80".parse().unwrap(), wire.now).expect("an answer");
    wire.ends[0].handle_packet(reset, wire.now);
    assert!(wire.ends[0].is_over());
}

/// Marks of one packet in a hundred keep a window as small as losses of as many do, and nothing is sent twice; a peer that
/// does not know of them is sent nothing that could be marked.
#[test]
fn marks_are_agreed_on_and_heeded() {
    let reno = Settings { congestion_control: CongestionControl::Reno, ecn: true, ..settings(false) };
    let mut wire = Wire::new(reno, 1, HARMLESS);
    wire.marks = Some(100);
    wire.ends[0].fill(u64::MAX, wire.start);
    wire.run_for(Duration::from_secs(60));
    // The rate that Mathis et al. (1997) give for Reno, in segments: sqrt(3 / 2p) a round trip, which is 20 ms.
    let model = (1.5f64 / 0.01).sqrt() / 0.02 * 60.0;
    let segments = wire.ends[1].received() as f64 / 1448.0;
    assert!((0.6..1.4).contains(&(segments / model)), "{segments} segments, the model has {model}");
    assert!(wire.marked as f64 <= segments + 100.0, "{} could be marked: some were sent twice", wire.marked);
    for wants in [[true, false], [false, true]] {
        let mut wire =
            Wire::of([Settings { ecn: wants[0], ..reno }, Settings { ecn: wants[1], ..reno }], 1, HARMLESS);
        wire.marks = Some(100);
        wire.ends[0].fill(1_000_000, wire.start);
        wire.run_for(Duration::from_secs(10));
        assert_eq!((wire.ends[1].received(), wire.marked), (1_000_000, 0));
    }
}
