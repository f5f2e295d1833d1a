//! A mirror: what it has said, what it has given, and what went wrong; and lines that say so to people.

use std::time::Duration;

use super::http::{MirrorError, Url, Version, Via};
use super::plan::{Serves, SourceId};
use super::probe::{Offer, Offered};

/// A mirror, by one way that leads there.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(super) url: Url,
    /// By which way this machine reaches it; wherever routes lead, if that is `None`.
    pub(super) via: Option<Via>,
    pub(super) offer: Option<Offer>,
    /// Its connections.
    pub(super) lanes: Vec<SourceId>,
    /// What of the file has come from it in this run.
    bytes: u64,
    joined: Option<Duration>,
    /// When it was left out.
    left: Option<Duration>,
    /// How often it has failed, and how the last time.
    failures: u32,
    problem: Option<String>,
    /// Whether the last failure was that it has another version than before.
    is_fickle: bool,
}

impl Mirror {
    pub(super) fn new(url: Url, via: Option<Via>) -> Self {
        Self {
            url,
            via,
            offer: None,
            lanes: Vec::new(),
            bytes: 0,
            joined: None,
            left: None,
            failures: 0,
            problem: None,
            is_fickle: false,
        }
    }

    /// It takes part with these connections.
    pub(super) fn join(&mut self, lanes: Vec<SourceId>, now: Duration) {
        self.lanes = lanes;
        self.joined = Some(now);
        self.left = None;
    }

    /// What has come of it is thrown away.
    pub(super) fn begin_anew(&mut self) {
        self.bytes = 0;
    }

    pub(super) fn gave(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn failed(&mut self, error: &MirrorError) {
        self.failures += 1;
        self.problem = Some(crate::error_chain(error));
        self.is_fickle = matches!(error, MirrorError::Changed(_));
    }

    /// It never takes part.
    pub(super) fn refuse(&mut self, error: &MirrorError) {
        self.failed(error);
        self.left = Some(Duration::ZERO);
    }

    /// It takes no part any more.
    pub(super) fn leave(&mut self, now: Duration) {
        self.left.get_or_insert(now);
    }

    pub(super) fn serves(&self) -> Serves {
        match self.offer.as_ref().map(|offer| &offer.file) {
            Some(Offered::Version(_, serves)) => *serves,
            Some(Offered::Stream | Offered::Nothing) | None => Serves::Parts,
        }
    }

    /// It serves no parts any more.
    pub(super) fn serves_all_only(&mut self) {
        if let Some(Offer { file: Offered::Version(_, serves), .. }) = &mut self.offer {
            *serves = Serves::Whole;
        }
    }

    pub(super) fn version(&self) -> Option<&Version> {
        match &self.offer.as_ref()?.file {
            Offered::Version(version, _) => Some(version),
            Offered::Stream | Offered::Nothing => None,
        }
    }

    /// Whether it has the file in one answer, and no other way of it is known that would be of use.
    pub(super) fn is_streamed(&self) -> bool {
        let is_stream = self.offer.as_ref().is_some_and(|offer| matches!(offer.file, Offered::Stream));
        is_stream || self.is_fickle
    }

    /// Whether it says that there is nothing in the file.
    pub(super) fn has_nothing(&self) -> bool {
        self.offer.as_ref().is_some_and(|offer| matches!(offer.file, Offered::Nothing))
    }

    /// With the URL, by which it is known in another run.
    pub(super) fn named_version(&self) -> Option<(String, &Version)> {
        Some((self.url.to_string(), self.version()?))
    }

    /// Where to ask: after a failure not where it was redirected to, which may have ceased to be right.
    pub(super) fn target(&self) -> &Url {
        match &self.offer {
            Some(offer) if self.failures == 0 => &offer.target,
            Some(_) | None => &self.url,
        }
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn via(&self) -> Option<&Via> {
        self.via.as_ref()
    }

    /// What of the file has come from it in this run.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// For how long it took part, in a run that ended then.
    pub(crate) fn time(&self, end: Duration) -> Duration {
        let joined = self.joined.unwrap_or(end);
        self.left.unwrap_or(end).saturating_sub(joined)
    }

    /// Whether it was asked until the end.
    pub(crate) fn stayed(&self) -> bool {
        self.joined.is_some() && self.left.is_none()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// What went wrong, the last time that something did.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// What went wrong with each.
pub(super) fn problems(mirrors: &[Mirror]) -> String {
    let problem = |mirror: &Mirror| mirror.problem().unwrap_or("timed out waiting for a response").to_owned();
    lines(mirrors, problem)
}

/// What each has.
pub(super) fn versions(mirrors: &[Mirror]) -> String {
    let version = |mirror: &Mirror| match (mirror.version(), mirror.problem()) {
        (Some(version), _) => version.to_string(),
        (None, problem) => problem.unwrap_or("no answer yet").to_owned(),
    };
    lines(mirrors, version)
}

fn lines(mirrors: &[Mirror], what: impl Fn(&Mirror) -> String) -> String {
    let line = |mirror: &Mirror| {
        let via = mirror.via().map_or_else(String::new, |via| format!(" by {via}"));
        format!("  {}{via}: {}", mirror.url(), what(mirror))
    };
    mirrors.iter().map(line).collect::<Vec<_>>().join("\n")
}
