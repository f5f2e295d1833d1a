//! Routes to peers that are learned while the site runs, and when they are used.
//!
//! | module | what it has |
//! |---|---|
//! | `set` | a set of routes, and the paths that it asks for |
//! | `health` | whether a path is well |
//! | `trial` | whether a path is as good as it was before |
//! | `failing` | through which relays nothing comes |
//! | `policy` | which paths carry the data, and whether there are paths over learned routes |
//! | `drive` | carries that out |
//! | `waiting` | clients that wait for something to come true |

mod drive;
mod failing;
mod health;
mod policy;
mod set;
mod trial;
mod waiting;

pub(super) use drive::NewRoutes;
pub(super) use set::{endpoint, key, name_of};
pub(super) use waiting::RouteWatch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use psmc_core::{PathState, PathStatus, PeerStatus};
use psmc_wire::PathId;
use psmc_wire::frame::PathUse;

use crate::config::{PathSettings, Relay, RoutePolicy};
use failing::Failing;
use health::{Count, Health, Look, Record};
use policy::{Judge, Seen, Way};
use set::{LearnedSet, Wanted};

/// A peer that somebody has waited for is looked at for so much longer, so that the next wait begins with what is known.
const WATCH_TIME: Duration = Duration::from_secs(60);

/// What is learned about ways to one peer.
#[derive(Debug)]
pub(super) struct Routes {
    /// What the last set says about when it is used.
    policy: Option<RoutePolicy>,
    set: Option<LearnedSet>,
    /// That of the last set.
    serial: Option<u64>,
    judge: Judge,
    records: BTreeMap<PathId, Record>,
    failing: Failing,
    state: WayState,
    /// Paths that were removed by hand, here or at the peer, since the last set came.
    left_out: Vec<Wanted>,
    /// What was last asked of the paths: whether each is to stand by.
    asked: Vec<(PathId, bool)>,
    watched_until: Option<Instant>,
    /// When the paths are compared again with what there should be; `None` for at once.
    match_at: Option<Instant>,
}

/// How it stands with the ways to a peer.
#[derive(Clone, Copy, Debug)]
struct WayState {
    usable: bool,
    direct_well: bool,
    learned_up: u32,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            policy: None,
            set: None,
            serial: None,
            judge: Judge::default(),
            records: BTreeMap::new(),
            failing: Failing::default(),
            // Nothing is known to be wrong.
            state: WayState { usable: false, direct_well: true, learned_up: 0 },
            left_out: Vec::new(),
            asked: Vec::new(),
            watched_until: None,
            match_at: None,
        }
    }
}

impl Routes {
    /// Whether paths over learned routes carry the data.
    pub(super) fn lead_over_relays(&self) -> bool {
        self.way() == Way::Learned
    }

    /// Whether data go over a new path on the word of its relay. They shall go there anyway; and over the direct paths, which
    /// are well, the peer learns of the relay in time, and they are at home again soon if the word was wrong.
    fn believe_relays(&self, configured: RoutePolicy) -> bool {
        self.policy.unwrap_or(configured) == RoutePolicy::PreferIndirect && self.state.direct_well
    }

    fn way(&self) -> Way {
        self.judge.plan().way
    }

    /// Whether there are routes, or were.
    pub(super) fn were_learned(&self) -> bool {
        self.serial.is_some()
    }

    /// Has a path not opened again that somebody has removed.
    pub(super) fn leave_out(&mut self, relay: Relay, settings: PathSettings) {
        self.left_out.push(Wanted { relay, settings });
    }

    /// Repeats what was asked of the paths.
    pub(super) fn ask_again(&mut self) {
        self.asked.clear();
    }

    /// Whether the paths are to be looked at: there are routes, or were a moment ago, or somebody waits.
    pub(super) fn is_watched(&self, now: Instant) -> bool {
        self.set.is_some()
            || self.way() == Way::Learned
            || self.watched_until.is_some_and(|until| now < until)
    }

    fn watch(&mut self, now: Instant) {
        self.watched_until = Some(now + WATCH_TIME);
    }

    /// Looks at the paths, of which `learned` lead over learned routes.
    fn look(
        &mut self,
        configured: RoutePolicy,
        learned: &BTreeSet<PathId>,
        status: &PeerStatus,
        now: Instant,
    ) {
        let open = || status.paths.iter().filter(|path| path.usage != PathUse::Closed);
        self.records.retain(|id, _| open().any(|path| path.id == *id));
        let (carries, return_after) = (self.way() == Way::Direct, self.judge.return_after());
        let (mut direct, mut is_proven) = (Health::Ill, false);
        for path in open().filter(|path| is_direct(path, learned)) {
            let record = self.records.entry(path.id).or_default();
            direct = direct.min(record.look(look(path, now), carries));
            is_proven |= record.is_proven(return_after);
        }
        let over_learned = || open().filter(|path| learned.contains(&path.id));
        let up = over_learned().filter(|path| path.state == PathState::Active).count();
        self.state = WayState {
            usable: status.key.is_some() && open().any(|path| path.state == PathState::Active),
            direct_well: match direct {
                Health::Well => true,
                Health::Doubtful => self.state.direct_well,
                Health::Ill => false,
            },
            learned_up: u32::try_from(up).unwrap_or(u32::MAX),
        };
        let mut relayed = Vec::new();
        for path in over_learned() {
            let health = self.records.entry(path.id).or_default().look(look(path, now), !carries);
            relayed.push((path.id, path.state, health));
        }
        self.failing.look(&relayed, direct, now);
        let works = |path: &PathStatus| matches!(path.state, PathState::Active | PathState::Suspect);
        let seen = Seen { direct, is_proven, learned_works: over_learned().any(works) };
        self.judge.look(self.policy.unwrap_or(configured), seen, now);
    }

    /// What to ask of the paths: which stand by, because of the plan or because somebody wants it so.
    fn wishes(
        &self,
        learned: &BTreeSet<PathId>,
        by_hand: &BTreeSet<PathId>,
        status: &PeerStatus,
    ) -> Vec<(PathId, bool)> {
        let open = status.paths.iter().filter(|path| path.usage != PathUse::Closed);
        let own = open.filter(|path| learned.contains(&path.id) || is_direct(path, learned));
        let stands_by = |id: PathId| learned.contains(&id) == (self.way() == Way::Direct);
        own.map(|path| (path.id, by_hand.contains(&path.id) || stands_by(path.id))).collect()
    }
}

/// Whether a path is one that learned routes stand in for: any of ours but those over such routes, and what the peer leads
/// here straight.
fn is_direct(path: &PathStatus, learned: &BTreeSet<PathId>) -> bool {
    !learned.contains(&path.id) && (path.opened_here || path.relay.is_none())
}

fn look(path: &PathStatus, now: Instant) -> Look {
    let counters = &path.counters;
    let lost = counters.lost_packets + counters.silences;
    let sent = Count { settled: lost + counters.acked_packets, lost };
    let received = Count {
        settled: path.received_numbers,
        lost: path.received_numbers.saturating_sub(path.received.packets),
    };
    Look {
        at: now,
        state: path.state,
        counts: [sent, received],
        round_trip: path.latest_rtt,
        least_round_trip: path.min_rtt,
    }
}
