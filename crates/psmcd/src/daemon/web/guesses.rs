//! Who has shown wrong tokens of late: from each place only a few are looked at in a minute, so that even a short token cannot be
//! tried out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::super::often::Often;

/// Wrong tokens of one place that are looked at in a [`PERIOD`]: people mistype fewer.
const MOST: u32 = 10;

/// How long wrong tokens count, from the first of them.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// Places that are remembered: more than have business here. Of others no token is looked at while all of these count, so that
/// somebody with many addresses has no more guesses than these.
const MAX_PLACES: usize = 1024;

/// What is known of those who show wrong tokens. Ask [`are_too_many`](Self::are_too_many) before a token is looked at, and
/// [`note`](Self::note) each that is wrong.
#[derive(Debug)]
pub(super) struct Guesses {
    /// By place, when the first one came, and how many since.
    places: BTreeMap<IpAddr, (Instant, u32)>,
    lines: Often,
}

/// Lines of the log about wrong tokens in a minute: enough to see that somebody tries, and from where.
const MAX_LINES: u32 = 5;

impl Default for Guesses {
    fn default() -> Self {
        Self { places: BTreeMap::new(), lines: Often::new(MAX_LINES) }
    }
}

impl Guesses {
    /// Whether no token from there is looked at for now.
    pub(super) fn are_too_many(&mut self, from: IpAddr, now: Instant) -> bool {
        if let Some((first, count)) = self.places.get(&place(from)) {
            return *count >= MOST && now < *first + PERIOD;
        }
        if self.places.len() >= MAX_PLACES {
            self.places.retain(|_, (first, _)| now < *first + PERIOD);
        }
        self.places.len() >= MAX_PLACES
    }

    /// A token from there was wrong. The log says so.
    pub(super) fn note(&mut self, from: IpAddr, now: Instant) {
        let (first, count) = self.places.entry(place(from)).or_insert((now, 0));
        if *first + PERIOD <= now {
            (*first, *count) = (now, 0);
        }
        *count += 1;
        if let Some(left_out) = self.lines.note(now) {
            tracing::info!(%from, left_out, "wrong token shown to the web page");
        }
    }
}

/// Whoever has an IPv6 address has all of its network of 64 bits (RFC 4291, section 2.5.1).
fn place(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(guesses: &mut Guesses, from: &str, now: Instant) -> bool {
        let from = from.parse().unwrap();
        let is_looked_at = !guesses.are_too_many(from, now);
        if is_looked_at {
            guesses.note(from, now);
        }
        is_looked_at
    }

    #[test]
    fn a_place_has_a_few_guesses_in_a_minute() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        // For ten minutes, ten times a second, from two addresses of a network.
        let looked_at = (0..6000_u32).filter(|number| {
            let from = ["2001:db8::1", "2001:db8::1:2"][(*number % 2) as usize];
            guess(&mut guesses, from, start + *number * PERIOD / 600)
        });
        assert_eq!(looked_at.count(), 100);
        assert!(guess(&mut guesses, "2001:db8:0:1::1", start));
        assert!((0..20).filter(|_| guess(&mut guesses, "192.0.2.1", start)).count() == 10);
        assert!(!guess(&mut guesses, "::ffff:192.0.2.1", start));
    }

    #[test]
    fn many_places_have_a_bounded_number_of_guesses() {
        let (mut guesses, start) = (Guesses::default(), Instant::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes()).to_string();
        let looked_at = (0..5000).filter(|number| guess(&mut guesses, &address(*number), start)).count();
        assert_eq!(looked_at, MAX_PLACES);
        assert!(!guess(&mut guesses, &address(9999), start + PERIOD / 2));
        assert!(guess(&mut guesses, &address(9999), start + PERIOD));
        assert_eq!(guesses.places.len(), 1);
    }
}
