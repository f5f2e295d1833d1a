//! How many questions are put to upstream servers at a time.
//!
//! A flood of random names finds nothing in the cache, so each of them would be put to the upstream servers. The names of a
//! flood are of one domain as a rule, or come from one source: neither has more than its share, and what has room for
//! nobody else is still there for the services.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use hickory_proto::rr::Name;

/// Questions under way for all: each takes a descriptor for each upstream server that it is put to.
const MAX_ALL: usize = 256;

/// Questions under way from one source: half, so that another has the other half.
const MAX_SOURCE: usize = 128;

/// Questions under way for names of one domain: half of what a source has.
const MAX_DOMAIN: usize = 64;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Load {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
    by_domain: HashMap<Name, usize>,
}

/// A question under way, to be given back to [`Load::leave`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    source: IpAddr,
    domain: Name,
}

impl Load {
    /// A place for a question of `source` for a name of `domain`, if there is one.
    pub(super) fn enter(&mut self, source: IpAddr, domain: Name) -> Option<Place> {
        let has_room = self.all < MAX_ALL
            && self.by_source.get(&source).is_none_or(|count| *count < MAX_SOURCE)
            && self.by_domain.get(&domain).is_none_or(|count| *count < MAX_DOMAIN);
        has_room.then(|| {
            self.all += 1;
            *self.by_source.entry(source).or_default() += 1;
            *self.by_domain.entry(domain.clone()).or_default() += 1;
            Place { source, domain }
        })
    }

    /// The question is answered.
    pub(super) fn leave(&mut self, place: &Place) {
        self.all -= 1;
        decrease(&mut self.by_source, &place.source);
        decrease(&mut self.by_domain, &place.domain);
    }
}

fn decrease<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    #[test]
    fn a_domain_a_source_and_all_have_their_shares() {
        let mut load = Load::default();
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let flood: Vec<Place> = (0..1000).filter_map(|_| load.enter(ip(1), name("flooded.test."))).collect();
        assert_eq!(flood.len(), MAX_DOMAIN);
        assert!(load.enter(ip(2), name("flooded.test.")).is_none());
        let others: Vec<Place> =
            (0..1000).filter_map(|n| load.enter(ip(1), name(&format!("n{n}.test.")))).collect();
        assert_eq!(flood.len() + others.len(), MAX_SOURCE);
        let all = (0..1000).filter(|n| load.enter(ip(3), name(&format!("n{n}.test."))).is_some()).count();
        assert_eq!((all, load.all), (MAX_ALL - MAX_SOURCE, MAX_ALL));
        assert!(load.enter(ip(4), name("other.test.")).is_none());
    }

    #[test]
    fn nothing_is_left_of_questions_that_were_answered() {
        let mut load = Load::default();
        for n in 0..10_000 {
            let place =
                load.enter(IpAddr::from([10, 0, 0, (n % 250) as u8]), name(&format!("n{n}."))).unwrap();
            load.leave(&place);
        }
        assert_eq!((load.all, load.by_source.len(), load.by_domain.len()), (0, 0, 0));
    }
}
