//! The plan, carried out: orders go to lanes, bytes to the file.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::FetchError;
use super::http::{Connector, MirrorError, Proof, Version};
use super::journal::{Journal, Saver};
use super::lane::{Job, Lane, News, What};
use super::mirror::Mirror;
use super::part::Part;
use super::plan::{Order, Plan, Ranges, Serves, SourceId, Why};
use super::probe::{Gathering, Offer};
use super::{Clock, View, mirror};

/// How much news may wait while the disk is slow: a few megabytes. Then mirrors wait.
const NEWS: usize = 64;

/// How often the user sees how far it is.
const SHOW: Duration = Duration::from_millis(200);

/// How often what has arrived is written down: so much at most is fetched again when the machine goes down.
const SAVE: Duration = Duration::from_secs(3);

/// What is fetched.
pub(super) struct Chosen {
    pub(super) version: Version,
    /// By what it is known that mirrors have it.
    pub(super) proof: Proof,
    /// Its SHA-256 in hexadecimal digits, if that is known.
    pub(super) sha256: Option<String>,
    /// What is there of it.
    pub(super) done: Ranges,
    /// To each mirror.
    pub(super) connections: usize,
}

/// A download under way.
pub(super) struct Download<'a> {
    mirrors: &'a mut [Mirror],
    version: Version,
    proof: Proof,
    sha256: Option<String>,
    connections: usize,
    clock: Clock,
    part: &'a Part,
    connector: Arc<Connector>,
    gathering: Gathering,
    plan: Plan,
    /// By source.
    desks: Vec<Desk>,
    inbox: mpsc::Receiver<News>,
    outbox: mpsc::Sender<News>,
    tickets: u64,
    saver: Saver,
}

/// A source of the plan: a connection to a mirror, and what it does.
struct Desk {
    mirror: usize,
    lane: Option<Lane>,
    /// Of the job whose news count.
    ticket: Option<u64>,
    /// Where that job ends, for the mirror.
    end: u64,
}

impl<'a> Download<'a> {
    pub(super) fn new(
        mirrors: &'a mut [Mirror],
        chosen: Chosen,
        clock: Clock,
        part: &'a Part,
        connector: Arc<Connector>,
        gathering: Gathering,
    ) -> Self {
        let Chosen { version, proof, sha256, done, connections } = chosen;
        let (outbox, inbox) = mpsc::channel(NEWS);
        let plan = Plan::new(version.length, done);
        let mut download = Self {
            mirrors,
            version,
            proof,
            sha256,
            connections,
            clock,
            part,
            connector,
            gathering,
            plan,
            desks: Vec::new(),
            inbox,
            outbox,
            tickets: 0,
            saver: Saver::new(part),
        };
        for index in 0..download.mirrors.len() {
            download.join(index);
        }
        download
    }

    /// Until all has arrived, or no mirror works any more.
    pub(super) async fn run(
        &mut self,
        stop: Pin<&mut impl Future<Output = ()>>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<(), FetchError> {
        let result = self.carry_out(stop, show).await;
        self.desks.clear();
        // A complete file needs its journal too, until its hash has been checked.
        let journal = self.journal();
        let saved = self.saver.finish(journal).await;
        result.and(saved)
    }

    async fn carry_out(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<(), FetchError> {
        let mut shows = interval(SHOW);
        let mut saves = interval(SAVE);
        shows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        saves.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.obey();
            if self.plan.is_complete() {
                show(&self.view());
                return Ok(());
            }
            if self.gathering.is_over() && self.mirrors.iter().all(|mirror| !mirror.stayed()) {
                return Err(FetchError::AllFailed(mirror::problems(self.mirrors)));
            }
            let now = self.clock.now();
            let timeout = self.plan.poll_timeout(now).unwrap_or(now + SAVE);
            tokio::select! {
                Some(news) = self.inbox.recv() => self.hear(news)?,
                (index, answer) = self.gathering.next() => self.answered(index, answer),
                () = sleep_until(self.clock.at(timeout)) => {}
                _ = shows.tick() => show(&self.view()),
                _ = saves.tick() => self.save().await?,
                () = stop.as_mut() => return Err(FetchError::Interrupted),
            }
        }
    }

    fn view(&self) -> View<'_> {
        View {
            length: Some(self.version.length),
            arrived: self.plan.done().total(),
            mirrors: self.mirrors,
            elapsed: self.clock.now(),
        }
    }

    /// A mirror that was late has answered.
    fn answered(&mut self, index: usize, answer: Result<Offer, MirrorError>) {
        match answer {
            Ok(offer) => {
                self.mirrors[index].offer = Some(offer);
                self.join(index);
            }
            Err(error) => self.mirrors[index].refuse(&error),
        }
    }

