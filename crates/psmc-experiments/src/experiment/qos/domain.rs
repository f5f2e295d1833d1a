//! The domain in virtual time: who sends what, and what becomes of each packet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use psmc_sim::link::{Link, LinkCounters, PacketInfo};
use psmc_tomography::counted::Tally;
use psmc_tomography::seed::{Poller, Stage, Thresholds};

use super::topology::{BOTTLENECK, BOTTLENECK_RATE, FORK, Router, Way, link};
use crate::dice::Dice;

/// What is sent beside ordinary traffic. Intensities are up from [`ATTACK`]'s begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    None,
    /// By two ingress routers.
    First,
    /// By three.
    Second,
}

/// When it is on, in seconds.
pub(super) const ATTACK: (u64, u64) = (15, 45);

/// How long a run takes, in seconds.
pub(super) const END: u64 = 60;

/// Drop precedences: green, yellow and red.
pub(super) const COLOURS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    /// Of delay.
    Probe,
    /// One of three that were sent at once.
    Stripe {
        number: usize,
        place: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// From 0 on, in the order in which they were sent.
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) way: Way,
    /// Its drop precedence.
    pub(super) colour: u8,
    /// All times are since the begin.
    pub(super) sent: Duration,
    /// When it was handed on where the ways from E1 to E6 and E7 part, if it was.
    pub(super) at_fork: Option<Duration>,
    /// Routers that it has left.
    hop: usize,
}

/// What became of a packet, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) packet: Packet,
    pub(super) at: Duration,
    pub(super) arrived: bool,
}

/// All that happened in a run.
pub(super) struct Course {
    /// In the order of time.
    pub(super) fates: Vec<Fate>,
    /// What C4 and E6 have counted of all that goes to E6, once everything has arrived or is lost.
    pub(super) tallies: [Tally; 2],
    /// What the simulator itself has counted at the bottleneck between them.
    pub(super) bottleneck: LinkCounters,
}

/// Traffic from an edge router to another one, of many hosts: its gaps are exponentially distributed.
struct Source {
    way: Way,
    /// Shares of the bottleneck's rate, ordinarily and under attack.
    shares: [f64; 2],
    next: Duration,
}

struct Domain {
    start: Instant,
    links: BTreeMap<(Router, Router), Link<Packet>>,
    dice: Dice,
    sources: Vec<Source>,
    monitor: Poller,
    next_stripe: Duration,
    stripes: usize,
    sent: u64,
    fates: Vec<Fate>,
    tallies: [Tally; 2],
}

/// Plays a run.
pub(super) fn play(attack: Attack, seed: u64) -> Course {
    let mut domain = Domain::new(attack, seed);
    while let Some(now) = domain.next() {
        domain.act(now);
        domain.carry(now);
    }
    let bottleneck = domain.links[&BOTTLENECK].counters().clone();
    Course { fates: domain.fates, tallies: domain.tallies, bottleneck }
}

/// The share of a link's packets of ordinary size that fit into a second.
fn packets_per_second(share: f64) -> f64 {
    share * BOTTLENECK_RATE as f64 / (8 * PACKET) as f64
}

impl Domain {
    fn new(attack: Attack, seed: u64) -> Self {
        let (start, mut dice) = (Instant::now(), Dice::new(seed));
        let hops = Way::ALL.into_iter().flat_map(|way| way.routers().windows(2));
        let ends: BTreeSet<_> = hops.map(|ends| (ends[0], ends[1])).collect();
        let links = (0..)
            .zip(ends)
            .map(|(number, (from, to))| ((from, to), Link::new(link(from, to), seed * 1000 + number, start)));
        Self {
            start,
            links: links.collect(),
            sources: sources(attack, &mut dice),
            dice,
            monitor: Poller::new(Thresholds {
                delay: GUARANTEE_MS * 1e3,
                loss: 1.0,
                bandwidth: f64::INFINITY,
            }),
            next_stripe: STRIPE_GAP,
            stripes: 0,
            sent: 0,
            fates: Vec::new(),
            tallies: [Tally::default(); 2],
        }
    }

