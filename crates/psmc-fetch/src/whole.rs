//! The file in one answer, from one mirror after another: how long it is is not known before, or what several answers have is
//! not of one version.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use flate2::write::MultiGzDecoder;
use tokio::time::{sleep, timeout};

use super::FetchError;
use super::http::{Answer, Client, Connector, MirrorError, Piece};
use super::mirror::Mirror;
use super::part::{Part, hex};
use super::probe::is_decoded;
use super::{Clock, View, mirror};

/// How often a mirror is asked: all that has arrived is lost each time.
const ATTEMPTS: u32 = 3;

/// How long it is left alone after a failure.
const REST: Duration = Duration::from_millis(500);

/// After so long without a byte it has stalled.
const STALL: Duration = Duration::from_secs(15);

/// How often the user sees how far it is.
const SHOW: Duration = Duration::from_millis(200);

/// What is fetched in one answer, and from whom.
pub(super) struct Stream<'a> {
    pub(super) mirrors: &'a mut [Mirror],
    pub(super) connector: Arc<Connector>,
    pub(super) part: &'a Part,
    pub(super) clock: Clock,
}

/// What came of it.
pub(super) struct Streamed {
    /// Of the file, in bytes.
    pub(super) length: u64,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

/// Why there is no file of this mirror.
enum Failure {
    /// Another one may do.
    Mirror(MirrorError),
    /// None would.
    Fetch(FetchError),
}

/// A whole answer.
struct Received {
    length: u64,
    /// Of what was sent, in hexadecimal digits.
    sent_hash: String,
    /// Whether it was decompressed.
    is_decoded: bool,
    /// Whether its end is known to be one.
    has_end: bool,
}

impl Stream<'_> {
    /// Fetches the file, which is to have this SHA-256 if that is known.
    pub(super) async fn run(
        mut self,
        sha256: Option<&str>,
        stop: Pin<&mut impl Future<Output = ()>>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<Streamed, FetchError> {
        tokio::select! {
            result = self.fetch_from_any(sha256, show) => result,
            () = stop => Err(FetchError::Interrupted),
        }
    }

    async fn fetch_from_any(
        &mut self,
        sha256: Option<&str>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<Streamed, FetchError> {
        for index in 0..self.mirrors.len() {
            if !self.mirrors[index].is_streamed() {
                continue;
            }
            match self.fetch_from_one(index, sha256, show).await {
                Ok(streamed) => return Ok(streamed),
                Err(Failure::Fetch(error)) => return Err(error),
                Err(Failure::Mirror(_)) => self.mirrors[index].leave(self.clock.now()),
            }
        }
        Err(FetchError::AllFailed(mirror::problems(self.mirrors)))
    }

    async fn fetch_from_one(
        &mut self,
        index: usize,
        sha256: Option<&str>,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<Streamed, Failure> {
        let mut decodes = true;
        let mut attempt = 1;
        loop {
            let error = match self.receive(index, decodes, show).await {
                Ok(received) => match self.check(&received, sha256).await {
                    Ok(()) => return Ok(received.told(&self.mirrors[index], sha256.is_some())),
                    // What it sent is the file, in spite of what it said of it.
                    Err(Failure::Mirror(_)) if decodes && received.is_sent(sha256) => {
                        decodes = false;
                        continue;
                    }
                    Err(Failure::Mirror(error)) => error,
                    Err(failure) => return Err(failure),
                },
                Err(Failure::Mirror(error)) => error,
                Err(failure) => return Err(failure),
            };
            self.mirrors[index].failed(&error);
            if error.is_lasting() || attempt >= ATTEMPTS {
                return Err(Failure::Mirror(error));
            }
            attempt += 1;
            sleep(error.retry_after().unwrap_or(REST)).await;
        }
    }

    /// Receives all of the file from its beginning.
    async fn receive(
        &mut self,
        index: usize,
        decodes: bool,
        show: &mut dyn FnMut(&View<'_>),
    ) -> Result<Received, Failure> {
        self.part.begin_anew().map_err(Failure::Fetch)?;
        let mirror = &mut self.mirrors[index];
        mirror.begin_anew();
        mirror.join(Vec::new(), self.clock.now());
        let mut client = Client::new(Arc::clone(&self.connector), mirror.via.clone());
        let asked = timeout(STALL, client.get(&mirror.url.clone(), None)).await;
        let mut answer = asked.map_err(|_| MirrorError::Silent)??;
        if !matches!(answer.head.part, Piece::Whole) {
            return Err(MirrorError::WrongPart.into());
        }
        let is_decoded = decodes && is_decoded(&answer.url, &answer.head)?;
        let mut sink = Sink::new(self.part, is_decoded);
        let mut shown = self.clock.now();
        while let Some(bytes) = next(&mut answer).await? {
            let before = sink.written();
            sink.take(&bytes)?;
            self.mirrors[index].gave(sink.written() - before);
            if self.clock.now() >= shown + SHOW {
                shown = self.clock.now();
                let length = answer.head.length.filter(|_| !is_decoded);
                let (arrived, mirrors) = (sink.written(), &*self.mirrors);
                show(&View { length, arrived, mirrors, elapsed: shown });
            }
        }
        let before = sink.written();
        let (length, sent_hash) = sink.finish()?;
        self.mirrors[index].gave(length - before);
        Ok(Received { length, sent_hash, is_decoded, has_end: answer.head.has_end || is_decoded })
    }

    async fn check(&self, received: &Received, sha256: Option<&str>) -> Result<(), Failure> {
        let Some(wanted) = sha256 else { return Ok(()) };
        let found = if received.is_decoded {
            let part = self.part.clone();
            let hashed = tokio::task::spawn_blocking(move || part.hash()).await;
            hashed
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
                .map_err(Failure::Fetch)?
        } else {
            received.sent_hash.clone()
        };
        if found == wanted { Ok(()) } else { Err(MirrorError::Hash(found).into()) }
    }
}

impl Received {
    /// Whether what was sent has this SHA-256.
    fn is_sent(&self, sha256: Option<&str>) -> bool {
        Some(self.sent_hash.as_str()) == sha256
    }

    fn told(&self, mirror: &Mirror, is_checked: bool) -> Streamed {
        let mut notes = Vec::new();
        let url = mirror.url();
        if self.is_decoded {
            notes.push(format!(
                "{url} sent the file compressed, though it was asked not to: it is decompressed"
            ));
        }
        if !self.has_end && !is_checked {
            notes.push(format!(
                "{url} does not tell the file's end from a broken connection; check it with --sha256"
            ));
        }
        Streamed { length: self.length, notes }
    }
}

/// The next bytes of an answer.
async fn next(answer: &mut Answer) -> Result<Option<hyper::body::Bytes>, MirrorError> {
    timeout(STALL, answer.bytes()).await.map_err(|_| MirrorError::Stalled)?
}

/// Where an answer goes.
struct Sink {
    sent: Context,
    way: Way,
}

enum Way {
    Straight(Writer),
    Decompressed(Box<MultiGzDecoder<Writer>>),
}

/// The end of the part.
struct Writer {
    part: Part,
    at: u64,
    failure: Option<FetchError>,
}

impl Sink {
    fn new(part: &Part, is_decoded: bool) -> Self {
        let writer = Writer { part: part.clone(), at: 0, failure: None };
        let way = if is_decoded {
            Way::Decompressed(Box::new(MultiGzDecoder::new(writer)))
        } else {
            Way::Straight(writer)
        };
        Self { sent: Context::new(&SHA256), way }
    }

    fn written(&self) -> u64 {
        match &self.way {
            Way::Straight(writer) => writer.at,
            Way::Decompressed(decoder) => decoder.get_ref().at,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.sent.update(bytes);
        let taken = match &mut self.way {
            Way::Straight(writer) => writer.write_all(bytes),
            Way::Decompressed(decoder) => decoder.write_all(bytes),
        };
        taken.map_err(|error| self.failed(error))
    }

    /// How long the file is, and the SHA-256 of what was sent of it.
    fn finish(mut self) -> Result<(u64, String), Failure> {
        if let Way::Decompressed(decoder) = &mut self.way
            && let Err(error) = decoder.try_finish()
        {
            return Err(self.failed(error));
        }
        Ok((self.written(), hex(self.sent.finish().as_ref())))
    }

    fn failed(&mut self, error: io::Error) -> Failure {
        let writer = match &mut self.way {
            Way::Straight(writer) => writer,
            Way::Decompressed(decoder) => decoder.get_mut(),
        };
        match writer.failure.take() {
            Some(failure) => Failure::Fetch(failure),
            None => Failure::Mirror(MirrorError::Corrupt(error)),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(failure) = self.part.write(self.at, bytes) {
            self.failure = Some(failure);
            return Err(io::ErrorKind::Other.into());
        }
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<MirrorError> for Failure {
    fn from(error: MirrorError) -> Self {
        Self::Mirror(error)
    }
}
