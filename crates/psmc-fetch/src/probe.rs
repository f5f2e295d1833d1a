//! What mirrors have to offer: all are asked at once before anything is fetched, and most of them are right.

use std::future::pending;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::http::{Answer, Client, Coding, Connector, Head, MirrorError, Piece, Proof, Url, Version, Via};
use super::mirror::Mirror;
use super::plan::Serves;

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

/// Mirrors that have not answered yet.
#[derive(Debug)]
pub(super) struct Gathering {
    probes: JoinSet<(usize, Result<Offer, MirrorError>)>,
}

impl Gathering {
    pub(super) fn start(connector: &Arc<Connector>, mirrors: &[Mirror]) -> Self {
        let mut probes = JoinSet::new();
        for (index, mirror) in mirrors.iter().enumerate() {
            let (connector, url, via) = (Arc::clone(connector), mirror.url.clone(), mirror.via.clone());
            probes.spawn(async move { (index, probe(connector, url, via).await) });
        }
        Self { probes }
    }

    /// Until there is enough to decide which version of the file is meant: all have answered, or one has some time ago.
    pub(super) async fn settle(&mut self, mirrors: &mut [Mirror]) {
        while !mirrors.iter().any(|mirror| mirror.offer.is_some()) && !self.is_over() {
            self.note_next(mirrors).await;
        }
        let others = async {
            while !self.is_over() {
                self.note_next(mirrors).await;
            }
        };
        // Those that are late join later.
        drop(timeout(GRACE, others).await);
    }

    /// The next mirror that has answered: with an offer, or it is of no use. Never ready when all have.
    pub(super) async fn next(&mut self) -> (usize, Result<Offer, MirrorError>) {
        match self.probes.join_next().await {
            Some(Ok(answer)) => answer,
            // A probe that panics is a bug, of which the user has been told: its mirror has not answered.
            Some(Err(_)) | None => pending().await,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.probes.is_empty()
    }

    async fn note_next(&mut self, mirrors: &mut [Mirror]) {
        let (index, answer) = self.next().await;
        match answer {
            Ok(offer) => mirrors[index].offer = Some(offer),
            Err(error) => mirrors[index].refuse(&error),
        }
    }
}

/// The version that most mirrors have: the first of those that agree with it. `Err` if two are equally frequent.
pub(super) fn choose<'a>(versions: &[&'a Version], proof: Proof) -> Result<Option<&'a Version>, ()> {
    let votes = |version: &Version| versions.iter().filter(|other| proof.agree(version, other)).count();
    let Some(most) = versions.iter().map(|version| votes(version)).max() else { return Ok(None) };
    let mut winners = versions.iter().filter(|version| votes(version) == most);
    let Some(first) = winners.next() else { return Ok(None) };
    if winners.all(|other| proof.agree(first, other)) { Ok(Some(first)) } else { Err(()) }
}

/// Asks a mirror for the first byte of its file, several times if need be.
async fn probe(connector: Arc<Connector>, url: Url, via: Option<Via>) -> Result<Offer, MirrorError> {
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
        (Piece::Range(Range { start: 0, end: 1 }), Some(version)) => Offered::Version(version, Serves::Parts),
        (Piece::Range(Range { start: 0, end: 1 }), None) => measured(connector, &target, via, &head).await?,
        (Piece::Range(_), _) => return Err(MirrorError::WrongPart),
        (Piece::Whole, version) => whole(&target, &head, version)?,
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

async fn ask(
    connector: &Arc<Connector>,
    url: &Url,
    via: Option<&Via>,
    range: Option<Range<u64>>,
) -> Result<Answer, MirrorError> {
    let mut client = Client::new(Arc::clone(connector), via.cloned());
    timeout(ANSWER, client.get(url, range)).await.map_err(|_| MirrorError::Silent)?
}

/// A mirror that takes longer is of no use.
const ANSWER: Duration = Duration::from_secs(10);

/// How long it is left alone after each failure, if it does not say itself how long it wants to be.
const RESTS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(6)];

/// When one mirror has answered, the others have so much time to say something else about the file. Later ones may join, if
/// they have the same.
const GRACE: Duration = Duration::from_secs(2);

/// How the names of compressed files end.
const COMPRESSED: &[&str] = &[
    ".gz", ".tgz", ".taz", ".svgz", ".z", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".lzma", ".br", ".zst",
    ".tzst",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn version(length: u64, modified: Option<&str>) -> Version {
        Version { length, modified: modified.map(str::to_owned), etag: None }
    }

    #[test]
    fn most_mirrors_are_right() {
        let (old, new) = (version(1, Some("old")), version(2, Some("new")));
        let choose = |versions: &[&Version]| choose(versions, Proof::Words).map(Option::<&Version>::cloned);
        assert_eq!(choose(&[&old, &new, &new]), Ok(Some(new.clone())));
        assert_eq!(choose(&[&old, &new]), Err(()));
        assert_eq!(choose(&[&old]), Ok(Some(old.clone())));
        assert_eq!(choose(&[]), Ok(None));
    }

    #[test]
    fn a_known_hash_makes_times_unimportant() {
        let (old, new) = (version(1, Some("old")), version(1, Some("new")));
        assert_eq!(choose(&[&old, &new], Proof::Words), Err(()));
        assert_eq!(choose(&[&old, &new], Proof::Hash), Ok(Some(&old)));
    }
}
