//! Which routes of a service are believed.
//!
//! Name servers and everyone on the way to them can say what they like: only what the service has signed counts, only as
//! long as it says, and nothing that is older than what was seen before. And they can withhold: so routes that are missing
//! from an answer are not withdrawn by that. They count until they expire.

use hickory_proto::rr::rdata::svcb::SVCB;
use hickory_proto::rr::{Name, Record};
use psmc_net::keys::PublicKey;

use psmc_routes::{AltRecord, GroupKey, GroupTag, RouteError, RouteSet, SignedRoutes, svcb_routes};

/// What became of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It counts from now on.
    Believed,
    /// It counts already.
    Known,
    /// The service has not signed it, or it was changed.
    Forged,
    /// A newer one was seen, or this one was withdrawn.
    Replayed,
    /// It has expired, or claims to last too long.
    Expired,
    /// It is sealed to others.
    OtherGroup,
    /// It is no set.
    Malformed,
}

/// What is believed of a service.
pub(super) struct Beliefs {
    service: Name,
    key: PublicKey,
    group: Option<GroupKey>,
    /// Serial numbers rise for everyone's sets and for the group's, each by themselves: they are published one by one.
    open: Belief,
    sealed: Belief,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Belief {
    /// No lower serial number is believed.
    least: u64,
    routes: Option<SignedRoutes>,
}

impl Beliefs {
    pub(super) fn new(service: Name, key: PublicKey, group: Option<GroupKey>) -> Self {
        Self { service, key, group, open: Belief::default(), sealed: Belief::default() }
    }

    /// Considers the contents of an ALT record. `now_s` is in seconds since 1970.
    pub(super) fn consider(&mut self, rdata: &[u8], now_s: u64) -> Verdict {
        match AltRecord::decode(&self.service, rdata) {
            Ok(AltRecord::Open(routes)) => self.open.consider(routes, &self.key, now_s),
            Ok(AltRecord::Sealed(sealed)) => {
                let Some(group) = self.group.as_ref().filter(|group| group.tag() == sealed.group()) else {
                    return Verdict::OtherGroup;
                };
                match group.open(&sealed) {
                    Ok(routes) => self.sealed.consider(routes, &self.key, now_s),
                    Err(RouteError::Sealed) => Verdict::Forged,
                    Err(_) => Verdict::Malformed,
                }
            }
            Err(_) => Verdict::Malformed,
        }
    }

    /// Considers SVCB records, which have sets for everyone.
    pub(super) fn consider_svcb<'a>(
        &mut self,
        records: impl Iterator<Item = &'a SVCB>,
        now_s: u64,
    ) -> Vec<Verdict> {
        match svcb_routes(&self.service, records) {
            Ok(sets) => sets.into_iter().map(|routes| self.open.consider(routes, &self.key, now_s)).collect(),
            Err(_) => vec![Verdict::Malformed],
        }
    }

    /// The routes that count: those of the group before those of everyone.
    pub(super) fn best(&self, now_s: u64) -> Option<&RouteSet> {
        let current =
            |belief: &'_ Belief| belief.routes.as_ref().is_some_and(|routes| expiry(routes) > now_s);
        let belief = [&self.sealed, &self.open].into_iter().find(|belief| current(belief))?;
        belief.routes.as_ref().map(SignedRoutes::claims)
    }

    /// The service itself, or whoever speaks for it, takes its routes back.
    pub(super) fn withdraw(&mut self) {
        for belief in [&mut self.open, &mut self.sealed] {
            if let Some(routes) = belief.routes.take() {
                belief.least = routes.claims().validity().serial.saturating_add(1);
            }
        }
    }

    /// The lowest serial numbers that are believed, and the records that are, to be kept. The group's are sealed again.
    pub(super) fn kept(&self) -> ([u64; 2], Vec<Vec<u8>>) {
        let open = self.open.routes.clone().map(AltRecord::Open);
        let sealed = self.sealed.routes.as_ref().zip(self.group.as_ref());
        let sealed = sealed.map(|(routes, group)| AltRecord::Sealed(group.seal(routes)));
        let records = open.into_iter().chain(sealed).map(|record| record.encode()).collect();
        ([self.open.least, self.sealed.least], records)
    }

    /// Takes what was kept, and considers its records like any other's: what is on a disk may have been changed.
    pub(super) fn restore(&mut self, least: [u64; 2], records: &[Vec<u8>], now_s: u64) {
        for record in records {
            self.consider(record, now_s);
        }
        let [open, sealed] = least;
        (self.open.least, self.sealed.least) = (self.open.least.max(open), self.sealed.least.max(sealed));
    }
}

impl Belief {
    fn consider(&mut self, routes: SignedRoutes, key: &PublicKey, now_s: u64) -> Verdict {
        let serial = match routes.verify(key, now_s, self.least) {
            Ok(set) => set.validity().serial,
            Err(RouteError::Expired(_) | RouteError::TooLong(_)) => return Verdict::Expired,
            Err(RouteError::Replayed { .. }) => return Verdict::Replayed,
            Err(_) => return Verdict::Forged,
        };
        if serial == self.least && self.routes.is_some() {
            return Verdict::Known;
        }
        (self.least, self.routes) = (serial, Some(routes));
        Verdict::Believed
    }
}

/// Whether a set is for a group of clients.
pub(super) fn is_sealed(set: &RouteSet) -> bool {
    set.group() != GroupTag::EVERYONE
}

/// The data of the records of a name and type in an answer.
pub(super) fn of_name<'a>(records: &'a [Record], name: &'a Name) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |record| record.name == *name)
}

