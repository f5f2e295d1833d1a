//! What is dropped here for others who cannot take it: rules that the owner of a destination has asked for, of its own traffic only,
//! and for so long as it asks. Section 18 of the protocol.
//!
//! [`Register`] is what one owner has; it judges questions, and answers them. [`Held`] is what is in force: it says of a packet or
//! datagram whether it passes, and ends by itself, whatever becomes of whoever asked. Counters and limits of a rule go on when it is asked
//! for again.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psmc_wire::shed::{Answer, Ask, MAX_RULES, ONLY_TELL, Outcome, Packets, Rule, Told, Verdict, What};

use crate::limiter::Limiter;

/// Rules that an owner may have at most, unless somebody says otherwise: as many as a router's agent takes of a server.
const RULES: u8 = 16;

/// How long they last at most: somebody who is gone is forgotten within a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// The highest rate, in bytes per second: beyond any line, and what other rules may have as well.
const MAX_RATE: u64 = 1_000_000_000_000;

/// What somebody may have here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Rules at most.
    pub max_rules: u8,
    /// How long they last at most.
    pub longest: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_rules: RULES, longest: LONGEST }
    }
}

/// What has become of questions and rules since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShedCounts {
    /// Questions whose rules were taken, all or some.
    pub taken: u64,
    /// Questions that were no newer than one before.
    pub replayed: u64,
    /// Questions whose rules had no time to last.
    pub expired: u64,
    /// Questions with more rules than their owner may have.
    pub too_many: u64,
    /// Rules about what is another's, or is not seen here.
    pub foreign: u64,
    /// Rules about the same as another one.
    pub contradictory: u64,
    /// Rules that are none.
    pub illegal: u64,
}

/// A rule in force.
#[derive(Debug)]
struct InForce {
    rule: Rule,
    meter: Arc<Meter>,
}

/// What comes for a rule, and what of it passes. Several workers share it without a lock.
#[derive(Debug)]
struct Meter {
    limiter: Limiter,
    /// Nothing at all may pass: no rate of a limiter.
    is_closed: bool,
    offered: AtomicU64,
    dropped: AtomicU64,
}

impl Meter {
    fn new(rate: Option<u64>) -> Self {
        let limiter = Limiter::new(rate.map(|bytes| bytes.saturating_mul(8)));
        let (offered, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limiter, is_closed: rate == Some(0), offered, dropped }
    }

    /// The same with another rate. What a limit has let pass counts for the next.
    fn continued(before: &Arc<Self>, rate: Option<u64>) -> Arc<Self> {
        if before.is_closed == (rate == Some(0)) {
            before.limiter.set_rate(rate.map(|bytes| bytes.saturating_mul(8)));
            return before.clone();
        }
        let meter = Self::new(rate);
        meter.offered.store(before.offered.load(Ordering::Relaxed), Ordering::Relaxed);
        meter.dropped.store(before.dropped.load(Ordering::Relaxed), Ordering::Relaxed);
        Arc::new(meter)
    }

    /// Whether so many bytes pass at a time, in nanoseconds since the origin.
    fn passes(&self, bytes: usize, now: u64) -> bool {
        self.offered.fetch_add(bytes as u64, Ordering::Relaxed);
        let passes = !self.is_closed && self.limiter.ready_at(now) <= now;
        if passes {
            self.limiter.take(bytes, now);
        } else {
            self.dropped.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        passes
    }
}

/// The rules of one owner that are in force, until they end by themselves. Those of one kind are in the order in which they count: the
/// most specific first.
#[derive(Debug, Default)]
pub struct Held {
    /// In nanoseconds since the origin.
    until: u64,
    packets: Vec<(Packets, Arc<Meter>)>,
    datagrams: Vec<(Option<u8>, Arc<Meter>)>,
    /// Labels, with what counts for each.
    labels: Vec<(u32, Option<u8>, Arc<Meter>)>,
}

impl Held {
    /// Whether an inner packet with these headers passes. `now` is in nanoseconds since the origin of the [`Register`].
    #[must_use]
    pub fn passes_packet(
        &self,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        to_port: Option<u16>,
        bytes: usize,
        now: u64,
    ) -> bool {
        if now >= self.until {
            return true;
        }
        let takes = |packets: &Packets| packets.take(source, destination, protocol, to_port);
        let found = self.packets.iter().find(|(packets, _)| takes(packets));
        found.is_none_or(|(_, meter)| meter.passes(bytes, now))
    }

