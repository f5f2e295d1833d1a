//! `psmc-fetch`: one file from several mirrors at once, by byte ranges (PSMC ch. V, section 7).
//!
//! | module | what it has |
//! |---|---|
//! | `cli` | the command line |
//! | `plan` | which connection fetches which bytes: a state machine without I/O |
//! | `http` | requests, redirects, TLS, and what the heads of answers say |
//! | `probe` | what mirrors offer, and which version of the file most of them have |
//! | `lane` | connections, as tasks |
//! | `download` | what joins them |
//! | `whole` | the file in one answer, where it cannot be had in parts |
//! | `part`, `journal` | the file while it is fetched, and what a later run needs to go on |

pub mod cli;
mod download;
mod http;
mod journal;
mod lane;
mod mirror;
mod part;
mod plan;
mod probe;
mod whole;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use download::{Chosen, Download};
use http::{Connector, Proof, Version};
pub(crate) use http::{Url, Via};
pub(crate) use mirror::Mirror;
use part::Part;
use plan::Ranges;
use probe::Gathering;
use whole::Stream;

pub(crate) use psmc_service::error_chain;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The same file at each of them.
    pub(crate) urls: Vec<Url>,
    /// By which ways each of them is asked, all at once; by that of the routes, if there are none.
    pub(crate) ways: Vec<Via>,
    /// Where it goes.
    pub(crate) output: PathBuf,
    /// The SHA-256 that it must have, in lower-case hexadecimal digits.
    pub(crate) sha256: Option<String>,
    /// To each mirror: while one waits for the answer to its next request, the other keeps the way busy.
    pub(crate) connections: usize,
    /// Whether what a run before this one has left is thrown away.
    pub(crate) restart: bool,
}

/// How far a download is.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// Of the file, in bytes, if it is known.
    pub(crate) length: Option<u64>,
    /// What is there of it.
    pub(crate) arrived: u64,
    pub(crate) mirrors: &'a [Mirror],
    /// Since the start.
    pub(crate) elapsed: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Of the file, in bytes, if it is known.
    pub(crate) length: Option<u64>,
    /// What of it was there before.
    pub(crate) resumed: u64,
    pub(crate) mirrors: Vec<Mirror>,
    /// From the first question to the last byte.
    pub(crate) elapsed: Duration,
    /// What the user should know although it did not prevent the download.
    pub(crate) notes: Vec<String>,
    /// Whether the file is there.
    pub(crate) result: Result<(), FetchError>,
}

/// Why there is no file. Mirrors that fail are no reason as long as one works.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{} exists; remove it, or name another file with --output", .0.display())]
    Exists(PathBuf),
    #[error("{} is in use; is another psmc downloading it?", .0.display())]
    InUse(PathBuf),
    #[error("{} is too long a name for this file system; name a shorter one with --output", .0.display())]
    TooLong(PathBuf),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no mirror has the file:\n{0}")]
    NoMirror(String),
    #[error("all mirrors have failed; run the same command again to resume:\n{0}")]
    AllFailed(String),
    #[error(
        "the mirrors have different versions of the file, and none has a majority; give only \
         mirrors of the one that you want:\n{0}"
    )]
    Disagree(String),
    #[error(
        "the file is not the one you want: its SHA-256 is {found}. It is kept as {}; if the mirrors are wrong, add \
         --restart to fetch it anew from others", part.display()
    )]
    Hash { found: String, part: PathBuf },
    #[error("interrupted; run the same command again to resume")]
    Interrupted,
}

