//! `earliest`: the path on which the packet arrives first.

use std::time::{Duration, Instant};

use super::field::{Bounds, Field};
use super::{Choice, Scheduler, Waiting};
use crate::congestion::{bytes_in, span_of};
use crate::path::{Forecast, nanos, on_wire};
use crate::roster::{Places, Roster};

/// Of the paths that have room, the one with the earliest arrival, unless it is worth waiting for another.
///
/// Paths are paced and windowed, so that a path with room has next to no queue of ours: while there is little
/// to send, everything takes the nearest path, and a backlog fills one path after the other to its rate.
///
/// **The refusal rule.** A path with room is left alone if all that waits would arrive earlier over one that has none
/// for the moment: its queue, or what its losses cost, would only delay the flow (after the ECF scheduler of Lim et al.,
/// CoNEXT 2017). That a path is longer than others does not count, up to a limit: its rate is worth that delay.
///
/// **What one path carries.** The far end restores the order, so that a flow on two paths has the round trip of the longer one, and
/// needs a window for both of them: one that a nearer path alone carries within that round trip would only be slower. It waits for the
/// nearer one, and grows sooner.
///
/// **Delays that vary.** What was measured last follows each datagram, and a path that rests looks like its fastest one. So the
/// nearest path is left only for one on which the packet arrives earlier by more than delays vary by: who follows every estimate
/// spreads a flow for nothing.
///
/// **A packet alone**, which came by itself, takes the path on which it arrives first although that has no room for the
/// moment, if it need not wait there for more than a packet or two: a ping or a question gains nothing from the rate of a
/// longer path.
///
/// **Stripes.** Packets that leave at the same moment follow each other on a path for as long as it takes them no longer
/// than [`STRIPE`] to leave it: the kernel takes them in one piece, and what a packet costs does not grow with the number
/// of paths. A path so slow that a packet takes longer gets packets one by one.
#[derive(Debug, Default)]
pub(super) struct Earliest {
    stripe: Option<Stripe>,
    field: Field,
}

/// What may still follow on the path that was chosen last.
#[derive(Debug)]
struct Stripe {
    path: usize,
    at: Instant,
    bytes: u64,
}

/// So much longer than necessary a packet may take for the sake of those around it, far less than any jitter.
const STRIPE: Duration = Duration::from_micros(250);

/// A packet alone waits so long for a nearer path, or as long as [`PATIENT_BYTES`] take there. However many flows send such
/// packets, there is no longer queue of them where all wait.
const PATIENCE: Duration = Duration::from_millis(2);

/// Two datagrams of the usual size.
const PATIENT_BYTES: u64 = 3000;

/// So much longer a path may be, one way, without being refused for it.
const TOLERATED_DETOUR: Duration = Duration::from_millis(75);

/// Estimates are no more exact than this, even where delays hardly vary.
const TOLERANCE: Duration = Duration::from_millis(4);

/// Jitter makes an estimate less exact, for which a path is not refused. What is beyond this is waited for by all that
/// needs its order, as if the path were that much longer.
const USUAL_JITTER: Duration = Duration::from_millis(10);

/// By so much shorter, one way, must a path be to count as nearer: the shortest times that were seen are no more exact.
const NEARER: Duration = Duration::from_millis(2);

/// From this share of the other path's rate on, a path is worth its whole detour.
const WORTHY_SHARE: f64 = 0.25;

/// How much a detour over a path of `rate` is tolerated beside one of `other` bytes per second, 0 to 1: of a path that
/// carries next to nothing nothing is gained, and the whole flow waits for each of its packets.
fn weight(rate: u64, other: u64) -> f64 {
    (rate as f64 / other.max(1) as f64 / WORTHY_SHARE).min(1.0)
}

/// Whether a path is nearer than the `other`, as far as that can be known, with what losses cost.
fn is_nearer(path: &Forecast, other: &Forecast) -> bool {
    path.unqueued() + nanos(NEARER) < other.unqueued()
}

/// How long a packet alone waits for a path of `rate` bytes per second.
fn patience(rate: u64) -> Duration {
    span_of(PATIENT_BYTES, rate).max(PATIENCE)
}

