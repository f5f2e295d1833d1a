//! The paths of a session, and which of them has something to do when.
//!
//! A session has up to 64 paths, and does something a hundred thousand times a second, mostly to one of them. So nothing
//! looks at all of them each time: what follows from the state of a path is noted here, and looked at anew when the path
//! was touched, which is to say, lent out to be changed. That is the only way in which a note gets out of date, and this
//! the only place that knows of it.

mod places;
mod soonest;

use std::ops::{Deref, Index, IndexMut};
use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::control::Tier;

use crate::classify::{ClassConfig, ClassId, Detour, PathPreference};
use crate::egress::Service;
use crate::path::{BURST, ClassRank, INITIAL_RTT, Path, PathRank, PathState, Shares};
pub(crate) use places::Places;
pub(crate) use soonest::Soonest;

/// So long after its last packet the reserve counts as in use: a flow that fills all paths fills the reserve in each round trip.
const RELIEF: Duration = Duration::from_secs(1);

/// All paths of a session, sorted by id, at most 128 of them.
///
/// Reading goes by slices. Changing goes by [`IndexMut`] or [`iter_mut`](Self::iter_mut), and leaves the notes about those
/// paths out of date: call [`refresh`](Self::refresh) before asking for anything that is noted.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    paths: Vec<Path>,
    /// Of each path, for they are close to each other here.
    ids: Vec<PathId>,
    /// The place of the path that was last asked for.
    found: usize,
    /// Those whose notes are out of date.
    touched: Places,
    /// Those that were touched since the scheduler was last told.
    changed: Places,
    /// How often paths were touched.
    changes: u64,
    notes: Vec<Note>,
    /// Whether the session has seen traffic of late.
    warm: bool,
    /// Bytes on the wire of the packet whose turn it was last in the session.
    backlog: u64,
    /// When a path has something to send, or had.
    sending: Soonest<Instant>,
    /// When it has something to do, but for those of which that has not been asked again.
    waking: Soonest<Instant>,
    unplanned: Places,
    /// When it has room again for what waits in the session, but for others of which that has not been asked again.
    pacing: Soonest<Instant>,
    unpaced: Places,
    /// When a wish about its use should be told.
    wishing: Soonest<Instant>,
    active: Places,
    candidates: Places,
    /// Those beside the candidates that take what these have no room for.
    reserve: Places,
    shrunk: Places,
    /// Those whose acknowledgements travel, or have to travel, elsewhere.
    carried: Places,
    /// Those that know that there is nothing to send, and those that were asked whether they have room at `asked_at`.
    idle: Places,
    asked: Places,
    asked_at: Option<Instant>,
    service: Option<Service>,
    /// When the reserve took a packet last, and whether that counts in `service`.
    relieved_at: Option<Instant>,
    is_relieved: bool,
    live: Places,
    horizon: Option<Horizon>,
    /// By class; empty if none prefers any paths.
    steered: Vec<Option<Steered>>,
    /// Whether paths have other names, or classes other wishes.
    is_renamed: bool,
}

/// A class that prefers some paths.
#[derive(Clone, Debug)]
struct Steered {
    preference: PathPreference,
    way: Way,
}

/// Where a packet may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// The best paths that there are.
    pub(crate) candidates: Places,
    /// Those that take what these have no room for.
    pub(crate) reserve: Places,
}

impl Way {
    /// The paths that may carry copies.
    pub(crate) fn all(self) -> Places {
        self.candidates.with(self.reserve)
    }
}

/// To which of the sets that the roster keeps a path belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    active: bool,
    live: bool,
    shrunk: bool,
    carried: bool,
}

/// What is noted of one path beside its times.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    kinds: Kinds,
    rank: Option<PathRank>,
    /// Bytes per second.
    rate: u64,
    round_trip: Option<Duration>,
    /// How much longer than that it is at times.
    lateness: Duration,
    /// The largest one-way delay of late, microseconds on the session's relative scale.
    delay_us: Option<i32>,
    /// How long it takes until what the peer sends is acknowledged.
    peer_round_trip: Option<Duration>,
}

