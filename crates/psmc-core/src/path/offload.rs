//! Whether the kernel may be given many datagrams of a path as one packet, which is cut late (segmentation offload).
//!
//! ```text
//!          they vanish whole, single ones do not
//!   joined ─────────────────────────────────────▶ apart
//!      ▲                                         │    ▲
//!      │ arrived                            time │    │ lost: for twice the time
//!      └──────────────────── trying ◀────────────┘    │
//!                              └──────────────────────┘
//! ```
//!
//! A device or a firewall below may drop packets that are longer than its link's, before they are cut, and say nothing. What
//! is lost then is all of a batch, again and again, while datagrams that leave alone arrive. A queue that overflows takes the
//! first ones of a batch, and one that was full for a while takes the next batch.

use std::time::{Duration, Instant};

/// So many rounds, each begun when the loss of the one before was known, in which every batch vanished: then batches are what
/// does not pass. A path that was out for a while is back in one.
const ROUNDS: u32 = 3;

/// How long datagrams leave apart before a batch is tried again: it costs what is in it.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// The longest such time; as long as a path's datagram size is taken for granted (RFC 8899 §5.1.1).
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug)]
pub(crate) struct Offload {
    state: State,
    /// How long the next wait will be.
    wait: Duration,
    /// How many rounds have vanished, and when the last one was known to have.
    rounds: u32,
    known_at: Option<Instant>,
    /// The bytes of the shortest batch that vanished. What becomes of shorter ones says nothing of it.
    least_lost: usize,
    /// When the newest batch that arrived had been sent, and its bytes.
    arrived: Option<(Instant, usize)>,
    /// Whether it was told that batches vanish, and is to be.
    news: News,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Joined,
    Apart { until: Instant },
    Trying,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    None,
    Fresh,
    Told,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            state: State::Joined,
            wait: FIRST_WAIT,
            rounds: 0,
            known_at: None,
            least_lost: usize::MAX,
            arrived: None,
            news: News::None,
        }
    }
}

impl Offload {
    /// Whether the batch that leaves now may leave as one packet.
    pub(crate) fn joins(&mut self, now: Instant) -> bool {
        match self.state {
            State::Joined => true,
            State::Apart { until } if until <= now => {
                self.state = State::Trying;
                true
            }
            State::Apart { .. } | State::Trying => false,
        }
    }

    /// A datagram has arrived that was sent at `sent_at` in a batch of `batch` bytes, 0 if alone.
    pub(crate) fn on_arrived(&mut self, batch: u16, sent_at: Instant) {
        let batch = usize::from(batch);
        if batch == 0 {
            return;
        }
        if self.arrived.is_none_or(|(at, _)| at <= sent_at) {
            self.arrived = Some((sent_at, batch));
        }
        if batch >= self.least_lost {
            self.forget_losses();
        }
        if self.state == State::Trying {
            self.state = State::Joined;
        }
    }

    /// A datagram is lost that was sent at `sent_at` in a batch of `batch` bytes, 0 if alone. Says whether that shows that
    /// batches vanish.
    pub(crate) fn on_lost(&mut self, batch: u16, sent_at: Instant, now: Instant) -> bool {
        let batch = usize::from(batch);
        let some_arrived = self.arrived.is_some_and(|(at, bytes)| at >= sent_at && bytes >= batch);
        if batch == 0 || some_arrived || matches!(self.state, State::Apart { .. }) {
            return false;
        }
        self.least_lost = self.least_lost.min(batch);
        if self.known_at.is_some_and(|at| sent_at <= at) {
            return false;
        }
        self.rounds += 1;
        self.known_at = Some(now);
        let are_lost = self.rounds >= ROUNDS || self.state == State::Trying;
        if are_lost {
            self.part(now);
        }
        are_lost
    }

    /// Whether it is news that batches vanish: so once on every network.
    pub(crate) fn take_news(&mut self) -> bool {
        let is_fresh = self.news == News::Fresh;
        if is_fresh {
            self.news = News::Told;
        }
        is_fresh
    }

    fn part(&mut self, now: Instant) {
        self.state = State::Apart { until: now + self.wait };
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.forget_losses();
        if self.news == News::None {
            self.news = News::Fresh;
        }
    }

    fn forget_losses(&mut self) {
        (self.rounds, self.least_lost) = (0, usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: u16 = 30_000;

    /// Times in milliseconds.
    struct Run {
        start: Instant,
        offload: Offload,
    }

    impl Run {
        fn new() -> Self {
            Self { start: Instant::now(), offload: Offload::default() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn arrives(&mut self, batch: u16, sent: u64) {
            self.offload.on_arrived(batch, self.at(sent));
        }

        fn is_lost(&mut self, batch: u16, sent: u64, known: u64) -> bool {
            let (sent, known) = (self.at(sent), self.at(known));
            self.offload.on_lost(batch, sent, known)
        }

        fn joins(&mut self, at: u64) -> bool {
            let at = self.at(at);
            self.offload.joins(at)
        }

        /// Three rounds, beginning then.
        fn vanish(&mut self, from: u64) {
            for round in 0..3 {
                assert!(self.joins(from + 100 * round));
                let is_last = round == 2;
                assert_eq!(self.is_lost(BATCH, from + 100 * round, from + 50 + 100 * round), is_last);
            }
        }
    }

    #[test]
    fn batches_that_vanish_again_and_again_are_parted_and_tried_later() {
        let mut run = Run::new();
        run.vanish(0);
        assert!(run.offload.take_news() && !run.offload.take_news(), "said once");
        assert!(!run.joins(251) && !run.joins(60_000));
        assert!(run.joins(60_251), "one");
        assert!(!run.joins(60_252), "and no second one before it is known what became of it");
        assert!(run.is_lost(BATCH, 60_251, 60_300), "one is enough");
        assert!(!run.joins(180_000) && run.joins(180_301), "twice the time");
        assert!(!run.offload.take_news());
        run.arrives(BATCH, 180_301);
        assert!(run.joins(180_400) && run.joins(180_401));
    }

    #[test]
    fn the_time_apart_has_an_end() {
        let mut run = Run::new();
        run.vanish(0);
        let mut at = 250;
        for wait in [60, 120, 240, 480, 600, 600] {
            at += wait * 1000;
            assert!(!run.joins(at - 1) && run.joins(at), "{wait}");
            assert!(run.is_lost(BATCH, at, at + 50));
            at += 50;
        }
    }

    #[test]
    fn an_outage_or_a_full_queue_parts_nothing() {
        let mut outage = Run::new();
        // Sent before the first loss was known: whatever else happened to the path meanwhile.
        assert!((0..40).all(|sent| !outage.is_lost(BATCH, sent, 500)));
        let mut full = Run::new();
        for round in 0..20 {
            assert!(!full.is_lost(BATCH, 100 * round, 100 * round + 50));
            full.arrives(BATCH, 100 * round + 60);
            // The front of a batch arrives, its tail does not.
            assert!(!full.is_lost(BATCH, 100 * round + 60, 100 * round + 70));
        }
        let mut single = Run::new();
        assert!((0..20).all(|round| !single.is_lost(0, 100 * round, 100 * round + 50)));
    }

    #[test]
    fn short_batches_that_arrive_do_not_excuse_long_ones() {
        let mut run = Run::new();
        for round in 0..3 {
            run.arrives(900, 100 * round + 1);
            assert_eq!(run.is_lost(BATCH, 100 * round, 100 * round + 50), round == 2);
        }
    }
}