    /// Whether a datagram to the owner passes.
    #[must_use]
    pub fn passes_datagram(&self, precedence: u8, bytes: usize, now: u64) -> bool {
        if now >= self.until {
            return true;
        }
        let found = self.datagrams.iter().find(|(own, _)| own.is_none_or(|own| own == precedence));
        found.is_none_or(|(_, meter)| meter.passes(bytes, now))
    }

    /// Whether a datagram passes that goes to the end whose own datagrams come with this label.
    #[must_use]
    pub fn passes_label(&self, label: u32, precedence: u8, bytes: usize, now: u64) -> bool {
        if now >= self.until {
            return true;
        }
        let takes = |own: &Option<u8>| own.is_none_or(|own| own == precedence);
        let found = self.labels.iter().find(|(of, own, _)| *of == label && takes(own));
        found.is_none_or(|(.., meter)| meter.passes(bytes, now))
    }

    /// The labels that there are rules for.
    pub fn labels(&self) -> impl Iterator<Item = u32> {
        self.labels.iter().map(|(label, ..)| *label)
    }

    /// Whether there are none, not even ones that are over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.datagrams.is_empty() && self.labels.is_empty()
    }

    /// Whether it is over.
    #[must_use]
    pub fn has_ended(&self, now: u64) -> bool {
        now >= self.until
    }

    fn of(rules: &[InForce], until: u64) -> Self {
        let mut held = Self { until, ..Self::default() };
        for InForce { rule, meter } in rules {
            let meter = meter.clone();
            match &rule.what {
                What::Packets(packets) => held.packets.push((*packets, meter)),
                What::Datagrams(precedence) => held.datagrams.push((*precedence, meter)),
                What::Label(hop, precedence) => held.labels.push((hop.label.0, *precedence, meter)),
            }
        }
        held.packets.sort_by_key(|(packets, _)| rank(packets));
        held.datagrams.sort_by_key(|(precedence, _)| precedence.is_none());
        held.labels.sort_by_key(|(_, precedence, _)| precedence.is_none());
        held
    }
}

/// What one owner has. `now` is in nanoseconds since an origin that is the same for all calls, and for [`Held`].
#[derive(Debug, Default)]
pub struct Register {
    serial: u64,
    rules: Vec<InForce>,
    until: u64,
}

impl Register {
    /// Judges a question, and answers it. `is_own` says of what passes here whether it is the asker's own.
    pub fn handle(
        &mut self,
        ask: &Ask,
        bounds: Bounds,
        is_own: impl Fn(&What) -> bool,
        counts: &mut ShedCounts,
        now: u64,
    ) -> Answer {
        let outcome = self.judge(ask, bounds);
        match outcome {
            Outcome::Taken => counts.taken += 1,
            Outcome::Told | Outcome::Other(_) => {}
            Outcome::Replayed => counts.replayed += 1,
            Outcome::Expired => counts.expired += 1,
            Outcome::TooMany => counts.too_many += 1,
        }
        let told = match outcome {
            Outcome::Taken => self.take(ask, bounds, is_own, counts, now),
            Outcome::Told | Outcome::Replayed | Outcome::Expired | Outcome::TooMany | Outcome::Other(_) => {
                self.forget(now);
                self.rules.iter().map(|held| held.told(Verdict::Taken)).collect()
            }
        };
        Answer {
            request: ask.request,
            outcome,
            serial: self.serial,
            lasts_ms: u32::try_from(self.until.saturating_sub(now) / 1_000_000).unwrap_or(u32::MAX),
            max_rules: bounds.max_rules,
            clock_us: now / 1000,
            rules: told,
        }
    }

    /// What is in force.
    #[must_use]
    pub fn held(&self) -> Held {
        Held::of(&self.rules, self.until)
    }

    /// Rules in force, with what has come for each in bytes and what of it was dropped.
    pub fn told(&self, now: u64) -> impl Iterator<Item = Told> {
        let rules = if now < self.until { &self.rules[..] } else { &[] };
        rules.iter().map(|held| held.told(Verdict::Taken))
    }