impl Roster {
    /// Adds a path, in its place.
    pub(crate) fn insert(&mut self, path: Path) {
        let at = self.paths.partition_point(|other| other.id < path.id);
        self.paths.insert(at, path);
        self.renumber();
    }

    /// Takes a path out.
    pub(crate) fn remove(&mut self, index: usize) -> Path {
        let path = self.paths.remove(index);
        self.renumber();
        path
    }

    /// Takes all of them out.
    pub(crate) fn take_all(&mut self) -> Vec<Path> {
        let paths = std::mem::take(&mut self.paths);
        self.renumber();
        paths
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Path> {
        self.touched = Places::first(self.paths.len());
        self.changed = self.touched;
        self.horizon = None;
        (self.idle, self.asked) = (Places::default(), Places::default());
        self.changes += 1;
        self.paths.iter_mut()
    }

    /// What a path has carried of each class: nothing that is noted here depends on it, so nothing gets out of date.
    pub(crate) fn shares_mut(&mut self, index: usize) -> &mut Shares {
        &mut self.paths[index].shares
    }

    /// How often paths were changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The paths that have changed since this was last asked: by a scheduler, which remembers what it makes of them.
    pub(crate) fn take_changed(&mut self) -> Places {
        std::mem::take(&mut self.changed)
    }

    /// The place of the path with this id.
    pub(crate) fn index_of(&self, id: PathId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// The same for one of which more will be asked: successive datagrams are often of one path.
    pub(crate) fn find(&mut self, id: PathId) -> Option<usize> {
        if self.ids.get(self.found) != Some(&id) {
            self.found = self.index_of(id)?;
        }
        Some(self.found)
    }

    /// Looks again at whatever has changed.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let mut ranks_changed = false;
        self.unplanned = self.unplanned.with(self.touched);
        self.unpaced = self.unpaced.with(self.touched);
        while let Some(index) = self.touched.take_first() {
            ranks_changed |= self.look_at(index, now);
        }
        if ranks_changed || self.is_renamed {
            self.find_candidates();
        }
    }

    /// Heeds which paths these classes prefer, from the next [`refresh`](Self::refresh) on.
    pub(crate) fn steer(&mut self, classes: &[ClassConfig]) {
        let steered = |class: &ClassConfig| {
            let preference = class.paths.clone();
            (!preference.is_none()).then(|| Steered { preference, way: Way::default() })
        };
        self.steered = classes.iter().map(steered).collect();
        if self.steered.iter().all(Option::is_none) {
            self.steered.clear();
        }
        self.note_renamed();
    }

    /// A path has another name.
    pub(crate) fn note_renamed(&mut self) {
        self.is_renamed = true;
        self.changes += 1;
    }

    /// Where a packet of this class may go; nowhere, if it insists on paths of which none works.
    pub(crate) fn way(&self, class: ClassId) -> Way {
        match self.steered.get(class.index()) {
            Some(Some(steered)) => steered.way,
            Some(None) | None => Way { candidates: self.candidates, reserve: self.reserve },
        }
    }

    /// Whether packets of this class wait although others of this session need not.
    pub(crate) fn is_stuck(&self, class: ClassId) -> bool {
        !self.candidates.is_empty() && self.way(class).candidates.is_empty()
    }

    /// The first path from `start` on, and after the last one from the beginning, that has something to send.
    pub(crate) fn next_sender(&self, start: usize, now: Instant) -> Option<usize> {
        self.sending.next_due(start, now)
    }

    /// The paths that have something to do. `warm` says that the session has seen traffic of late.
    pub(crate) fn due(&mut self, warm: bool, now: Instant) -> Places {
        self.plan(warm, now);
        self.waking.due(now)
    }

    /// When a path has something to do. If a packet waits in the session, that may be to take it: `backlog` is its size
    /// on the wire.
    pub(crate) fn next_wake(&mut self, warm: bool, backlog: Option<u64>, now: Instant) -> Option<Instant> {
        self.plan(warm, now);
        let Some(backlog) = backlog else { return self.waking.first() };
        if backlog != self.backlog {
            self.backlog = backlog;
            self.unpaced = Places::first(self.paths.len());
        }
        for index in std::mem::take(&mut self.unpaced).iter() {
            self.pacing.set(index, self.paths[index].room_at(backlog, now));
        }
        // What has room and gets nothing waits for another path, or for an event.
        while let Some(index) = self.pacing.next_due(0, now) {
            self.pacing.set(index, None);
        }
        [self.waking.first(), self.pacing.first()].into_iter().flatten().min()
    }

    /// Tells paths that had room for what waits in the session, and were not asked: whoever drives the session was late, and
    /// what was not sent meanwhile is never made good.
    pub(crate) fn note_late(&mut self, now: Instant) {
        let Some(before) = now.checked_sub(BURST) else { return };
        while let Some(index) = self.pacing.next_due(0, before) {
            self.pacing.set(index, None);
            self.unpaced.insert(index);
            self.paths[index].note_late();
        }
    }

    /// When a wish about the use of a path should be told.
    pub(crate) fn next_wish(&self) -> Option<Instant> {
        self.wishing.first()
    }

    /// The paths of which frames have to travel on another one.
    pub(crate) fn carried(&self, now: Instant) -> Places {
        self.carried.with(self.wishing.due(now))
    }

    /// Whether any path works.
    pub(crate) fn is_any_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// The paths of the best rank that there is: those that may carry data.
    pub(crate) fn candidates(&self) -> Places {
        self.candidates
    }

    /// The secondary paths that stand beside primary candidates.
    pub(crate) fn reserve(&self) -> Places {
        self.reserve
    }

    /// The paths that may carry repairs.
    pub(crate) fn menders(&self) -> Places {
        self.candidates.with(self.reserve)
    }

    /// Those whose datagrams have become smaller.
    pub(crate) fn shrunk(&self) -> Places {
        self.shrunk
    }

    /// What the paths in use take: the candidates, and the reserve if that has been used of late.
    pub(crate) fn service(&mut self, now: Instant) -> Service {
        let is_relieved = self.relieved_at.is_some_and(|at| now < at + RELIEF);
        if is_relieved != self.is_relieved {
            (self.is_relieved, self.service) = (is_relieved, None);
        }
        if let Some(service) = self.service {
            return service;
        }
        let reserve = if is_relieved { self.reserve } else { Places::default() };
        let used =
            self.steered.iter().flatten().fold(self.candidates, |used, it| used.with(it.way.candidates));
        let service = self.service_of(used.with(reserve));
        self.service = Some(service);
        service
    }

    /// Whether a packet that has waited since `queued_at` in the session is one for the reserve, if the candidates have no room for it.
    pub(crate) fn is_overdue(&self, queued_at: Instant, now: Instant) -> bool {
        let in_paths = self.candidates.iter().map(|index| self.paths[index].outbox_time()).min();
        queued_at + self.patience() <= now + in_paths.unwrap_or_default()
    }

    /// When that is a reason to look again.
    pub(crate) fn overdue_at(&self, queued_at: Instant, now: Instant) -> Option<Instant> {
        if self.reserve.is_empty() {
            return None;
        }
        Some(queued_at + self.patience()).filter(|at| *at > now)
    }

    /// The reserve has taken a packet.
    pub(crate) fn note_relief(&mut self, now: Instant) {
        self.relieved_at = Some(now);
    }

    /// How long what waits does so for candidates alone: half as long as a queue may stand, so that no flow is told of a queue while
    /// the reserve has room.
    fn patience(&self) -> Duration {
        self.service_of(self.candidates).target() / 2
    }

    fn service_of(&self, places: Places) -> Service {
        let notes = || places.iter().map(|index| self.notes[index]);
        Service {
            round_trip: notes().filter_map(|note| note.round_trip).max().unwrap_or_default(),
            hold: notes().map(|note| note.lateness).max().unwrap_or_default(),
            rate: notes().map(|note| note.rate).fold(0, u64::saturating_add),
        }
    }

    /// There is nothing more for the candidates, and nothing at all for those that stand by: whatever else they send does not show
    /// what they carry.
    pub(crate) fn note_idle(&mut self, now: Instant) {
        if self.asked_at != Some(now) {
            (self.asked, self.asked_at) = (self.idle, Some(now));
        }
        for index in self.candidates.with(self.active).without(self.asked).iter() {
            self.asked.insert(index);
            if self.paths[index].note_idle(now) {
                self.idle.insert(index);
            }
        }
    }

    fn touch(&mut self, index: usize) {
        self.changes += 1;
        self.touched.insert(index);
        self.changed.insert(index);
        self.idle.remove(index);
        self.asked.remove(index);
        // What is behind may catch up, and what was not live may be behind.
        let is_behind = |horizon: Horizon| horizon.path == index || !self.paths[index].is_live();
        if self.horizon.is_some_and(is_behind) {
            self.horizon = None;
        }
    }

    /// The places are others.
    fn renumber(&mut self) {
        let count = self.paths.len();
        let paths = std::mem::take(&mut self.paths);
        *self = Self {
            ids: paths.iter().map(|path| path.id).collect(),
            paths,
            touched: Places::first(count),
            changed: Places::first(count),
            changes: self.changes + 1,
            notes: vec![Note::default(); count],
            warm: self.warm,
            backlog: self.backlog,
            relieved_at: self.relieved_at,
            steered: std::mem::take(&mut self.steered),
            is_renamed: true,
            sending: Soonest::new(count),
            waking: Soonest::new(count),
            pacing: Soonest::new(count),
            wishing: Soonest::new(count),
            ..Self::default()
        };
    }

    /// Finds out when the paths that were looked at have something to do: of those that send several times before the
    /// session sleeps that matters only once.
    fn plan(&mut self, warm: bool, now: Instant) {
        if warm != self.warm {
            self.warm = warm;
            self.unplanned = Places::first(self.paths.len());
        }
        while let Some(index) = self.unplanned.take_first() {
            self.waking.set(index, self.paths[index].wake_at(warm, now));
        }
    }

    /// Notes what has become of a path; says whether its rank is another one.
    fn look_at(&mut self, index: usize, now: Instant) -> bool {
        let path = &self.paths[index];
        self.sending.set(index, path.send_at(now));
        self.wishing.set(index, path.usage.repeat_at());
        let rate = path.bandwidth().unwrap_or_else(|| path.pacing_rate());
        let (round_trip, delay_us) = (path.rtt.smoothed(), path.received.largest_delay_us());
        let kinds = Kinds {
            active: path.state() == PathState::Active,
            live: path.is_live(),
            shrunk: path.mtu.has_shrunk(),
            carried: path.needs_carrier(),
        };
        let lateness = path.rtt.lateness();
        let peer_round_trip = path.peer_round_trip();
        let note = Note { kinds, rank: path.rank(), rate, round_trip, lateness, delay_us, peer_round_trip };
        let before = std::mem::replace(&mut self.notes[index], note);
        if kinds != before.kinds {
            self.active.set(index, kinds.active);
            self.live.set(index, kinds.live);
            self.shrunk.set(index, kinds.shrunk);
            self.carried.set(index, kinds.carried);
        }
        if (rate, round_trip) != (before.rate, before.round_trip) {
            self.service = None;
        }
        note.rank != before.rank
    }

    fn find_candidates(&mut self) {
        let best = self.notes.iter().filter_map(|note| note.rank).min();
        self.candidates = Places::default();
        self.reserve = Places::default();
        let is_primary = best.is_some_and(|rank| rank.is_active_of(Tier::Primary));
        for (index, note) in self.notes.iter().enumerate() {
            self.candidates.set(index, note.rank.is_some() && note.rank == best);
            let is_secondary = note.rank.is_some_and(|rank| rank.is_active_of(Tier::Secondary));
            self.reserve.set(index, is_primary && is_secondary);
        }
        let alone = self.candidates.only();
        for (index, path) in self.paths.iter_mut().enumerate() {
            path.set_alone(alone == Some(index));
        }
        self.changed = Places::first(self.paths.len());
        self.service = None;
        self.is_renamed = false;
        let (paths, notes) = (&self.paths, &self.notes);
        for Steered { preference, way } in self.steered.iter_mut().flatten() {
            let rank = |index: usize| class_rank(preference, &paths[index], &notes[index]);
            let best = (0..paths.len()).filter_map(rank).min();
            let is_best = |index: &usize| best.is_some() && rank(*index) == best;
            let relieves =
                |index: &usize| best.zip(rank(*index)).is_some_and(|(best, it)| best.is_relieved_by(it));
            way.candidates = (0..paths.len()).filter(is_best).collect();
            way.reserve = (0..paths.len()).filter(relieves).collect();
        }
    }
}

/// The rank of a path for a class; `None` if it carries nothing of that.
fn class_rank(preference: &PathPreference, path: &Path, note: &Note) -> Option<ClassRank> {
    let detour = preference.detour(&path.config.name);
    let may_take = !preference.strict || detour == Detour::None;
    note.rank.filter(|_| may_take).map(|rank| rank.for_class(detour))
}

impl Deref for Roster {
    type Target = [Path];