/// Fetches a file, and ends when it is there, when that is not possible, or with `stop`.
pub(crate) async fn fetch(
    wanted: &Wanted,
    stop: impl Future<Output = ()>,
    show: &mut dyn FnMut(&View<'_>),
) -> Fetched {
    let stop = pin!(stop);
    let mirrors = mirrors(wanted);
    let mut fetched = Fetched {
        length: None,
        resumed: 0,
        mirrors,
        elapsed: Duration::ZERO,
        notes: Vec::new(),
        result: Ok(()),
    };
    fetched.result = fetched.run(wanted, stop, show).await;
    fetched
}

/// Each of them by each way.
fn mirrors(wanted: &Wanted) -> Vec<Mirror> {
    let ways: Vec<_> = wanted.ways.iter().cloned().map(Some).collect();
    let ways = if ways.is_empty() { vec![None] } else { ways };
    let by_all = |url: &Url| ways.iter().map(|via| Mirror::new(url.clone(), via.clone())).collect::<Vec<_>>();
    wanted.urls.iter().flat_map(by_all).collect()
}

impl Fetched {
    async fn run(
        &mut self,
        wanted: &Wanted,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<(), FetchError> {
        let clock = Clock(Instant::now());
        let part = Part::open(&wanted.output)?;
        let connector = Arc::new(Connector::default());
        let mut gathering = Gathering::start(&connector, &self.mirrors);
        tokio::select! {
            () = gathering.settle(&mut self.mirrors) => {}
            () = stop.as_mut() => {
                part.discard_if_new();
                return Err(FetchError::Interrupted);
            }
        }
        let proof = if wanted.sha256.is_some() { Proof::Hash } else { Proof::Words };
        let version = self.choose(proof).inspect_err(|_| part.discard_if_new())?;
        let result = match version {
            Some(version) => {
                self.length = Some(version.length);
                let done = self.take_up(wanted, &part, &version, proof);
                self.resumed = done.total();
                part.set_length(version.length)?;
                let (sha256, connections) = (wanted.sha256.clone(), wanted.connections);
                let chosen = Chosen { version, proof, sha256, done, connections };
                let connector = Arc::clone(&connector);
                let mut download =
                    Download::new(&mut self.mirrors, chosen, clock, &part, connector, gathering);
                let result = download.run(stop.as_mut(), show).await;
                self.elapsed = clock.now();
                result
            }
            None => Err(FetchError::NoMirror(mirror::problems(&self.mirrors))),
        };
        match result {
            Err(FetchError::AllFailed(_) | FetchError::NoMirror(_))
                if self.mirrors.iter().any(Mirror::is_streamed) =>
            {
                let stream = Stream { mirrors: &mut self.mirrors, connector, part: &part, clock };
                let streamed = stream.run(wanted.sha256.as_deref(), stop, show).await;
                self.elapsed = clock.now();
                // There is no going on with what has arrived: the next run begins anew.
                let streamed = streamed.inspect_err(|_| part.discard_if_new())?;
                (self.length, self.resumed) = (Some(streamed.length), 0);
                self.notes.extend(streamed.notes);
            }
            Err(FetchError::NoMirror(_)) if self.mirrors.iter().any(Mirror::has_nothing) => {
                part.begin_anew()?;
                self.length = Some(0);
                self.notes.push("the mirror says that there is nothing in the file: it is empty".to_owned());
            }
            other => other.inspect_err(|error| {
                if matches!(error, FetchError::NoMirror(_)) {
                    part.discard_if_new();
                }
            })?,
        }
        finish(part, wanted.sha256.clone()).await
    }

    /// The version of the file that most mirrors have, if it is known of any. By how many ways a mirror is reached does not
    /// count.
    fn choose(&self, proof: Proof) -> Result<Option<Version>, FetchError> {
        let mut votes: Vec<(&Url, &Version)> = Vec::new();
        for mirror in &self.mirrors {
            let Some(version) = mirror.version() else { continue };
            let has_voted =
                |(url, other): &(&Url, &Version)| *url == mirror.url() && proof.agree(version, other);
            if !votes.iter().any(has_voted) {
                votes.push((mirror.url(), version));
            }
        }
        let versions: Vec<_> = votes.iter().map(|(_, version)| *version).collect();
        match probe::choose(&versions, proof) {
            Ok(version) => Ok(version.cloned()),
            Err(()) => Err(FetchError::Disagree(mirror::versions(&self.mirrors))),
        }
    }

    /// What a run before this one has left of that version.
    fn take_up(&mut self, wanted: &Wanted, part: &Part, version: &Version, proof: Proof) -> Ranges {
        let Some(journal) = part.journal().filter(|_| !wanted.restart) else { return Ranges::default() };
        let offers = self.mirrors.iter().filter_map(Mirror::named_version);
        let offers = offers.filter(|(_, offered)| proof.agree(version, offered));
        journal.done(offers, wanted.sha256.as_deref()).unwrap_or_else(|| {
            let path = part.path().display();
            self.notes
                .push(format!("{path} is of another version of the file: it is fetched from the start"));
            Ranges::default()
        })
    }
}

async fn finish(part: Part, sha256: Option<String>) -> Result<(), FetchError> {
    let finished = tokio::task::spawn_blocking(move || {
        let found = sha256.as_ref().map(|_| part.hash()).transpose()?;
        match found {
            Some(found) if Some(&found) != sha256.as_ref() => {
                Err(FetchError::Hash { found, part: part.path().to_owned() })
            }
            Some(_) | None => part.finish(),
        }
    });
    finished.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Time since the start.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Duration {
        self.0.elapsed()
    }

    fn at(self, time: Duration) -> Instant {
        self.0 + time
    }
}