impl Scheduler for Earliest {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        if let Some(only) = candidates.only() {
            return if paths[only].has_room(packet.bytes(), now) { Choice::Path(only) } else { Choice::Wait };
        }
        if packet.alone {
            self.field.ask(paths, candidates, packet, now);
            if let Some(path) = self.field.first_but_for_room(packet.bytes(), patience, now) {
                return Choice::Path(path);
            }
        }
        if let Some(path) = self.follow(paths, candidates, packet, now) {
            return Choice::Path(path);
        }
        let choice = self.compare(paths, candidates, packet, now);
        self.stripe = match choice {
            Choice::Path(path) => {
                let bytes =
                    bytes_in(paths[path].expected_rate(), STRIPE).saturating_sub(on_wire(packet.bytes()));
                Some(Stripe { path, at: now, bytes })
            }
            Choice::Wait | Choice::All => None,
        };
        choice
    }

    fn choose_beyond(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        reserve: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        self.choose(paths, candidates.with(reserve), packet, now)
    }
}

impl Earliest {
    /// The path of the stripe, if the packet belongs to it.
    fn follow(
        &mut self,
        paths: &Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Option<usize> {
        let stripe = self.stripe.as_mut().filter(|stripe| stripe.at == now)?;
        // What was lost chooses for itself.
        let is_new = !packet.is_again();
        let path = stripe.path;
        let may_follow = is_new && candidates.contains(path) && paths[path].has_room(packet.bytes(), now);
        stripe.bytes = stripe.bytes.checked_sub(on_wire(packet.bytes())).filter(|_| may_follow)?;
        Some(path)
    }

    /// Compares all paths.
    fn compare(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        self.field.ask(paths, candidates, packet, now);
        let Some(index) = self.field.best() else {
            return Choice::Wait;
        };
        let (bytes, again) = (packet.bytes(), packet.is_again());
        let bounds = self.field.bounds(candidates);
        let index = self.nearest_or(index, &bounds, packet, now);
        let best = self.field.forecast(index);
        let detour = best.propagation.saturating_sub(bounds.nearest).min(TOLERATED_DETOUR);
        let unsure = TOLERANCE + 3 * best.jitter.min(USUAL_JITTER);
        let awaited = 3 * best.jitter.saturating_sub(USUAL_JITTER);
        let arrival = best.arrival(bytes, again, now) + nanos(awaited);
        let limit =
            |other: u64| arrival.saturating_sub(nanos((detour + unsure).mul_f64(weight(best.rate, other))));
        if self.is_carried(best, &bounds, packet) {
            return Choice::Wait;
        }
        // None arrives before a single packet on the first of them, and none has a later limit than the fastest.
        let first = self.field.first_crowded();
        if first.is_none_or(|first| first >= limit(bounds.fastest)) {
            return Choice::Path(index);
        }
        // All that waits, over one that has no room.
        let refuses = |full: &Forecast| full.arrival(bytes * packet.backlog, again, now) < limit(full.rate);
        if self.field.crowded().any(refuses) { Choice::Wait } else { Choice::Path(index) }
    }

    /// The nearest path, if it has room, and a packet is later there than on the `best` one by no more than delays vary by. What is
    /// alone, or sent again, takes the best.
    fn nearest_or(&self, best: usize, bounds: &Bounds, packet: &Waiting<'_>, now: Instant) -> usize {
        let nearest = bounds.nearest_path;
        if packet.alone || packet.is_again() || nearest == best || !self.field.is_open(nearest) {
            return best;
        }
        let [near, far] = [nearest, best].map(|index| self.field.forecast(index));
        if !is_nearer(near, far) {
            return best;
        }
        let unsure = 3 * near.jitter.max(far.jitter).min(USUAL_JITTER);
        let arrival = |path: &Forecast| path.arrival(packet.bytes(), false, now);
        if arrival(near) <= arrival(far) + nanos(unsure) { nearest } else { best }
    }

    /// Whether one that is notably nearer than `best`, but has no room, carries all that is under way within the round trip over
    /// `best`.
    fn is_carried(&self, best: &Forecast, bounds: &Bounds, packet: &Waiting<'_>) -> bool {
        let round = best.propagation + bounds.nearest;
        let window = self.field.under_way() + (packet.bytes() * packet.backlog) as u64;
        let carries = |rate: u64| window < bytes_in(rate, round);
        packet.queued.ordered
            && !packet.is_again()
            && bounds.nearest + NEARER < best.propagation
            && carries(bounds.fastest)
            && self.field.crowded().any(|full| is_nearer(full, best) && carries(full.rate))
    }
}