    /// When something happens next; nothing is sent after [`END`].
    fn next(&self) -> Option<Duration> {
        let links = self.links.values().filter_map(Link::poll_timeout);
        let links = links.map(|at| at.saturating_duration_since(self.start));
        let sent = self.sources.iter().map(|source| source.next).chain([self.next_stripe]);
        links.chain(sent.filter(|&at| at < Duration::from_secs(END))).min()
    }

    /// Sends what is due.
    fn act(&mut self, now: Duration) {
        if now >= Duration::from_secs(END) {
            return;
        }
        for place in 0..self.sources.len() {
            if self.sources[place].next <= now {
                self.send_data(place, now);
            }
        }
        if self.next_stripe <= now {
            self.next_stripe += STRIPE_GAP;
            if self.monitor.stage() >= Stage::Loss {
                self.send_stripe(now);
            }
        }
    }

    fn send_data(&mut self, place: usize, now: Duration) {
        let (way, share) = (self.sources[place].way, self.sources[place].share(now));
        self.sources[place].next = now + self.dice.exponential(gap(share));
        let colour = colour(share, &mut self.dice);
        self.send(Kind::Data, way, colour, now);
        if self.dice.happens(PROBED) {
            self.send(Kind::Probe, way, colour, now);
        }
    }

    /// To E6 and E7, each colour in turn, and the receivers in turn twice.
    fn send_stripe(&mut self, now: Duration) {
        let number = self.stripes;
        self.stripes += 1;
        let colour = [0, 1, 2][number % COLOURS];
        for (place, way) in receivers(number).into_iter().enumerate() {
            self.send(Kind::Stripe { number, place }, way, colour, now);
        }
    }

    fn send(&mut self, kind: Kind, way: Way, colour: u8, now: Duration) {
        let number = self.sent;
        self.sent += 1;
        self.forward(Packet { number, kind, way, colour, sent: now, at_fork: None, hop: 0 }, now);
    }

    /// Lets the router that a packet is at hand it on.
    fn forward(&mut self, mut packet: Packet, now: Duration) {
        let routers = packet.way.routers();
        if packet.hop + 1 == routers.len() {
            return self.end(packet, now, true);
        }
        let (from, to) = (routers[packet.hop], routers[packet.hop + 1]);
        if from == FORK {
            packet.at_fork = Some(now);
            count(&mut self.tallies[0], packet.way);
        }
        packet.hop += 1;
        let len = if packet.kind == Kind::Data { PACKET } else { PROBE };
        let info = PacketInfo { precedence: packet.colour, ..PacketInfo::new(len) };
        if let Some(link) = self.links.get_mut(&(from, to)) {
            link.handle_packet(packet, info, self.start + now);
        }
    }

    /// Lets links do what is due.
    fn carry(&mut self, now: Duration) {
        let at = self.start + now;
        let (mut arrived, mut lost) = (Vec::new(), Vec::new());
        for link in self.links.values_mut() {
            arrived.extend(std::iter::from_fn(|| link.poll_packet(at)).map(|arrival| arrival.packet));
            lost.extend(std::iter::from_fn(|| link.poll_dropped()).map(|(packet, _)| packet));
        }
        arrived.into_iter().for_each(|packet| self.forward(packet, now));
        lost.into_iter().for_each(|packet| self.end(packet, now, false));
    }

    fn end(&mut self, packet: Packet, at: Duration, arrived: bool) {
        if packet.kind == Kind::Probe && packet.way == Way::E1ToE6 && arrived {
            self.monitor.delay((at - packet.sent).as_secs_f64() * 1e6);
        }
        if arrived {
            count(&mut self.tallies[1], packet.way);
        }
        self.fates.push(Fate { packet, at, arrived });
    }
}

/// A witness sees a packet.
fn count(tally: &mut Tally, way: Way) {
    if way.is_to_victim() {
        tally.received += 1;
        tally.handed_on += 1;
    }
}

impl Source {
    fn share(&self, now: Duration) -> f64 {
        let (begin, end) = ATTACK;
        self.shares[usize::from((begin..end).contains(&now.as_secs()))]
    }
}

