//! The grants that a site shows to relays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use psmc_core::PeerId;
use psmc_net::keys::PublicKey;
use psmc_toml::ValueError;
use psmc_wire::relay::SignedGrant;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::gateway::MAX_ADDED;
use crate::config::{read_grant, read_grants};

/// Most grants that can come at once: two for each relay, an old one and a new one.
const MAX_LEARNED: usize = 2 * MAX_ADDED;

/// A file that takes longer to read is on a disk that does not answer.
const READ_TIME: Duration = Duration::from_secs(1);

/// What grants came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon) enum GrantsFor {
    /// Learned routes to a peer.
    Routes(PeerId),
    /// Registrations.
    Registrations,
}

/// A file of grants, read for each connection to a relay: so what changes there counts from the next one on. And those that
/// were learned. Clones are of the same ones.
#[derive(Clone)]
pub(in crate::daemon) struct Grants {
    file: Arc<Mutex<Option<PathBuf>>>,
    site: PublicKey,
    /// Those that came with what was learned while the site runs.
    learned: Arc<Mutex<BTreeMap<GrantsFor, Vec<SignedGrant>>>>,
    /// What was wrong with it the last time, which has been said.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Grants {
    /// The grants of the site with this key.
    pub(in crate::daemon) fn new(file: Option<PathBuf>, site: PublicKey) -> Self {
        Self { file: Arc::new(Mutex::new(file)), site, learned: Arc::default(), complaint: Arc::default() }
    }

    /// Reads this file from now on.
    pub(in crate::daemon) fn set_file(&self, file: Option<PathBuf>) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// What to show to the relay with this key, read beside all else; nothing if the file's disk does not answer.
    pub(super) async fn read(&self, relay: PublicKey) -> Option<SignedGrant> {
        let grants = self.clone();
        let read = timeout(READ_TIME, spawn_blocking(move || grants.of(relay))).await;
        if read.is_err() {
            self.note(Some("timed out reading the grants file: is its disk responding?"));
        }
        read.ok().and_then(Result::ok).flatten()
    }

    /// Of the grants for the relay with this key the one that counts the longest.
    fn of(&self, relay: PublicKey) -> Option<SignedGrant> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = file.as_deref().map_or_else(|| Ok(Vec::new()), read_grants);
        self.note(read.as_ref().err().map(|error| error.reason()));
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_for = |grant: &SignedGrant| {
            grant.grant.relay.0 == *relay.as_bytes() && grant.grant.site.0 == *self.site.as_bytes()
        };
        let read = read.unwrap_or_default();
        let all = read.iter().chain(learned.values().flatten());
        all.filter(|grant| is_for(grant)).max_by_key(|grant| grant.grant.expires_s).cloned()
    }

    /// Shows these, lines of text, from now on; they take the place of those that came for the same before.
    pub(in crate::daemon) fn put(&self, what: GrantsFor, lines: &[String]) -> Result<(), ValueError> {
        if lines.len() > MAX_LEARNED {
            let reason = format!("{} grants are too many: {MAX_LEARNED} can be given", lines.len());
            return Err(ValueError::new(reason, "give one for each relay"));
        }
        let read = |(number, line): (usize, &String)| read_grant(line, &format!("grant {number}"));
        let grants = (1..).zip(lines).map(read).collect::<Result<Vec<_>, _>>()?;
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).insert(what, grants);
        Ok(())
    }

    /// Shows those no more that came for this.
    pub(in crate::daemon) fn forget(&self, what: GrantsFor) {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).remove(&what);
    }

    /// Says aloud what is wrong, once.
    fn note(&self, complaint: Option<&str>) {
        let mut known = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != complaint {
            if let Some(complaint) = complaint {
                tracing::warn!(complaint, "no grants");
            }
            *known = complaint.map(str::to_owned);
        }
    }
}

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;
    use psmc_wire::ids::KeyBytes;
    use psmc_wire::relay::Grant;

    use super::*;
    use crate::config::grant_text;

    fn grant(relay: PublicKey, site: PublicKey, expires_s: u64) -> SignedGrant {
        let (relay, site) = (KeyBytes(*relay.as_bytes()), KeyBytes(*site.as_bytes()));
        let grant = Grant { relay, site, expires_s, sessions: 3, max_rate: None, gateway: false };
        SignedGrant { grant, signature: [5; 64] }
    }

    #[test]
    fn a_relay_is_shown_its_longest_grant_as_the_file_is_by_then() {
        let [relay, other, site, stranger] = [(); 4].map(|()| PrivateKey::generate().public());
        let file = tempfile::NamedTempFile::new().unwrap();
        let grants = Grants::new(Some(file.path().to_owned()), site);
        assert_eq!(grants.of(relay), None);
        let write = |all: &[SignedGrant]| {
            std::fs::write(file.path(), all.iter().map(|grant| grant_text(grant) + "\n").collect::<String>())
                .unwrap();
        };
        write(&[
            grant(relay, site, 5),
            grant(relay, site, 9),
            grant(other, site, 20),
            grant(relay, stranger, 30),
        ]);
        assert_eq!(grants.of(relay), Some(grant(relay, site, 9)));
        write(&[grant(relay, site, 40)]);
        assert_eq!(grants.of(relay), Some(grant(relay, site, 40)));
        std::fs::write(file.path(), "nonsense").unwrap();
        assert_eq!(grants.of(relay), None);
        let grants = Grants::new(None, site);
        assert_eq!(grants.of(relay), None);
        let line = grant_text(&grant(relay, site, 50));
        grants.put(GrantsFor::Registrations, &[line]).unwrap();
        assert_eq!(grants.of(relay), Some(grant(relay, site, 50)));
        assert!(grants.put(GrantsFor::Registrations, &["x".to_owned()]).is_err());
        grants.forget(GrantsFor::Registrations);
        assert_eq!(grants.of(relay), None);
    }
}
