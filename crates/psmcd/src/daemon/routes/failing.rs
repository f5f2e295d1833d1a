//! Over which learned paths nothing comes, or too little.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::PathState;
use psmc_wire::PathId;

use super::health::Health;

/// A path that loses much for so long does not lose by a moment's burst. One that is silent needs no such time.
const LOSSY_FOR: Duration = Duration::from_secs(1);

/// The learned paths that are ill.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing {
    since: BTreeMap<PathId, (Instant, Why)>,
    /// Whether something comes by another way: else it is this site's own network that fails, and no relay.
    works_elsewhere: bool,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    NeverAnswered,
    Silent,
    Lossy,
}

impl Failing {
    /// Takes a look at all learned paths; `direct` is the health of the others.
    pub(super) fn look(&mut self, learned: &[(PathId, PathState, Health)], direct: Health, now: Instant) {
        let ill = |health| health == Health::Ill;
        self.since.retain(|id, _| learned.iter().any(|&(path, _, health)| path == *id && ill(health)));
        for &(id, state, health) in learned {
            if ill(health) {
                self.since.entry(id).or_insert((now, Why::Lossy)).1 = Why::of(state);
            }
        }
        let works =
            |&(_, state, health): &(PathId, PathState, Health)| state == PathState::Active && !ill(health);
        self.works_elsewhere = direct == Health::Well || learned.iter().any(works);
    }

    /// What is wrong with a relay that these paths lead over, for people: each of them is ill, and another way works.
    pub(super) fn reason(
        &self,
        paths: impl IntoIterator<Item = PathId>,
        now: Instant,
    ) -> Option<&'static str> {
        let mut reason = None;
        for path in paths {
            let &(since, why) = self.since.get(&path).filter(|_| self.works_elsewhere)?;
            if why == Why::Lossy && now < since + LOSSY_FOR {
                return None;
            }
            reason = reason.or(Some(why.text()));
        }
        reason
    }
}

impl Why {
    fn of(state: PathState) -> Self {
        match state {
            PathState::Probing => Self::NeverAnswered,
            PathState::Dead | PathState::Suspect => Self::Silent,
            PathState::Active => Self::Lossy,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NeverAnswered => "nothing received through it yet",
            Self::Silent => "nothing received through it any more",
            Self::Lossy => "high loss",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PathId = PathId(1);
    const TWO: PathId = PathId(3);

    fn well(path: PathId) -> (PathId, PathState, Health) {
        (path, PathState::Active, Health::Well)
    }

    fn dead(path: PathId) -> (PathId, PathState, Health) {
        (path, PathState::Dead, Health::Ill)
    }

    #[test]
    fn a_relay_fails_when_all_its_paths_do_and_another_way_works() {
        let (mut failing, now) = (Failing::default(), Instant::now());
        failing.look(&[dead(ONE), well(TWO)], Health::Ill, now);
        assert_eq!(failing.reason([ONE], now), Some("nothing received through it any more"));
        assert_eq!(failing.reason([TWO], now), None);
        assert_eq!(failing.reason([ONE, TWO], now), None, "by another uplink it works");
        assert_eq!(failing.reason([], now), None, "there is no path over it yet");

        failing.look(&[dead(ONE), dead(TWO)], Health::Ill, now);
        assert_eq!(failing.reason([ONE], now), None, "it may be this site's own network");
        failing.look(&[dead(ONE), dead(TWO)], Health::Well, now);
        assert!(failing.reason([ONE, TWO], now).is_some());
        failing.look(&[well(ONE)], Health::Well, now);
        assert_eq!(failing.reason([ONE], now), None);
    }

    #[test]
    fn a_burst_of_losses_is_no_failure() {
        let (mut failing, now) = (Failing::default(), Instant::now());
        let lossy = [(ONE, PathState::Active, Health::Ill)];
        failing.look(&lossy, Health::Well, now);
        assert_eq!(failing.reason([ONE], now), None);
        failing.look(&lossy, Health::Well, now + LOSSY_FOR);
        assert_eq!(failing.reason([ONE], now + LOSSY_FOR), Some("high loss"));
    }
}