fn expiry(routes: &SignedRoutes) -> u64 {
    routes.claims().validity().expires_s
}

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;

    use super::*;
    use psmc_routes::{Relay, Validity, svcb_records};

    const NOW: u64 = 2_000_000_000;

    fn service() -> Name {
        Name::from_ascii("www.example.com.").unwrap()
    }

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from_seed([seed; 32])
    }

    fn set(serial: u64, expires_s: u64) -> RouteSet {
        let relay = Relay { address: "192.0.2.7:5115".parse().unwrap(), key: key(7).public(), gateway: None };
        RouteSet::new(&service(), Validity { serial, expires_s }, vec![relay]).unwrap()
    }

    fn open(serial: u64, expires_s: u64) -> Vec<u8> {
        AltRecord::Open(set(serial, expires_s).sign(&key(1))).encode()
    }

    fn sealed(group: u8, serial: u64) -> Vec<u8> {
        let group = GroupKey::new(&key(group));
        let routes = set(serial, NOW + 600).for_group(group.tag()).sign(&key(1));
        AltRecord::Sealed(group.seal(&routes)).encode()
    }

    fn beliefs() -> Beliefs {
        Beliefs::new(service(), key(1).public(), Some(GroupKey::new(&key(9))))
    }

    fn serial(beliefs: &Beliefs, now_s: u64) -> Option<u64> {
        beliefs.best(now_s).map(|set| set.validity().serial)
    }

    #[test]
    fn what_is_signed_and_new_counts_until_it_expires() {
        let mut beliefs = beliefs();
        assert_eq!(beliefs.consider(&open(5, NOW + 600), NOW), Verdict::Believed);
        assert_eq!(beliefs.consider(&open(5, NOW + 600), NOW), Verdict::Known);
        assert_eq!(beliefs.consider(&open(4, NOW + 600), NOW), Verdict::Replayed);
        assert_eq!(beliefs.consider(&open(6, NOW), NOW), Verdict::Expired);
        assert_eq!(beliefs.consider(&open(6, NOW + 8 * 24 * 3600), NOW), Verdict::Expired);
        assert_eq!(beliefs.consider(b"\x07", NOW), Verdict::Malformed);
        let forged = AltRecord::Open(set(9, NOW + 600).sign(&key(2))).encode();
        assert_eq!(beliefs.consider(&forged, NOW), Verdict::Forged);
        assert_eq!((serial(&beliefs, NOW), serial(&beliefs, NOW + 600)), (Some(5), None));
        assert_eq!(beliefs.consider(&open(6, NOW + 700), NOW), Verdict::Believed);
        assert_eq!(serial(&beliefs, NOW + 600), Some(6));
    }

    #[test]
    fn the_groups_set_goes_before_everyones_and_others_are_passed_over() {
        let mut beliefs = beliefs();
        assert_eq!(beliefs.consider(&sealed(8, 9), NOW), Verdict::OtherGroup);
        assert_eq!(beliefs.consider(&open(5, NOW + 900), NOW), Verdict::Believed);
        assert_eq!(beliefs.consider(&sealed(9, 3), NOW), Verdict::Believed, "its serial number is its own");
        assert_eq!((serial(&beliefs, NOW), is_sealed(beliefs.best(NOW).unwrap())), (Some(3), true));
        assert_eq!(serial(&beliefs, NOW + 700), Some(5));
        let mut changed = sealed(9, 10);
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(beliefs.consider(&changed, NOW), Verdict::Forged);
    }

    #[test]
    fn svcb_records_have_everyones_set() {
        let mut beliefs = beliefs();
        let records = svcb_records(&set(5, NOW + 600).sign(&key(1)));
        assert_eq!(beliefs.consider_svcb(records.iter(), NOW), [Verdict::Believed]);
        assert_eq!(beliefs.consider(&open(5, NOW + 600), NOW), Verdict::Known);
        let none: [SVCB; 0] = [];
        assert_eq!(beliefs.consider_svcb(none.iter(), NOW), [Verdict::Malformed]);
    }

    #[test]
    fn what_was_taken_back_is_not_believed_again() {
        let mut beliefs = beliefs();
        beliefs.consider(&open(5, NOW + 600), NOW);
        beliefs.withdraw();
        assert_eq!(serial(&beliefs, NOW), None);
        assert_eq!(beliefs.consider(&open(5, NOW + 600), NOW), Verdict::Replayed);
        assert_eq!(beliefs.consider(&open(6, NOW + 600), NOW), Verdict::Believed);
    }

    #[test]
    fn a_restart_forgets_nothing_and_believes_no_disk() {
        let mut before = beliefs();
        before.consider(&open(5, NOW + 600), NOW);
        before.consider(&sealed(9, 7), NOW);
        let (least, records) = before.kept();
        let mut after = beliefs();
        after.restore(least, &records, NOW);
        assert_eq!(serial(&after, NOW), Some(7));
        assert_eq!(after.consider(&open(4, NOW + 600), NOW), Verdict::Replayed);
        let mut late = beliefs();
        late.restore(least, &records, NOW + 600);
        assert_eq!(serial(&late, NOW + 600), None);
        assert_eq!(late.consider(&open(4, NOW + 900), NOW + 600), Verdict::Replayed);
        let mut changed = beliefs();
        let forged = AltRecord::Open(set(9, NOW + 600).sign(&key(2))).encode();
        changed.restore([0, 0], &[forged], NOW);
        assert_eq!(serial(&changed, NOW), None);
    }
}
