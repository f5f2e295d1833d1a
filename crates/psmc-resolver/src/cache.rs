//! Answers that were given before, as long as they count, and for a day longer should nobody else have one.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::question::Question;
use super::reply::Reply;

/// How long an expired answer is kept for the case that no upstream server answers (RFC 8767 §5: one to three days).
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// The TTL of an expired answer (RFC 8767 §4).
const STALE_TTL: u32 = 30;

/// How long an expired answer is given at once after the upstream servers have failed to give another. RFC 8767 §5 has
/// 30 s; here it is known within a few seconds when they are back, which matters while they are under attack.
const STALE_RECHECK: Duration = Duration::from_secs(5);

/// About what an entry takes beside its answer: the question twice, and the tables.
const ENTRY_OVERHEAD: usize = 512;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl Bounds {
    /// So much memory, and as many entries as fit into it.
    pub(super) fn of_mib(mib: u32) -> Self {
        let bytes = usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        Self { entries: bytes / ENTRY_OVERHEAD, bytes }
    }
}

/// What the cache has of a question.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// An answer that counts.
    Fresh(Reply),
    /// One that has expired: for want of another it serves; at once where others were just looked for in vain.
    Stale {
        /// The answer.
        reply: Reply,
        /// Whether to look for another one first.
        is_to_be_renewed: bool,
    },
}

/// The cache. What was used least recently goes first.
#[derive(Debug)]
pub(super) struct Cache {
    bounds: Bounds,
    entries: HashMap<Question, Entry>,
    /// The questions by their last use.
    uses: BTreeMap<u64, Question>,
    next_use: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    reply: Reply,
    since: Instant,
    until: Instant,
    failed_until: Option<Instant>,
    last_use: u64,
    weight: usize,
}

