//! Connections to mirrors: each is a task that fetches one range after another.

use std::ops::Range;
use std::sync::Arc;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::http::{Answer, Client, Connector, MirrorError, Piece, Proof, Url, Version, Via};
use super::plan::{Serves, SourceId};
use super::probe::is_decoded;

/// A connection, which may be made anew.
#[derive(Debug)]
pub(super) struct Lane {
    jobs: mpsc::Sender<Job>,
    task: AbortHandle,
}

/// What a lane is to fetch.
#[derive(Debug)]
pub(super) struct Job {
    /// Goes with all news of it.
    pub(super) ticket: u64,
    pub(super) url: Url,
    pub(super) range: Range<u64>,
    /// What the mirror has said of the file before.
    pub(super) version: Version,
    pub(super) proof: Proof,
    pub(super) serves: Serves,
}

/// What a lane has to say. That a job is done is known by its bytes.
#[derive(Debug)]
pub(super) struct News {
    pub(super) lane: SourceId,
    pub(super) ticket: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The next bytes.
    Bytes(Bytes),
    /// Bytes have arrived that nobody wants.
    Alive,
    /// The answer was correct, and shorter than what was asked for.
    Short,
    Failed(MirrorError),
}

impl Lane {
    pub(super) fn open(
        id: SourceId,
        connector: &Arc<Connector>,
        via: Option<Via>,
        news: &mpsc::Sender<News>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(1);
        let worker = Worker { id, client: Client::new(Arc::clone(connector), via), news: news.clone() };
        Self { jobs, task: tokio::spawn(worker.run(queue)).abort_handle() }
    }

    /// Gives it a job. It must have done the one before: then there is always room.
    pub(super) fn give(&self, job: Job) {
        let given = self.jobs.try_send(job);
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Worker {
    id: SourceId,
    client: Client,
    news: mpsc::Sender<News>,
}

impl Worker {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(job) = jobs.recv().await {
            match self.fetch(&job).await {
                Ok(true) => {}
                Ok(false) => self.tell(&job, What::Short).await,
                Err(error) => {
                    self.client.close();
                    self.tell(&job, What::Failed(error)).await;
                }
            }
        }
    }

    /// Whether all arrived that was asked for.
    async fn fetch(&mut self, job: &Job) -> Result<bool, MirrorError> {
        let mut answer = self.client.get(&job.url, job.asked()).await?;
        let (mut unwanted, mut wanted) = job.fit(&answer)?;
        let is_all = wanted == job.range.end - job.range.start;
        while wanted > 0 {
            let mut bytes = answer.bytes().await?.ok_or(MirrorError::Short)?;
            let skipped = bytes.split_to(at_most(&bytes, unwanted));
            unwanted -= length(&skipped);
            bytes.truncate(at_most(&bytes, wanted));
            wanted -= length(&bytes);
            self.tell(job, if bytes.is_empty() { What::Alive } else { What::Bytes(bytes) }).await;
        }
        self.end(answer).await;
        Ok(is_all)
    }

    /// Keeps the connection if its answer is over.
    async fn end(&mut self, mut answer: Answer) {
        let is_over = !matches!(answer.head.part, Piece::Whole) && matches!(answer.bytes().await, Ok(None));
        if !is_over {
            self.client.close();
        }
    }

    async fn tell(&self, job: &Job, what: What) {
        // Nobody listens any more when the download is over.
        drop(self.news.send(News { lane: self.id, ticket: job.ticket, what }).await);
    }
}

impl Job {
    /// Of a mirror that only serves all of the file no part is asked for: some refuse that.
    fn asked(&self) -> Option<Range<u64>> {
        match self.serves {
            Serves::Parts => Some(self.range.clone()),
            Serves::Whole => None,
        }
    }

    /// How many bytes of an answer are to be thrown away first, and how many are wanted then.
    fn fit(&self, Answer { url, head, .. }: &Answer) -> Result<(u64, u64), MirrorError> {
        if !self.proof.is_still(&self.version, head) {
            let now = Version { length: head.length.unwrap_or(self.version.length), ..self.version.clone() };
            return Err(MirrorError::Changed(Version { modified: head.modified.clone(), ..now }.to_string()));
        }
        match (&head.part, self.serves) {
            (Piece::Range(got), _) if got.start == self.range.start && got.end <= self.range.end => {
                Ok((0, got.end - got.start))
            }
            (Piece::Range(_), _) => Err(MirrorError::WrongPart),
            (Piece::Whole, Serves::Whole) if is_decoded(url, head)? => {
                Err(MirrorError::Coding(head.coding.to_string()))
            }
            (Piece::Whole, Serves::Whole) => Ok((self.range.start, self.range.end - self.range.start)),
            (Piece::Whole, Serves::Parts) => Err(MirrorError::NoParts),
        }
    }
}

fn at_most(bytes: &Bytes, count: u64) -> usize {
    usize::try_from(count).map_or(bytes.len(), |count| bytes.len().min(count))
}

fn length(bytes: &Bytes) -> u64 {
    bytes.len() as u64
}
