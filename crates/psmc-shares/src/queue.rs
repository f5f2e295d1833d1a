//! Requests that wait, by class, and who is next.
//!
//! Within a class it is who came first. Among classes it is decided each time anew, among the first of each:
//!
//! - [by age](Discipline::ByAge): who has waited longest for its class. Waiting-time priorities of packets (Dovrolis et al., "Proportional
//!   differentiated services", 1999 and 2002) are ages divided by δ; here it is the response time that a request would have if it were next,
//!   divided by δ, and beside it the mean of what its class had lately, so that a ratio is held within a sampling period and not only by
//!   the next.
//! - [by weights](Discipline::Fair): start-time fair queueing (Goyal et al. 1996), of the time that servers take.

mod class;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::ratios::Seen;
use crate::window::{Measure, Sample};
use crate::{ClassId, ClassSet, MAX_CLASSES, ServerId};
use class::Class;

/// How it is decided who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// By age over δ, and what classes had lately.
    ByAge,
    /// By age over δ alone, for comparison.
    AgeAlone,
    /// By weights.
    Fair,
    /// Who came first, whatever its class: without differentiation, for comparison.
    FirstCome,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When it has come.
    pub arrived: Duration,
    /// The server that has failed it.
    pub avoid: Option<ServerId>,
}

/// Names a request that waits, or has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    class: ClassId,
    key: u64,
}

/// Queues of classes, each first come, first served.
///
/// [`push`](Self::push) what waits, [`pop`](Self::pop) who is next whenever there is room, and say of what was popped how it
/// went ([`answered`](Self::answered)). What is queued is bounded by whoever pushes, which can ask for [`len`](Self::len).
#[derive(Clone, Debug)]
pub struct Queues {
    discipline: Discipline,
    measure: Measure,
    /// Whether a class is kept back while others would have to be faster than they can.
    idling: bool,
    classes: Vec<Class>,
    /// The start tag of whoever was served last.
    virtual_time: f64,
    next_key: u64,
    first_key: u64,
    waiting: usize,
}

/// Answers, of all classes, after which one counts for a third: fewer than a sampling period has, and enough of a class that has
/// few of them.
const MEMORY: f64 = 100.0;

/// More answers for each request that waits: what is decided now shows when those have been answered.
const MEMORY_OF_WAITING: f64 = 8.0;

/// How much the mean of a class counts beside the age of its first: with less, ratios of sampling periods spread further, with more they
/// swing under bursts (docs/decisions/0040).
const STRENGTH: f64 = 2.0;

/// A request is kept back no longer than this multiple of what the first class's times mean for it: no feedback goes astray further.
const MOST_KEPT: f64 = 3.0;

impl Handle {
    /// Of which class.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.class
    }
}

impl Queues {
    /// For classes of these δ, which are positive, at most [`MAX_CLASSES`].
    #[must_use]
    pub fn new(deltas: &[f64], discipline: Discipline, measure: Measure, idling: bool) -> Self {
        let weight = 1.0 / deltas.len().max(1) as f64;
        Self {
            discipline,
            measure,
            idling,
            classes: deltas.iter().take(MAX_CLASSES).map(|&delta| Class::new(delta, weight)).collect(),
            virtual_time: 0.0,
            next_key: MIDDLE,
            first_key: MIDDLE,
            waiting: 0,
        }
    }

    /// A request waits; it is the last of its class. `None` if there is no such class.
    pub fn push(&mut self, class: ClassId, waiting: Waiting) -> Option<Handle> {
        let key = self.next_key;
        let handle = self.insert(class, key, waiting)?;
        self.next_key += 1;
        Some(handle)
    }

    /// A request waits again; it is the first of its class. `None` if there is no such class.
    pub fn push_first(&mut self, class: ClassId, waiting: Waiting) -> Option<Handle> {
        let key = self.first_key - 1;
        let handle = self.insert(class, key, waiting)?;
        self.first_key = key;
        Some(handle)
    }

