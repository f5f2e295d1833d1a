//! A mirror: what it has said, what it has given, and what went wrong.

use std::time::Duration;

use super::http::{MirrorError, Url, Version};
use super::plan::{Serves, SourceId};
use super::probe::Offer;

/// A mirror.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(super) url: Url,
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
}

impl Mirror {
    pub(super) fn new(url: Url) -> Self {
        let lanes = Vec::new();
        Self { url, offer: None, lanes, bytes: 0, joined: None, left: None, failures: 0, problem: None }
    }

    /// It takes part with these connections.
    pub(super) fn join(&mut self, lanes: Vec<SourceId>, now: Duration) {
        self.lanes = lanes;
        self.joined = Some(now);
    }

    pub(super) fn gave(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn failed(&mut self, error: &MirrorError) {
        self.failures += 1;
        self.problem = Some(crate::error_chain(error));
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
        self.offer.as_ref().map_or(Serves::Parts, |offer| offer.serves)
    }

    pub(super) fn version(&self) -> Option<&Version> {
        self.offer.as_ref().map(|offer| &offer.version)
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
