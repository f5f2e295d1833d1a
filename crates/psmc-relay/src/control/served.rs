//! Who is served, and whose grants are void.

use std::collections::BTreeMap;
use std::sync::Arc;

use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Grant, Refusal};

use super::{Denied, Member};
use crate::config::Site;

/// Sites whose grants have been taken back, at most: each is kept until the last of these grants would have ended.
const MAX_REVOKED: usize = 1 << 16;

/// Who is served, and whose grants are void.
#[derive(Debug, Default)]
pub(super) struct Served {
    members: BTreeMap<KeyBytes, Arc<Member>>,
    /// Until when grants end that are void, in seconds since 1970.
    void_until: BTreeMap<KeyBytes, u64>,
}

impl Served {
    pub(super) fn listed(sites: &[Site]) -> Self {
        let mut served = Self::default();
        served.replace_listed(sites);
        served
    }

    pub(super) fn get(&self, key: KeyBytes) -> Option<Arc<Member>> {
        self.members.get(&key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Member>> {
        self.members.values().cloned().collect()
    }

    /// Replaces the members that the configuration lists, and returns those that are none any more.
    pub(super) fn replace_listed(&mut self, sites: &[Site]) -> Vec<Arc<Member>> {
        let stays = |key: &KeyBytes| sites.iter().any(|site| key_of(site) == *key);
        let gone = self.members.extract_if(.., |key, member| member.is_listed() && !stays(key));
        let gone = gone.map(|(_, gone)| gone).collect();
        for site in sites {
            let key = key_of(site);
            let renewed = Member::listed(site, self.members.get(&key).map(Arc::as_ref));
            self.members.insert(key, Arc::new(renewed));
        }
        gone
    }

    /// Serves a site as a grant says whose signature is good; `None` if it has been taken back.
    pub(super) fn grant(&mut self, name: &str, grant: &Grant, now: u64) -> Option<Arc<Member>> {
        if self.void_until.get(&grant.site).is_some_and(|until| grant.expires_s <= *until) {
            return None;
        }
        self.members.retain(|_, member| {
            member.counts_at(now) || member.account.sessions() > 0 || member.is_connected()
        });
        let member = self.members.entry(grant.site).or_insert_with(|| Arc::new(Member::granted(name, grant)));
        member.renew(grant);
        Some(member.clone())
    }

    /// Takes back the grants of a site that end at `until` or before, and no others. If it is served because of one of
    /// them it is returned, and not served any more.
    pub(super) fn revoke(
        &mut self,
        site: KeyBytes,
        until: u64,
        now: u64,
    ) -> Result<Option<Arc<Member>>, Denied> {
        self.void_until.retain(|key, until| *key != site && *until >= now);
        if self.void_until.len() >= MAX_REVOKED {
            return Err(Denied::new(Refusal::Limit, "the relay has too many grants that were taken back"));
        }
        if until >= now {
            self.void_until.insert(site, until);
        }
        let is_void = |member: &Arc<Member>| !member.is_listed() && member.ends_by(until);
        let is_gone = self.members.get(&site).is_some_and(is_void);
        Ok(if is_gone { self.members.remove(&site) } else { None })
    }
}

fn key_of(site: &Site) -> KeyBytes {
    KeyBytes(*site.public_key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn grant(site: u8, expires_s: u64) -> Grant {
        let (relay, site) = (KeyBytes([0; 32]), KeyBytes([site; 32]));
        Grant { relay, site, expires_s, sessions: 4, max_rate: None, gateway: false }
    }

    fn is_taken(served: &mut Served, grant: &Grant) -> bool {
        served.grant("van", grant, NOW).is_some()
    }

    #[test]
    fn grants_that_are_taken_back_are_void_and_later_ones_are_not() {
        let mut served = Served::default();
        let [first, second, others] = [grant(1, NOW + 60), grant(1, NOW + 61), grant(2, NOW + 60)];
        assert!(is_taken(&mut served, &first) && is_taken(&mut served, &others));
        let gone = served.revoke(first.site, first.expires_s, NOW).unwrap().unwrap();
        assert_eq!(gone.account.key(), first.site);
        assert!(served.get(first.site).is_none() && served.get(others.site).is_some());
        assert!(!is_taken(&mut served, &first));
        assert!(is_taken(&mut served, &second));
        // What is served by a later one stays.
        assert!(served.revoke(first.site, first.expires_s, NOW).unwrap().is_none());
        assert!(served.get(first.site).is_some());
        // None is void any more.
        assert!(served.revoke(first.site, second.expires_s, NOW).unwrap().is_some());
        assert!(served.revoke(first.site, 0, NOW).unwrap().is_none());
        assert!(is_taken(&mut served, &first));
    }

    #[test]
    fn what_is_void_is_kept_as_long_as_it_matters() {
        let mut served = Served::default();
        served.revoke(KeyBytes([1; 32]), NOW + 9, NOW).unwrap();
        assert!(served.revoke(KeyBytes([2; 32]), NOW + 20, NOW + 10).unwrap().is_none());
        assert_eq!(served.void_until.len(), 1);
        served.revoke(KeyBytes([3; 32]), NOW, NOW + 10).unwrap();
        assert_eq!(served.void_until.len(), 1);
    }

    #[test]
    fn a_site_that_has_expired_and_has_sessions_still_goes() {
        let mut served = Served::default();
        let old = grant(1, NOW);
        let member = served.grant("van", &old, NOW).unwrap();
        let _session = member.account.take_session();
        assert!(served.revoke(old.site, NOW + 5, NOW + 10).unwrap().is_some());
    }

    #[test]
    fn a_site_that_has_expired_is_known_as_long_as_it_is_connected() {
        let mut served = Served::default();
        let old = grant(1, NOW);
        let member = served.grant("van", &old, NOW).unwrap();
        let connection = member.connections.clone().try_acquire_owned().unwrap();
        assert!(served.grant("hq", &grant(2, NOW + 60), NOW + 10).is_some());
        assert!(served.get(old.site).is_some());
        drop(connection);
        assert!(served.grant("hq", &grant(2, NOW + 60), NOW + 10).is_some());
        assert!(served.get(old.site).is_none());
    }
}
