//! What uplinks with a quota have carried, and what becomes of their paths.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Zoned;
use psmc_api::{QuotaStatus, Response};
use psmc_core::{PathError, PathTuning, PeerError, PeerId};
use psmc_wire::PathId;
use tokio::task::JoinHandle;

use super::DaemonError;
use super::control::Control;
use super::peers::Peers;
use super::plane::Plane;
use super::requests::Refusal;
use crate::config::{PathSettings, ValueError};
use crate::quota::ledger::{Ledger, Stage};
use crate::quota::store::Usage;
use crate::quota::{Quota, in_words};

/// What is written at the latest when so much was used: a quarter of what a crash may forget, as the next count and the writing take
/// their time.
const UNSAVED: u64 = 250_000;

/// What is not much is written after this time.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// Counts are no further apart. In that time a link of 40 Mb/s carries [`UNSAVED`].
const LONGEST: Duration = Duration::from_millis(50);

/// Counts are no closer together, which is enough for 400 Mb/s: a quota on a faster link is of many gigabytes.
const SHORTEST: Duration = Duration::from_millis(5);

/// What was used of quotas.
#[derive(Debug)]
pub(super) struct Quotas {
    file: PathBuf,
    /// By uplink, as all others here.
    of: BTreeMap<String, Quota>,
    usage: Usage,
    /// What paths had carried when they were last counted.
    seen: BTreeMap<(PeerId, PathId), u64>,
    /// What was said of each, and done about it.
    stages: BTreeMap<String, Stage>,
    counted_at: Option<Instant>,
    /// When they are counted again, if they were.
    next: Option<Instant>,
    unsaved: u64,
    saved_at: Option<Instant>,
    writing: Option<JoinHandle<io::Result<()>>>,
    /// Why what is used is kept in memory only.
    error: Option<String>,
    /// Whether the file is left alone, because nobody knows what stands in it.
    is_unknown: bool,
}

impl Quotas {
    /// Reads what was used. If that fails nobody is told before there is a quota.
    pub(super) fn new(file: PathBuf) -> Self {
        let read = Usage::read(&file);
        let error = read.as_ref().err().map(|error| format!("cannot read {}: {error}", file.display()));
        Self {
            file,
            of: BTreeMap::new(),
            is_unknown: read.is_err(),
            usage: read.unwrap_or_default(),
            seen: BTreeMap::new(),
            stages: BTreeMap::new(),
            counted_at: None,
            next: None,
            unsaved: 0,
            saved_at: None,
            writing: None,
            error,
        }
    }

