//! What a mirror has to offer, found out before anything is asked of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::http::{Answer, Client, Coding, Connector, Head, MirrorError, Part, Url, Version, Via};
use super::plan::Serves;

/// A mirror that takes longer is of no use.
const ANSWER: Duration = Duration::from_secs(10);

/// How long it is left alone after each failure, if it does not say itself how long it wants to be.
const RESTS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(6)];

/// What a mirror offers.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// Where the file is, after redirects.
    pub(super) target: Url,
    pub(super) file: Offered,
}

/// What is known of the file before it is fetched.
#[derive(Clone, Debug)]
pub(super) enum Offered {
    /// How long it is, so that it can be fetched from several mirrors.
    Version(Version, Serves),
    /// That it comes in one answer, the end of which is its end.
    Stream,
    /// That there is nothing in it: of no byte of it a part can be had, nor all of it.
    Nothing,
}

/// Asks a mirror for the first byte of its file, several times if need be.
pub(super) async fn probe(
    connector: Arc<Connector>,
    url: Url,
    via: Option<Via>,
) -> Result<Offer, MirrorError> {
    for rest in RESTS {
        match attempt(&connector, &url, via.as_ref()).await {
            Err(error) if !error.is_lasting() && !error.is_about_the_interface() => {
                sleep(error.retry_after().unwrap_or(rest)).await
            }
            result => return result,
        }
    }
    attempt(&connector, &url, via.as_ref()).await
}

async fn attempt(connector: &Arc<Connector>, url: &Url, via: Option<&Via>) -> Result<Offer, MirrorError> {
    let answer = match ask(connector, url, via, Some(0..1)).await {
        // Whoever has no ranges should pass over them (RFC 9110, section 14.2); not all do.
        Err(error) if error.is_about_the_range() => match ask(connector, url, via, None).await {
            Err(again) if error.is_unsatisfiable() && again.is_unsatisfiable() => {
                return Ok(Offer { target: url.clone(), file: Offered::Nothing });
            }
            answer => answer?,
        },
        answer => answer?,
    };
    let Answer { url: target, head, .. } = answer;
    let file = match (&head.part, head.version()) {
        (Part::Range(Range { start: 0, end: 1 }), Some(version)) => Offered::Version(version, Serves::Parts),
        (Part::Range(Range { start: 0, end: 1 }), None) => measured(connector, &target, via, &head).await?,
        (Part::Range(_), _) => return Err(MirrorError::WrongPart),
        (Part::Whole, version) => whole(&target, &head, version)?,
    };
    Ok(Offer { target, file })
}

/// A file whose length no part of it says (`bytes 0-0/*`; RFC 9110, section 14.4): all of it may.
async fn measured(
    connector: &Arc<Connector>,
    url: &Url,
    via: Option<&Via>,
    part: &Head,
) -> Result<Offered, MirrorError> {
    let Answer { head, .. } = ask(connector, url, via, None).await?;
    let Some(version) = head.version().filter(|_| head.coding == part.coding) else {
        return Ok(Offered::Stream);
    };
    Ok(Offered::Version(version, Serves::Parts))
}

/// What an answer with all of the file offers.
fn whole(url: &Url, head: &Head, version: Option<Version>) -> Result<Offered, MirrorError> {
    match (is_decoded(url, head)?, version) {
        (false, Some(version)) => Ok(Offered::Version(version, Serves::Whole)),
        (true, _) | (false, None) => Ok(Offered::Stream),
    }
}

/// Whether an answer with all of the file is to be decompressed, to be the file.
///
/// Servers also call the coding of an answer what the file is by itself, such as the one of `a.tar.gz`: that is left as it
/// is, as browsers do.
pub(super) fn is_decoded(url: &Url, head: &Head) -> Result<bool, MirrorError> {
    let name = url.file_name().unwrap_or_default().to_ascii_lowercase();
    let is_compressed = COMPRESSED.iter().any(|end| name.ends_with(end));
    match &head.coding {
        Coding::Identity => Ok(false),
        Coding::Gzip | Coding::Other(_) if is_compressed => Ok(false),
        Coding::Gzip => Ok(true),
        Coding::Other(name) => Err(MirrorError::Coding(name.clone())),
    }
}

/// How the names of compressed files end.
const COMPRESSED: &[&str] = &[
    ".gz", ".tgz", ".taz", ".svgz", ".z", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".lzma", ".br", ".zst",
    ".tzst",
];

async fn ask(
    connector: &Arc<Connector>,
    url: &Url,
    via: Option<&Via>,
    range: Option<Range<u64>>,
) -> Result<Answer, MirrorError> {
    let mut client = Client::new(Arc::clone(connector), via.cloned());
    timeout(ANSWER, client.get(url, range)).await.map_err(|_| MirrorError::Silent)?
}