    /// For how long they last.
    #[must_use]
    pub fn lasts(&self, now: u64) -> Duration {
        Duration::from_nanos(self.until.saturating_sub(now))
    }

    /// Forgets what has ended, but no serial number.
    pub fn forget(&mut self, now: u64) {
        if now >= self.until {
            self.rules.clear();
        }
    }

    fn judge(&self, ask: &Ask, bounds: Bounds) -> Outcome {
        if ask.serial == ONLY_TELL {
            Outcome::Told
        } else if ask.serial <= self.serial {
            Outcome::Replayed
        } else if ask.lifetime_ms == 0 {
            Outcome::Expired
        } else if ask.rules.len() > usize::from(bounds.max_rules).min(MAX_RULES) {
            Outcome::TooMany
        } else {
            Outcome::Taken
        }
    }

    fn take(
        &mut self,
        ask: &Ask,
        bounds: Bounds,
        is_own: impl Fn(&What) -> bool,
        counts: &mut ShedCounts,
        now: u64,
    ) -> Vec<Told> {
        self.serial = ask.serial;
        let lifetime = Duration::from_millis(ask.lifetime_ms.into()).min(bounds.longest);
        self.until = now.saturating_add(u64::try_from(lifetime.as_nanos()).unwrap_or(u64::MAX));
        let before = std::mem::take(&mut self.rules);
        let verdict = |rule: &Rule| {
            let is_twice = ask.rules.iter().filter(|other| other.what == rule.what).count() > 1;
            if !is_legal(rule) {
                Verdict::Illegal
            } else if !is_own(&rule.what) {
                Verdict::Foreign
            } else if is_twice {
                Verdict::Contradictory
            } else {
                Verdict::Taken
            }
        };
        let mut told = Vec::with_capacity(ask.rules.len());
        for rule in &ask.rules {
            let verdict = verdict(rule);
            match verdict {
                Verdict::Taken | Verdict::Other(_) => {}
                Verdict::Foreign => counts.foreign += 1,
                Verdict::Contradictory => counts.contradictory += 1,
                Verdict::Illegal => counts.illegal += 1,
            }
            if verdict != Verdict::Taken {
                told.push(Told { rule: rule.clone(), verdict, offered: 0, dropped: 0 });
                continue;
            }
            let known = before.iter().find(|held| held.rule.what == rule.what);
            let meter = match known {
                Some(held) => Meter::continued(&held.meter, rule.rate),
                None => Arc::new(Meter::new(rule.rate)),
            };
            let in_force = InForce { rule: rule.clone(), meter };
            told.push(in_force.told(verdict));
            self.rules.push(in_force);
        }
        told
    }
}

impl InForce {
    fn told(&self, verdict: Verdict) -> Told {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (offered, dropped) = (read(&self.meter.offered), read(&self.meter.dropped));
        Told { rule: self.rule.clone(), verdict, offered, dropped }
    }
}

/// The more specific comes first: the longer prefix of destinations, then of sources, then what has a protocol, then fewer ports, as in
/// Flowspec (RFC 8955 §5.1).
fn rank(packets: &Packets) -> impl Ord + use<> {
    let width = packets.ports.map_or(u16::MAX, |(first, last)| last - first);
    let source = packets.source.map(|source| source.prefix_len());
    (Reverse(packets.destination.prefix_len()), Reverse(source), packets.protocol.is_none(), width, *packets)
}

fn is_legal(rule: &Rule) -> bool {
    let is_legal = match &rule.what {
        What::Packets(packets) => {
            // TCP, UDP, DCCP, SCTP and UDP-Lite begin with their ports.
            let has_ports = matches!(packets.protocol, Some(6 | 17 | 33 | 132 | 136));
            let is_v4 = packets.destination.addr().is_ipv4();
            packets.source.is_none_or(|source| source.addr().is_ipv4() == is_v4)
                && packets.ports.is_none_or(|(first, last)| has_ports && 0 < first && first <= last)
        }
        What::Datagrams(_) | What::Label(..) => true,
    };
    is_legal && rule.rate.is_none_or(|rate| rate <= MAX_RATE)
}