impl Cache {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, entries: HashMap::new(), uses: BTreeMap::new(), next_use: 0, bytes: 0 }
    }

    /// What there is of a question.
    pub(super) fn get(&mut self, question: &Question, now: Instant) -> Option<Found> {
        let entry = self.entries.get(question)?;
        if now >= entry.until + MAX_STALE || (now >= entry.until && !entry.reply.is_final()) {
            self.remove(question);
            return None;
        }
        let found = if now < entry.until {
            Found::Fresh(entry.reply.aged(now.saturating_duration_since(entry.since)))
        } else {
            let is_to_be_renewed = entry.failed_until.is_none_or(|until| now >= until);
            Found::Stale { reply: entry.reply.lasting(STALE_TTL), is_to_be_renewed }
        };
        self.touch(question);
        Some(found)
    }

    /// Keeps an answer, if it may be kept.
    pub(super) fn insert(&mut self, question: &Question, reply: &Reply, now: Instant) {
        self.remove(question);
        let weight = reply.weight() + ENTRY_OVERHEAD;
        let Some(lifetime) = reply.lifetime().filter(|_| weight <= self.bounds.bytes) else { return };
        while self.entries.len() >= self.bounds.entries || self.bytes + weight > self.bounds.bytes {
            let Some((_, oldest)) = self.uses.pop_first() else { return };
            self.remove(&oldest);
        }
        let last_use = self.count_use(question);
        let entry = Entry {
            reply: reply.clone(),
            since: now,
            until: now + lifetime,
            failed_until: None,
            last_use,
            weight,
        };
        self.entries.insert(question.clone(), entry);
        self.bytes += weight;
    }

    /// No upstream server has an answer: what has expired serves at once for a while, and otherwise the failure.
    pub(super) fn failed(&mut self, question: &Question, failure: &Reply, now: Instant) {
        match self.entries.get_mut(question) {
            Some(entry) if entry.reply.is_final() => entry.failed_until = Some(now + STALE_RECHECK),
            Some(_) | None => self.insert(question, failure, now),
        }
    }

    /// Whether there is anything of a question.
    pub(super) fn has(&self, question: &Question) -> bool {
        self.entries.contains_key(question)
    }

    /// Keeps nothing of a question any longer.
    pub(super) fn forget(&mut self, question: &Question) {
        self.remove(question);
    }

    /// How many answers there are, and about how many bytes they take.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    fn remove(&mut self, question: &Question) {
        if let Some(entry) = self.entries.remove(question) {
            self.uses.remove(&entry.last_use);
            self.bytes -= entry.weight;
        }
    }

    fn touch(&mut self, question: &Question) {
        let number = self.count_use(question);
        if let Some(entry) = self.entries.get_mut(question) {
            self.uses.remove(&entry.last_use);
            entry.last_use = number;
        }
    }

    fn count_use(&mut self, question: &Question) -> u64 {
        let number = self.next_use;
        self.next_use += 1;
        self.uses.insert(number, question.clone());
        number
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::ResponseCode;
    use hickory_proto::rr::rdata::{A, SOA};
    use hickory_proto::rr::{Name, RData, Record, RecordType};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn question(text: &str) -> Question {
        Question::new(&name(text), RecordType::A)
    }

    fn address(ttl: u32) -> Reply {
        Reply::of_records(vec![Record::from_rdata(name("a."), ttl, RData::A(A::new(192, 0, 2, 1)))])
    }

    fn nothing(ttl: u32, minimum: u32) -> Reply {
        let soa = SOA::new(name("ns."), name("h."), 1, 1, 1, 1, minimum);
        let authorities = vec![Record::from_rdata(name("."), ttl, RData::SOA(soa))];
        Reply { authorities, ..Reply::of_code(ResponseCode::NXDomain) }
    }

    fn cache(entries: usize) -> (Cache, Instant) {
        (Cache::new(Bounds { entries, bytes: 1 << 20 }), Instant::now())
    }

    fn ttl(found: Option<Found>) -> (bool, u32) {
        match found.expect("it is there") {
            Found::Fresh(reply) => (true, reply.answers[0].ttl),
            Found::Stale { reply, .. } => (false, reply.answers[0].ttl),
        }
    }

    #[test]
    fn answers_age_expire_and_serve_for_want_of_others() {
        let (mut cache, now) = cache(10);
        let at = |seconds| now + Duration::from_secs(seconds);
        cache.insert(&question("a."), &address(60), now);
        assert_eq!(ttl(cache.get(&question("A."), at(20))), (true, 40));
        assert_eq!(ttl(cache.get(&question("a."), at(60))), (false, STALE_TTL));
        let renewed = |found| matches!(found, Some(Found::Stale { is_to_be_renewed: true, .. }));
        assert!(renewed(cache.get(&question("a."), at(61))));
        cache.failed(&question("a."), &Reply::of_code(ResponseCode::ServFail), at(61));
        assert!(!renewed(cache.get(&question("a."), at(62))));
        assert!(renewed(cache.get(&question("a."), at(67))));
        assert!(cache.get(&question("a."), at(60 + 24 * 3600)).is_none());
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn the_absence_of_names_is_kept_as_long_as_the_zone_says_and_failures_for_a_second() {
        let (mut cache, now) = cache(10);
        let at = |seconds| now + Duration::from_secs(seconds);
        cache.insert(&question("a."), &nothing(600, 30), now);
        assert!(matches!(cache.get(&question("a."), at(29)), Some(Found::Fresh(_))));
        assert!(matches!(cache.get(&question("a."), at(30)), Some(Found::Stale { .. })));
        cache.insert(&question("b."), &Reply::of_code(ResponseCode::NXDomain), now);
        assert!(cache.get(&question("b."), now).is_none(), "nothing says how long");
        cache.failed(&question("c."), &Reply::of_code(ResponseCode::ServFail), now);
        assert!(matches!(cache.get(&question("c."), now), Some(Found::Fresh(_))));
        assert!(cache.get(&question("c."), at(1)).is_none(), "a failure is nothing to fall back on");
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let (mut cache, now) = cache(3);
        for text in ["a.", "b.", "c."] {
            cache.insert(&question(text), &address(60), now);
        }
        assert!(cache.get(&question("a."), now).is_some());
        cache.insert(&question("d."), &address(60), now);
        let there = ["a.", "b.", "c.", "d."].map(|text| cache.get(&question(text), now).is_some());
        assert_eq!(there, [true, false, true, true]);
    }

    proptest::proptest! {
        #[test]
        fn the_bounds_hold(steps in proptest::collection::vec((0..40_u8, 0..3_u8), 0..300)) {
            let bounds = Bounds { entries: 8, bytes: 6000 };
            let (mut cache, now) = (Cache::new(bounds), Instant::now());
            for (which, what) in steps {
                let question = question(&format!("n{which}."));
                match what {
                    0 => cache.insert(&question, &address(which.into()), now),
                    1 => cache.failed(&question, &Reply::of_code(ResponseCode::ServFail), now),
                    _ => drop(cache.get(&question, now + Duration::from_secs(20))),
                }
                let (entries, bytes) = cache.size();
                assert!(entries <= bounds.entries && bytes <= bounds.bytes);
                assert_eq!((entries, cache.uses.len()), (cache.entries.len(), cache.entries.len()));
                assert_eq!(bytes, cache.entries.values().map(|entry| entry.weight).sum::<usize>());
            }
        }
    }
}
