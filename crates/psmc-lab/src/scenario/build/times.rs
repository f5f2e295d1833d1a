//! Everything happens between the beginning and the end.

use std::ops::Range;
use std::time::Duration;

use psmc_toml::Complaint;
use toml::Spanned;

use crate::scenario::draft::Header;

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
