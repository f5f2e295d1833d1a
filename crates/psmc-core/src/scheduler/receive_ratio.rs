//! The seed's rule for weights: send in the ratio in which was received (PSMC ch. IV).

use std::time::{Duration, Instant};

use psmc_wire::PathId;

use super::wrr::QUANTUM;

/// What the paths have delivered of late, as weights.
///
/// "The sender's data striping ratio is 2:1 while the receiver's data receiving ratio is 3:2, the sender should
/// adjust its striping ratio to 3:2." Acknowledgements tell what was received.
#[derive(Debug, Default)]
pub(super) struct ReceiveRatio {
    paths: Vec<Delivery>,
    due: Option<Instant>,
}

#[derive(Debug)]
struct Delivery {
    path: PathId,
    /// Datagrams acknowledged when last looked at.
    acked: u64,
    /// Bytes for each turn; none until a period has shown it.
    quantum: Option<i64>,
}

impl ReceiveRatio {
    /// Whether [`update`](Self::update) is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// Looks at what each path has had acknowledged since its beginning.
    pub(super) fn update(&mut self, acked: impl Iterator<Item = (PathId, u64)>, now: Instant) {
        self.due = Some(now + PERIOD);
        let before = std::mem::take(&mut self.paths);
        let known = |path: PathId| before.iter().find(|delivery| delivery.path == path);
        let mut news = Vec::new();
        for (path, acked) in acked {
            let (last, quantum) = known(path).map_or((acked, None), |known| (known.acked, known.quantum));
            news.push(acked.saturating_sub(last));
            self.paths.push(Delivery { path, acked, quantum });
        }
        // A path that has just come has no share of this period, and the others' would be wrong beside it.
        let all_known = self.paths.iter().all(|delivery| known(delivery.path).is_some());
        if all_known && news.iter().sum::<u64>() >= MIN_DATAGRAMS {
            self.adjust(&news);
        } else if !all_known {
            self.paths.iter_mut().for_each(|delivery| delivery.quantum = None);
        }
    }

    /// The bytes that a path gets in its turn, if that is known.
    pub(super) fn quantum(&self, path: PathId) -> Option<i64> {
        self.paths.iter().find(|delivery| delivery.path == path)?.quantum
    }

    /// Makes the least share one packet a turn, and the others as much more as was received.
    fn adjust(&mut self, news: &[u64]) {
        let most = news.iter().copied().max().unwrap_or(0);
        let floor = (most / MAX_RATIO).max(1);
        let shares = news.iter().map(|&count| count.max(floor));
        let least = shares.clone().min().unwrap_or(1);
        for (delivery, share) in self.paths.iter_mut().zip(shares) {
            let quantum = QUANTUM.saturating_mul(i64::try_from(share).unwrap_or(i64::MAX))
                / i64::try_from(least).unwrap_or(i64::MAX);
            delivery.quantum = Some(quantum);
        }
    }
}

/// The sampling period. The seed names none; a second has many round trips, and a new path is in proportion soon.
const PERIOD: Duration = Duration::from_secs(1);

/// A period with less than this says more about probes and acknowledgements than about data.
const MIN_DATAGRAMS: u64 = 50;

/// The largest ratio: a path that delivers nothing gets a packet in a hundred all the same, or it could never show
/// that it works again.
const MAX_RATIO: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const A: PathId = PathId(0);
    const B: PathId = PathId(2);

    fn quanta(ratio: &ReceiveRatio) -> [Option<i64>; 2] {
        [A, B].map(|path| ratio.quantum(path))
    }

    /// The ratio after two looks at the paths, one period apart.
    fn after(first: [u64; 2], second: [u64; 2]) -> ReceiveRatio {
        let (mut ratio, now) = (ReceiveRatio::default(), Instant::now());
        assert!(ratio.is_due(now));
        ratio.update([(A, first[0]), (B, first[1])].into_iter(), now);
        assert_eq!(quanta(&ratio), [None, None]);
        assert!(!ratio.is_due(now + PERIOD / 2) && ratio.is_due(now + PERIOD));
        ratio.update([(A, second[0]), (B, second[1])].into_iter(), now + PERIOD);
        ratio
    }

    #[test]
    fn weights_become_what_was_received() {
        let ratio = after([500, 100], [500 + 300, 100 + 200]);
        assert_eq!(quanta(&ratio), [Some(2250), Some(1500)]);
    }

    #[test]
    fn a_path_that_delivers_nothing_still_gets_a_little() {
        let ratio = after([0, 0], [5000, 0]);
        assert_eq!(quanta(&ratio), [Some(150_000), Some(1500)]);
    }

    #[test]
    fn a_quiet_period_changes_nothing() {
        let mut ratio = after([0, 0], [300, 100]);
        let before = quanta(&ratio);
        ratio.update([(A, 310), (B, 139)].into_iter(), Instant::now());
        assert_eq!(quanta(&ratio), before);
    }

    #[test]
    fn a_path_that_comes_has_everyone_begin_anew() {
        let mut ratio = after([0, 0], [300, 100]);
        let now = Instant::now();
        ratio.update([(A, 600), (B, 200), (PathId(4), 0)].into_iter(), now);
        assert_eq!(quanta(&ratio), [None, None]);
        ratio.update([(A, 700), (B, 300), (PathId(4), 100)].into_iter(), now + PERIOD);
        assert_eq!(ratio.quantum(PathId(4)), Some(1500));
    }

    #[test]
    fn a_path_that_goes_leaves_the_others_as_they_are() {
        let mut ratio = after([0, 0], [300, 100]);
        ratio.update([(A, 600)].into_iter(), Instant::now());
        assert_eq!(quanta(&ratio), [Some(1500), None]);
    }
}