    /// A request waits no longer, whoever is next. `None` if it did not.
    pub fn cancel(&mut self, handle: Handle) -> Option<Waiting> {
        let waiting = self.classes.get_mut(handle.class.0)?.waiting.remove(&handle.key)?;
        self.waiting -= 1;
        Some(waiting)
    }

    /// Who is next of these classes, for which there is room, and waits no longer; `None` if nobody of them waits, or all who do are
    /// kept back.
    pub fn pop(&mut self, room: ClassSet, now: Duration) -> Option<(Handle, Waiting)> {
        let mut heads = 0_u64;
        // Of equals the first one.
        let mut best: Option<(usize, (bool, f64))> = None;
        for class in 0..self.classes.len() {
            if !room.has(ClassId(class)) || !self.may_go(class, now) {
                continue;
            }
            heads |= 1 << class;
            let standing = self.standing(class, now);
            if best.is_none_or(|(_, of_best)| is_above(standing, of_best)) {
                best = Some((class, standing));
            }
        }
        let (best, _) = best?;
        if heads.count_ones() > 1 {
            for (place, class) in
                self.classes.iter_mut().enumerate().filter(|(place, _)| heads >> place & 1 == 1)
            {
                class.contested(place == best);
            }
        }
        if self.discipline == Discipline::Fair {
            let start = self.classes[best].start(self.virtual_time);
            self.virtual_time = start;
            self.classes[best].served_from(start);
        }
        self.take_first(best)
    }

    /// The first of a class, if it came before that: nobody needs it any more.
    pub fn pop_older(&mut self, class: ClassId, came_before: Duration) -> Option<(Handle, Waiting)> {
        let (_, first) = self.classes.get(class.0)?.waiting.first_key_value()?;
        if first.arrived >= came_before {
            return None;
        }
        self.take_first(class.0)
    }

    /// When somebody of these classes who is kept back may go: `None` if nobody is. Only valid while [`pop`](Self::pop) yields nothing.
    #[must_use]
    pub fn next_free(&self, room: ClassSet) -> Option<Duration> {
        let of = |class: usize| {
            let first = self.classes[class].first().filter(|_| room.has(ClassId(class)))?;
            Some(first.arrived + Duration::from_secs_f64(self.kept(class)))
        };
        (0..self.classes.len()).filter_map(of).min()
    }

    /// A request that was popped has been answered.
    pub fn answered(&mut self, class: ClassId, sample: Sample) {
        let keep = (-1.0 / (MEMORY + MEMORY_OF_WAITING * self.waiting as f64)).exp();
        for class in &mut self.classes {
            class.fade(keep);
        }
        if let Some(class) = self.classes.get_mut(class.0) {
            class.answered(sample);
        }
    }

    /// Takes those who wait over from queues of as many classes, and what these know; the δ are its own.
    pub fn take_over(&mut self, other: &mut Self) {
        for (class, old) in self.classes.iter_mut().zip(&mut other.classes) {
            class.take_over(old);
        }
        (self.next_key, self.first_key) = (other.next_key, other.first_key);
        self.waiting = std::mem::take(&mut other.waiting);
    }

    /// When the first of a class came.
    #[must_use]
    pub fn first_arrival(&self, class: ClassId) -> Option<Duration> {
        self.classes.get(class.0)?.first().map(|first| first.arrived)
    }