fn sources(attack: Attack, dice: &mut Dice) -> Vec<Source> {
    let more: [f64; 4] = match attack {
        Attack::None => [0.0; 4],
        Attack::First => [0.0, 0.3, 0.3, 0.0],
        Attack::Second => [0.0, 0.33, 0.33, 0.33],
    };
    let ordinary = [ORDINARY, ORDINARY, ORDINARY, 0.0, ASIDE, ASIDE];
    let more = more.into_iter().chain([0.0, 0.0]);
    let sources = Way::ALL.into_iter().zip(ordinary).zip(more);
    let mut source = |((way, share), more)| {
        let mut source = Source { way, shares: [share, share + more], next: Duration::ZERO };
        source.next = if share > 0.0 { dice.exponential(gap(share)) } else { Duration::from_secs(ATTACK.0) };
        source
    };
    sources.filter(|((_, share), more)| share + more > 0.0).map(&mut source).collect()
}

/// The mean gap between packets of such a share of the bottleneck's rate.
fn gap(share: f64) -> Duration {
    if share > 0.0 {
        Duration::from_secs_f64(packets_per_second(share).recip())
    } else {
        Duration::from_secs(END)
    }
}

/// What the seed's marker gives a packet of an aggregate at this share of the bottleneck's rate (TSW3CM, RFC 2859): green up
/// to the first rate, yellow up to the second one, red beyond, each as often as its part.
fn colour(share: f64, dice: &mut Dice) -> u8 {
    let place = dice.uniform() * share;
    u8::from(place >= COMMITTED) + u8::from(place >= PEAK)
}

/// Where the three probes of a stripe go.
pub(super) fn receivers(number: usize) -> [Way; COLOURS] {
    let (one, other) = (Way::E1ToE6, Way::E1ToE7);
    if (number / COLOURS).is_multiple_of(2) { [one, one, other] } else { [other, other, one] }
}

/// Shares of the bottleneck's rate: ordinary traffic of each of E1, E2 and E3 to E6, and of those that do not cross it.
const ORDINARY: f64 = 0.22;
const ASIDE: f64 = 0.25;

/// What each ingress router has agreed on, in the same unit.
const COMMITTED: f64 = 0.15;
const PEAK: f64 = 0.2;

/// The share of packets that a probe follows.
const PROBED: f64 = 0.1;

/// Bytes of a packet of the seed's (§6), and of a probe: a header and a time.
const PACKET: usize = 1024;
const PROBE: usize = 64;

/// 20 stripes a second.
const STRIPE_GAP: Duration = Duration::from_millis(50);

/// The delay from E1 to E6 beyond which the seed's monitor infers loss: in the middle of what it has with and without attack.
pub(super) const GUARANTEE_MS: f64 = 140.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_same_each_time_and_every_drop_is_the_bottlenecks() {
        let [one, other] = [0, 1].map(|_| play(Attack::Second, 3));
        assert_eq!(one.bottleneck, other.bottleneck);
        let lost: Vec<_> = one.fates.iter().filter(|fate| !fate.arrived).collect();
        assert_eq!(lost.len() as u64, one.bottleneck.dropped_packets());
        assert!(lost.iter().all(|fate| fate.packet.way.is_to_victim() && fate.packet.at_fork.is_some()));
        assert!(one.fates.is_sorted_by_key(|fate| fate.at));
    }

    #[test]
    fn colours_are_as_frequent_as_what_was_agreed_on() {
        let mut dice = Dice::new(1);
        let shares = |share: f64, dice: &mut Dice| {
            let mut counts = [0; COLOURS];
            (0..10_000).for_each(|_| counts[usize::from(colour(share, dice))] += 1);
            counts
        };
        assert_eq!(shares(0.15, &mut dice), [10_000, 0, 0]);
        for (count, expected) in shares(0.5, &mut dice).into_iter().zip([3000, 1000, 6000_i32]) {
            assert!((count - expected).abs() < 200, "{count}, expected {expected}");
        }
    }

    /// Each receiver gets two probes of every other stripe of a colour.
    #[test]
    fn receivers_take_turns() {
        let twice = |number: usize| receivers(number)[0];
        assert_eq!([0, 3, 6].map(twice), [Way::E1ToE6, Way::E1ToE7, Way::E1ToE6]);
        assert_eq!([1, 2].map(twice), [Way::E1ToE6; 2]);
    }
}
