//! What a mirror has to offer, found out before anything is asked of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::http::{Client, Connector, MirrorError, Part, Url, Version};
use super::plan::Serves;

/// A mirror that takes longer is of no use.
const ANSWER: Duration = Duration::from_secs(10);

/// How long it is left alone after each failure.
const RESTS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(6)];

/// What a mirror offers.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// Where the file is, after redirects.
    pub(super) target: Url,
    pub(super) version: Version,
    pub(super) serves: Serves,
}

/// Asks a mirror for the first byte of its file, several times if need be.
pub(super) async fn probe(connector: Arc<Connector>, url: Url) -> Result<Offer, MirrorError> {
    for rest in RESTS {
        match attempt(&connector, &url).await {
            Err(error) if !error.is_lasting() => sleep(rest).await,
            result => return result,
        }
    }
    attempt(&connector, &url).await
}

async fn attempt(connector: &Arc<Connector>, url: &Url) -> Result<Offer, MirrorError> {
    let mut client = Client::new(Arc::clone(connector));
    let answer = timeout(ANSWER, client.get(url, 0..1)).await.map_err(|_| MirrorError::Silent)??;
    let serves = match answer.head.part {
        Part::Range(Range { start: 0, end: 1 }) => Serves::Parts,
        Part::Range(_) => return Err(MirrorError::WrongPart),
        Part::Whole => Serves::Whole,
    };
    Ok(Offer { target: answer.url, version: answer.head.version, serves })
}