    /// Lets a mirror take part, if it has the right version.
    fn join(&mut self, index: usize) {
        let mirror = &mut self.mirrors[index];
        let Some(version) = mirror.version() else {
            let reason = if mirror.has_nothing() { MirrorError::Nothing } else { MirrorError::NoLength };
            return if mirror.offer.is_some() {
                mirror.refuse(&reason)
            };
        };
        if !self.proof.agree(&self.version, version) {
            let differs = MirrorError::Differs(version.to_string());
            return mirror.refuse(&differs);
        }
        let serves = mirror.serves();
        let count = match serves {
            Serves::Parts => self.connections,
            Serves::Whole => 1,
        };
        let desks = &mut self.desks;
        let plan = &mut self.plan;
        let add = |_| {
            desks.push(Desk { mirror: index, lane: None, ticket: None, end: 0 });
            plan.add(serves)
        };
        let lanes = (0..count).map(add).collect();
        mirror.join(lanes, self.clock.now());
    }

    fn obey(&mut self) {
        let now = self.clock.now();
        while let Some(order) = self.plan.poll(now) {
            match order {
                Order::Fetch(id, range) => self.start(id, range),
                Order::Stop(id, why) => {
                    self.desks[id.0].stop();
                    let mirror = self.desks[id.0].mirror;
                    match why {
                        Why::Stalled => self.mirrors[mirror].failed(&MirrorError::Stalled),
                        Why::Robbed => {}
                    }
                    self.see_off(mirror);
                }
            }
        }
    }

    fn start(&mut self, id: SourceId, range: Range<u64>) {
        let desk = &mut self.desks[id.0];
        let mirror = &self.mirrors[desk.mirror];
        let Some(version) = mirror.version().cloned() else { return };
        self.tickets += 1;
        desk.ticket = Some(self.tickets);
        desk.end = range.end;
        let url = mirror.target().clone();
        let (ticket, proof, serves) = (self.tickets, self.proof, mirror.serves());
        let job = Job { ticket, url, range, version, proof, serves };
        let open = || Lane::open(id, &self.connector, mirror.via.clone(), &self.outbox);
        desk.lane.get_or_insert_with(open).give(job);
    }

    fn hear(&mut self, news: News) -> Result<(), FetchError> {
        let News { lane: id, ticket, what } = news;
        if self.desks[id.0].ticket != Some(ticket) {
            return Ok(());
        }
        let now = self.clock.now();
        match what {
            What::Bytes(bytes) => return self.receive(id, &bytes, now),
            What::Alive => drop(self.plan.take(id, 0, now)),
            What::Short => {
                self.desks[id.0].ticket = None;
                self.plan.fall_short(id, now);
            }
            What::Failed(error) => self.failed(id, &error, now),
        }
        Ok(())
    }

    fn receive(&mut self, id: SourceId, bytes: &[u8], now: Duration) -> Result<(), FetchError> {
        let taken = self.plan.take(id, bytes.len() as u64, now);
        let count = taken.range.end - taken.range.start;
        let desk = &mut self.desks[id.0];
        self.mirrors[desk.mirror].gave(count);
        if taken.is_last {
            desk.finish(taken.range.end);
        }
        let wanted = usize::try_from(count).ok().and_then(|count| bytes.get(..count)).unwrap_or(bytes);
        self.part.write(taken.range.start, wanted)
    }

    fn failed(&mut self, id: SourceId, error: &MirrorError, now: Duration) {
        let desk = &mut self.desks[id.0];
        desk.ticket = None;
        let index = desk.mirror;
        let mirror = &mut self.mirrors[index];
        mirror.failed(error);
        if matches!(error, MirrorError::NoParts) {
            self.make_whole(index, now);
        } else if error.is_lasting() {
            self.retire(index, now, 0);
        } else {
            self.plan.fail(id, error.retry_after(), now);
        }
        self.see_off(index);
    }

    /// A mirror serves no parts any more: one connection is left to it.
    fn make_whole(&mut self, index: usize, now: Duration) {
        self.retire(index, now, 1);
        let mirror = &mut self.mirrors[index];
        mirror.serves_all_only();
        if let Some(first) = mirror.lanes.first() {
            self.desks[first.0].stop();
            self.plan.fail(*first, None, now);
            self.plan.change(*first, Serves::Whole);
        }
    }

    /// Ends all connections to a mirror but the first few.
    fn retire(&mut self, index: usize, now: Duration, keep: usize) {
        for id in self.mirrors[index].lanes.iter().skip(keep) {
            self.plan.retire(*id, now);
            self.desks[id.0].stop();
        }
    }

    /// A mirror without any connection takes no part any more.
    fn see_off(&mut self, index: usize) {
        let mirror = &mut self.mirrors[index];
        if mirror.lanes.iter().all(|id| self.plan.is_retired(*id)) {
            mirror.leave(self.clock.now());
        }
    }

    async fn save(&mut self) -> Result<(), FetchError> {
        let journal = self.journal();
        self.saver.save(journal).await
    }

    /// What has arrived, and of which version.
    fn journal(&self) -> Journal {
        let same = |(_, version): &(String, &Version)| self.proof.agree(&self.version, version);
        let offers = self.mirrors.iter().filter_map(Mirror::named_version).filter(same);
        Journal::new(offers, self.sha256.clone(), self.plan.done())
    }
}

impl Desk {
    /// Its job is done. If the mirror was to send more, the connection is of no use.
    fn finish(&mut self, end: u64) {
        self.ticket = None;
        if end < self.end {
            self.lane = None;
        }
    }

    fn stop(&mut self) {
        self.ticket = None;
        self.lane = None;
    }
}