    /// When paths are to be counted, if any has a quota.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.of.is_empty() { None } else { Some(self.next.unwrap_or_else(Instant::now)) }
    }

    /// Takes the quotas of all paths that there are, and of one that is about to be.
    pub(super) fn arrange(&mut self, peers: &Peers, new: Option<&PathSettings>) {
        let open = peers.iter().flat_map(|peer| &peer.paths).map(|path| &path.settings);
        let with_quota = open.chain(new).filter_map(|settings| Some((settings.uplink(), settings.quota?)));
        self.of = with_quota.collect();
    }

    /// Refuses a path whose uplink has another quota: it has one for all its paths.
    pub(super) fn check(&mut self, peers: &Peers, new: &PathSettings) -> Result<(), ValueError> {
        self.arrange(peers, None);
        let uplink = new.uplink();
        match (self.of.get(&uplink), new.quota) {
            (Some(quota), Some(other)) if *quota != other => {
                let reason = format!("the uplink {uplink} has another quota already: {quota}");
                Err(ValueError::new(reason, format!("give the path the same, {}, or none", quota.spelt())))
            }
            (None | Some(_), None | Some(_)) => Ok(()),
        }
    }

    /// So much was used of an uplink's quota in this period, whatever was counted. False if it has none.
    fn correct(&mut self, uplink: &str, used: u64, now: &Zoned) -> bool {
        let Some(quota) = self.of.get(uplink) else { return false };
        let ledger = self.usage.uplinks.entry(uplink.to_owned()).or_insert_with(|| Ledger::new(quota, now));
        ledger.correct(quota, used, now);
        true
    }

    /// What a path with these settings is to be like now.
    pub(super) fn tuning(&self, settings: &PathSettings) -> PathTuning {
        let plain = PathTuning {
            weight: Some(settings.weight.get()),
            max_rate: Some(settings.max_rate.map(|rate| rate.bits_per_second())),
            tier: Some(settings.tier),
            direction: Some(settings.direction),
        };
        let uplink = settings.uplink();
        let used_up = self.of.get(&uplink).filter(|quota| self.stage(&uplink, quota) == Stage::UsedUp);
        let Some(then) = used_up.map(|quota| quota.then) else { return plain };
        let rates = [settings.max_rate, then.rate()].into_iter().flatten();
        PathTuning {
            max_rate: Some(rates.map(|rate| rate.bits_per_second()).min()),
            tier: Some(settings.tier.max(then.tier())),
            ..plain
        }
    }

    /// How much of a quota is used; all is left in a period that has not been counted in.
    fn stage(&self, uplink: &str, quota: &Quota) -> Stage {
        let Some(mut ledger) = self.usage.uplinks.get(uplink).copied() else { return Stage::Left };
        ledger.charge(quota, 0, &Zoned::now());
        ledger.stage(quota)
    }

    /// What a path has carried since it was last counted.
    fn carried(&mut self, path: (PeerId, PathId), bytes: u64) -> u64 {
        let before = self.seen.insert(path, bytes).unwrap_or(0);
        // One that has begun anew has carried all of that since.
        bytes.checked_sub(before).unwrap_or(bytes)
    }

    /// Charges uplinks with what they have carried, and returns those for which something changes.
    fn charge(&mut self, carried: &BTreeMap<String, u64>, now: &Zoned) -> Vec<String> {
        let mut changed = Vec::new();
        for (uplink, quota) in &self.of {
            let bytes = carried.get(uplink).copied().unwrap_or(0);
            let ledger = self.usage.uplinks.entry(uplink.clone()).or_insert_with(|| Ledger::new(quota, now));
            let before = ledger.since;
            ledger.charge(quota, bytes, now);
            self.unsaved += bytes;
            let stage = ledger.stage(quota);
            let last = self.stages.insert(uplink.clone(), stage);
            if last == Some(stage) && before == ledger.since {
                continue;
            }
            // The first count after a start is told, too: people look there for what was used before it.
            report(uplink, quota, ledger, stage);
            changed.push(uplink.clone());
        }
        self.stages.retain(|uplink, _| self.of.contains_key(uplink));
        changed
    }

    /// Says before the first count that nobody knows what was used, if that is so.
    fn warn_of_unknown(&self) {
        if let (None, true, Some(error)) = (self.counted_at, self.is_unknown, &self.error) {
            tracing::warn!("{error}: what is used of quotas is counted from zero, and in memory");
        }
    }

    /// When to count again, after so many bytes.
    fn schedule(&mut self, most: u64, now: Instant) {
        let since = self.counted_at.map_or(LONGEST, |at| now.saturating_duration_since(at));
        // As if the rate stayed what it was.
        let wait = since.as_secs_f64() * UNSAVED as f64 / most.max(1) as f64;
        let wait = wait.clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64());
        self.counted_at = Some(now);
        self.next = Some(now + Duration::from_secs_f64(wait));
    }

    /// Has what is used written by another thread, if there is enough of it: a slow disk makes nobody wait.
    async fn save(&mut self, changed: bool, now: Instant) {
        if let Some(writing) = self.writing.take_if(|writing| writing.is_finished()) {
            let written = writing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            self.note_written(written);
        }
        let waited = self.saved_at.is_none_or(|at| at + SAVE_INTERVAL <= now);
        let enough = changed || self.unsaved >= UNSAVED || waited && self.unsaved > 0;
        if self.is_unknown || self.writing.is_some() || !enough {
            return;
        }
        self.unsaved = 0;
        self.saved_at = Some(now);
        let (file, usage) = (self.file.clone(), self.usage.clone());
        self.writing = Some(tokio::task::spawn_blocking(move || write(&file, &usage)));
    }

    fn note_written(&mut self, written: io::Result<()>) {
        let error = written.err().map(|error| format!("cannot write {}: {error}", self.file.display()));
        if let (Some(error), None) = (&error, &self.error) {
            tracing::warn!(
                "{error}: what is used of quotas is kept in memory, and forgotten when psmcd ends"
            );
        }
        if let (None, Some(_)) = (&error, &self.error) {
            tracing::info!("what is used of quotas is written again");
        }
        self.error = error;
    }

    /// Writes what is used, and waits until that is done.
    async fn finish(&mut self) {
        if let Some(writing) = self.writing.take() {
            // Whether it has succeeded is told by the next one.
            let _ = writing.await;
        }
        if !self.is_unknown && !self.of.is_empty() {
            let written = write(&self.file, &self.usage);
            self.note_written(written);
        }
    }

    /// What is used of the quota of a path, if its uplink has one.
    pub(super) fn status(&self, settings: &PathSettings) -> Option<QuotaStatus> {
        let uplink = settings.uplink();
        let quota = self.of.get(&uplink)?;
        let now = Zoned::now();
        let ledger = self.usage.uplinks.get(&uplink).copied().unwrap_or_else(|| Ledger::new(quota, &now));
        Some(QuotaStatus {
            bytes: quota.bytes,
            used_bytes: ledger.used,
            every: quota.every.as_str().to_owned(),
            day: u8::try_from(quota.day).unwrap_or(1),
            then: quota.then.to_string(),
            ends: ledger.ends(quota, now.time_zone()).map(|ends| ends.to_string()),
            used_up: ledger.stage(quota) == Stage::UsedUp,
            error: self.error.clone(),
        })
    }
}

