//! The grants that a site shows to relays.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use psmc_net::keys::PublicKey;
use psmc_wire::relay::SignedGrant;

use crate::config::read_grants;

/// A file of grants, read for each connection to a relay: so what changes there counts from the next one on. Clones are of
/// the same one.
#[derive(Clone)]
pub(in crate::daemon) struct Grants {
    file: Option<PathBuf>,
    site: PublicKey,
    /// What was wrong with it the last time, which has been said.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Grants {
    /// The grants of the site with this key.
    pub(in crate::daemon) fn new(file: Option<PathBuf>, site: PublicKey) -> Self {
        Self { file, site, complaint: Arc::default() }
    }

    /// What to show to the relay with this key: of its grants the one that counts the longest.
    pub(super) fn of(&self, relay: PublicKey) -> Option<SignedGrant> {
        let read = read_grants(self.file.as_deref()?);
        self.note(read.as_ref().err().map(|error| error.reason()));
        let is_for = |grant: &SignedGrant| {
            grant.grant.relay.0 == *relay.as_bytes() && grant.grant.site.0 == *self.site.as_bytes()
        };
        read.ok()?.into_iter().filter(is_for).max_by_key(|grant| grant.grant.expires_s)
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
        assert_eq!(Grants::new(None, site).of(relay), None);
    }
}
