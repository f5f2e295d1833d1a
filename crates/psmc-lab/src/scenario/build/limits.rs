//! Limits: of time, for everything happens between the beginning and the end; and against nonsense, far above what anybody
//! would write by hand.

use std::ops::Range;
use std::time::Duration;

use psmc_toml::Complaint;
use toml::Spanned;

use crate::scenario::draft::{Draft, Header};

/// Four times the thousand sites that the simulator is made for.
const MAX_LINKS: usize = 4096;

/// As many as links, so that each can have one; and far fewer than there are ports.
const MAX_TUNNELS: usize = 4096;

/// More processes than this are a matter for several machines.
const MAX_PROGRAMS: usize = 1000;

/// One for each site of a large simulation, and some.
const MAX_STREAMS: usize = 10_000;

/// One every few milliseconds of an ordinary scenario.
const MAX_EVENTS: usize = 10_000;

/// As many as there can be streams.
const MAX_CHECKS: usize = 10_000;

/// Twice what a thousand sites with two uplinks need. A real run gives the kernel each of them.
const MAX_ROUTES: usize = 2_000_000;

/// `None` if there is too much of anything: the rest would only take time.
pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) -> Option<()> {
    let before = out.len();
    at_most(MAX_LINKS, "links", &draft.links, |link| link.place.clone(), out);
    at_most(MAX_LINKS, "hosts", &draft.hosts, |host| host.place.clone(), out);
    at_most(MAX_TUNNELS, "tunnels", &draft.tunnels, |tunnel| tunnel.place.clone(), out);
    at_most(MAX_PROGRAMS, "programs", &draft.programs, |program| program.place.clone(), out);
    at_most(MAX_STREAMS, "streams of traffic", &draft.traffic, |stream| stream.place.clone(), out);
    at_most(MAX_EVENTS, "events", &draft.events, |event| event.place.clone(), out);
    at_most(MAX_CHECKS, "checks", &draft.checks, |check| check.place.clone(), out);
    (out.len() == before).then_some(())
}

/// `None` if the hosts need more routes than this.
pub(super) fn check_routes(count: usize, out: &mut Vec<Complaint>) -> Option<()> {
    if count > MAX_ROUTES {
        out.push(Complaint::new(
            format!("the hosts would need {count} routes, and {MAX_ROUTES} is the most"),
            "join fewer hosts by several links: one with a single link needs one route",
        ));
        return None;
    }
    Some(())
}

fn at_most<T>(
    most: usize,
    things: &str,
    all: &[T],
    place: impl Fn(&T) -> Range<usize>,
    out: &mut Vec<Complaint>,
) {
    if let Some(first) = all.get(most) {
        let reason = format!("the scenario has {} {things}; the limit is {most}", all.len());
        out.push(Complaint::new(reason, "remove those from here on").at(place(first)));
    }
}

/// When the scenario ends, and where the file says so.
pub(super) struct End {
    pub(super) at: Duration,
    place: Option<Range<usize>>,
}

impl End {
    pub(super) fn of(header: &Header) -> Self {
        Self { at: header.duration, place: header.duration_place.clone() }
    }

    /// The time, or a complaint that the scenario is over by then.
    pub(super) fn within(&self, time: &Spanned<Duration>, out: &mut Vec<Complaint>) -> Duration {
        let given = *time.get_ref();
        if given > self.at {
            let reason = format!("the scenario ends after {:?}, before that", self.at);
            let remedy = "choose an earlier time, or a longer `duration` in [scenario]";
            let complaint = Complaint::new(reason, remedy).at(time.span());
            out.push(match &self.place {
                Some(place) => complaint.because_of(place.clone(), "its duration"),
                None => complaint,
            });
        }
        given
    }

    /// From when to when something lasts: all of the time, unless the file says otherwise.
    pub(super) fn span(
        &self,
        start: Option<&Spanned<Duration>>,
        stop: Option<&Spanned<Duration>>,
        out: &mut Vec<Complaint>,
    ) -> [Duration; 2] {
        let from = start.map_or(Duration::ZERO, |start| self.within(start, out));
        let to = stop.map_or(self.at, |stop| self.within(stop, out));
        if let Some(place) = stop.or(start).filter(|_| from >= to && from < self.at.max(to)) {
            let complaint =
                Complaint::new("it ends before it has begun", "choose a later end, or an earlier beginning");
            out.push(complaint.at(place.span()));
        } else if let Some(start) = start.filter(|_| stop.is_none() && from == self.at) {
            let complaint = Complaint::new("it begins when the scenario ends", "choose an earlier time");
            out.push(complaint.at(start.span()));
        }
        [from, to]
    }
}