/// Writes what is used, in a directory that may not be there yet.
fn write(file: &Path, usage: &Usage) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    usage.write(file)
}

fn report(uplink: &str, quota: &Quota, ledger: &Ledger, stage: Stage) {
    let (used, of, then) = (in_words(ledger.used), in_words(quota.bytes), quota.then.to_string());
    match stage {
        Stage::Left => tracing::info!(uplink, used, of, since = %ledger.since, "quota"),
        Stage::Low => tracing::warn!(uplink, used, of, then, "four fifths of the quota are used"),
        Stage::UsedUp => tracing::warn!(uplink, used, of, then, "the quota is used up"),
    }
}

impl Control {
    /// Counts what paths with a quota have carried.
    pub(super) async fn count_quotas(&mut self) -> Result<(), DaemonError> {
        self.quotas.arrange(&self.peers, None);
        self.quotas.warn_of_unknown();
        let carried = self.carried().await?;
        let now = Instant::now();
        self.quotas.schedule(carried.values().copied().max().unwrap_or(0), now);
        let changed = self.quotas.charge(&carried, &Zoned::now());
        for uplink in &changed {
            self.tune_uplink(uplink).await?;
        }
        self.quotas.save(!changed.is_empty(), now).await;
        Ok(())
    }

    /// Has so much used of the quota of a path's uplink, which its provider says.
    pub(super) async fn correct_quota(
        &mut self,
        peer: usize,
        path: &str,
        used: u64,
    ) -> Result<Response, Refusal> {
        let open = self.peers[peer].path_named(path);
        let open = open.ok_or_else(|| Refusal::of(&PeerError::from(PathError::Unknown)))?;
        let uplink = open.settings.uplink();
        // What was carried until now is part of what the provider says.
        self.count_quotas().await?;
        if !self.quotas.correct(&uplink, used, &Zoned::now()) {
            let reason = format!("the uplink {uplink} has no quota");
            return Err(ValueError::new(reason, "give one of its paths a `quota` first").into());
        }
        tracing::info!(uplink, used = in_words(used), "what was used of a quota was corrected");
        let changed = self.quotas.charge(&BTreeMap::new(), &Zoned::now());
        for uplink in &changed {
            self.tune_uplink(uplink).await?;
        }
        self.quotas.finish().await;
        let error = self.quotas.error.as_ref();
        Ok(error.map_or(Response::Ok, |error| Response::Noted {
            note: format!("corrected in memory only, and forgotten when psmcd ends: {error}"),
        }))
    }

    /// Counts for the last time.
    pub(super) async fn close_quotas(&mut self) {
        if self.quotas.next().is_some() && self.count_quotas().await.is_ok() {
            self.quotas.finish().await;
        }
    }

    /// What each uplink with a quota has carried since the last time.
    async fn carried(&mut self) -> Result<BTreeMap<String, u64>, DaemonError> {
        let paths = self.peers.iter().flat_map(|peer| peer.paths.iter().map(|path| (peer.id, path)));
        let counted = paths.map(|(peer, path)| (path.settings.uplink(), (peer, path.id)));
        let counted: Vec<_> = counted.filter(|(uplink, _)| self.quotas.of.contains_key(uplink)).collect();
        self.quotas.seen.retain(|path, _| counted.iter().any(|(_, counted)| counted == path));
        let paths: Vec<_> = counted.iter().map(|(_, path)| *path).collect();
        let read = move |plane: &mut Plane| {
            let carried = |(peer, path)| plane.path(peer, path).map(|path| path.carried());
            paths.into_iter().map(carried).collect::<Vec<_>>()
        };
        let bytes = self.plane.call(read).await?;
        let mut sums = BTreeMap::new();
        for ((uplink, path), bytes) in counted.into_iter().zip(bytes) {
            // Its peer may have removed it.
            let Some(bytes) = bytes else { continue };
            *sums.entry(uplink).or_insert(0) += self.quotas.carried(path, bytes);
        }
        Ok(sums)
    }

    /// Makes the paths of an uplink what they are to be by its quota.
    async fn tune_uplink(&mut self, uplink: &str) -> Result<(), DaemonError> {
        let paths = self.peers.iter().flat_map(|peer| peer.paths.iter().map(|path| (peer.id, path)));
        let tuned: Vec<_> = paths
            .filter(|(_, path)| path.settings.uplink() == uplink)
            .map(|(peer, path)| (peer, path.id, self.quotas.tuning(&path.settings)))
            .collect();
        self.plane
            .post(move |plane| {
                for (peer, path, tuning) in tuned {
                    if let Some(mut path) = plane.path(peer, path) {
                        path.reconfigure(tuning);
                    }
                }
            })
            .await
    }
}