    fn deref(&self) -> &[Path] {
        &self.paths
    }
}

impl Index<usize> for Roster {
    type Output = Path;

    fn index(&self, index: usize) -> &Path {
        &self.paths[index]
    }
}

impl IndexMut<usize> for Roster {
    fn index_mut(&mut self, index: usize) -> &mut Path {
        self.touch(index);
        &mut self.paths[index]
    }
}

impl<'a> IntoIterator for &'a mut Roster {
    type Item = &'a mut Path;
    type IntoIter = std::slice::IterMut<'a, Path>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

// The paths on which something of the peer's may be on its way.

/// The live paths, and how long what they carry may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowest {
    /// How many there are.
    pub(crate) paths: usize,
    /// The largest one-way delay of late, microseconds on the session's relative scale.
    pub(crate) delay_us: Option<i32>,
    /// The longest round trip of what the peer sends.
    pub(crate) round_trip: Duration,
}

impl Slowest {
    fn add(&mut self, round_trip: Option<Duration>, delay_us: Option<i32>) {
        self.paths += 1;
        self.delay_us = self.delay_us.max(delay_us);
        self.round_trip = self.round_trip.max(round_trip.unwrap_or(INITIAL_RTT));
    }
}

/// The sender's clock at the sending of the newest datagram of the live path that is behind all others.
#[derive(Clone, Copy, Debug)]
struct Horizon {
    path: usize,
    sent_at_us: u32,
}

impl Roster {
    /// The first turn of what paths have been given and has not left yet. Paths that do not answer have none.
    pub(crate) fn first_turn(&self) -> Option<u64> {
        let active = self.paths.iter().filter(|path| path.rank().is_some_and(PathRank::is_active));
        active.filter_map(Path::first_turn).min()
    }

    /// The paths on which something may be on its way. One that has been quiet is among them: the peer may just have begun
    /// to use it.
    pub(crate) fn slowest(&self) -> Slowest {
        let mut slowest = Slowest::default();
        for note in self.live.without(self.touched).iter().map(|index| &self.notes[index]) {
            slowest.add(note.peer_round_trip, note.delay_us);
        }
        for path in self.touched.iter().map(|index| &self.paths[index]).filter(|path| path.is_live()) {
            slowest.add(path.peer_round_trip(), path.received.largest_delay_us());
        }
        slowest
    }

    /// The moment, by the peer's clock, from before which nothing is on its way any more: every path that is live has
    /// delivered something sent later.
    pub(crate) fn horizon(&mut self) -> Option<u32> {
        if self.horizon.is_none() {
            let newest =
                self.paths.iter().enumerate().filter(|(_, path)| path.is_live()).filter_map(|(at, path)| {
                    Some(Horizon { path: at, sent_at_us: path.received.newest_sent_at_us()? })
                });
            self.horizon =
                newest.min_by(|a, b| a.sent_at_us.wrapping_sub(b.sent_at_us).cast_signed().cmp(&0));
        }
        self.horizon.map(|horizon| horizon.sent_at_us)
    }
}