    /// How many of a class wait.
    #[must_use]
    pub fn len(&self, class: ClassId) -> usize {
        self.classes.get(class.0).map_or(0, |class| class.waiting.len())
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// What is added to the logarithm of each class's standing.
    pub fn correct(&mut self, corrections: impl IntoIterator<Item = f64>) {
        for (class, correction) in self.classes.iter_mut().zip(corrections) {
            class.correction = correction;
        }
    }

    /// The weights of classes, which are positive.
    pub fn weigh(&mut self, weights: impl IntoIterator<Item = f64>) {
        for (class, weight) in self.classes.iter_mut().zip(weights) {
            class.weight = weight;
        }
    }

    /// From which age on requests of a class come first, whatever the ratios: the first such class of several.
    pub fn hurry(&mut self, class: ClassId, from: Option<Duration>) {
        if let Some(class) = self.classes.get_mut(class.0) {
            class.urgent_from = from;
        }
    }

    /// In how many decisions a class was among several, and in how many it was chosen, since this was last asked.
    pub fn take_contests(&mut self, class: ClassId) -> Seen {
        self.classes.get_mut(class.0).map_or(Seen::default(), Class::take_contests)
    }

    /// The mean time that servers take for a request of a class, as far as is known.
    #[must_use]
    pub fn service(&self, class: ClassId) -> Option<Duration> {
        self.classes.get(class.0)?.service.map(Duration::from_secs_f64)
    }

    fn insert(&mut self, class: ClassId, key: u64, waiting: Waiting) -> Option<Handle> {
        self.classes.get_mut(class.0)?.waiting.insert(key, waiting);
        self.waiting += 1;
        Some(Handle { class, key })
    }

    fn take_first(&mut self, class: usize) -> Option<(Handle, Waiting)> {
        let (key, waiting) = self.classes[class].waiting.pop_first()?;
        self.waiting -= 1;
        Some((Handle { class: ClassId(class), key }, waiting))
    }

    /// Whether the first of a class is there and not kept back.
    fn may_go(&self, class: usize, now: Duration) -> bool {
        let Some(first) = self.classes[class].first() else { return false };
        let age = now.saturating_sub(first.arrived).as_secs_f64();
        // What is due at a time is asked for at that time, which has whole nanoseconds.
        !self.idling || age + NANOSECOND >= self.kept(class) || self.classes[class].is_urgent(now)
    }

    /// The more, the sooner it is served; whoever is urgent has no more than others who are.
    fn standing(&self, class: usize, now: Duration) -> (bool, f64) {
        let one = &self.classes[class];
        if one.is_urgent(now) {
            return (true, 0.0);
        }
        let age = one.age(now);
        let standing = match self.discipline {
            Discipline::ByAge | Discipline::AgeAlone => one.standing(age, self.strength(), self.measure),
            Discipline::Fair => -one.start(self.virtual_time),
            Discipline::FirstCome => age,
        };
        (false, standing)
    }

    /// How much what a class had lately counts.
    fn strength(&self) -> f64 {
        if self.discipline == Discipline::AgeAlone { 0.0 } else { STRENGTH }
    }

    /// The age, in seconds, up to which requests of a class are kept back: so old they must be to stand as the best class does
    /// on average.
    fn kept(&self, class: usize) -> f64 {
        let Some(best) = self.best().filter(|&best| self.idling && best != class) else { return 0.0 };
        let strength = self.strength();
        let (one, best) = (&self.classes[class], &self.classes[best]);
        let Some(needed) = best.usual_standing(strength, self.measure) else { return 0.0 };
        let Some(usual) = best.usual_response() else { return 0.0 };
        let (mut least, mut most) = (0.0, MOST_KEPT * usual * one.delta / best.delta);
        if one.standing(least, strength, self.measure) >= needed {
            return 0.0;
        }
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(least, most);
            if one.standing(middle, strength, self.measure) < needed { least = middle } else { most = middle }
        }
        most
    }

    /// The class with the least δ of which something is known.
    fn best(&self) -> Option<usize> {
        let known = (0..self.classes.len()).filter(|&class| self.classes[class].usual_response().is_some());
        known.min_by(|&one, &other| self.classes[one].delta.total_cmp(&self.classes[other].delta))
    }
}

fn is_above((is_urgent, standing): (bool, f64), (other_is_urgent, other): (bool, f64)) -> bool {
    if is_urgent == other_is_urgent { standing > other } else { is_urgent }
}

/// Keys of requests that come begin here and grow, those of requests that come again begin here and shrink.
const MIDDLE: u64 = 1 << 63;

const NANOSECOND: f64 = 1e-9;

/// Enough to find a time of seconds to a microsecond.
const BISECTIONS: u32 = 24;
