//! Delays in a fixed number of classes.

/// Classes between a power of two and the next: a value is told to within 1/64.
const FINE: u32 = 64;

/// Classes: those below 64, and 64 for each of the 26 powers of two up to 2^32.
const CLASSES: usize = (FINE * 27) as usize;

/// How many delays there were of which length, in µs.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Box<[u32; CLASSES]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; CLASSES]), total: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, delay: u32) {
        let count = &mut self.counts[class(delay)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
        self.total += other.total;
    }

    pub(super) fn count(&self) -> u64 {
        self.total
    }

    /// The smallest end of a class that a share of delays is not above; `None` if there are no delays.
    pub(super) fn quantile(&self, quantile: f64) -> Option<u32> {
        let wanted = quantile.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (class, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            below += f64::from(count);
            if below >= wanted {
                return Some(end(class));
            }
        }
        None
    }
}

/// The class of a delay: linear below 64, then the power of two and the six bits behind its first.
fn class(delay: u32) -> usize {
    if delay < FINE {
        return delay as usize;
    }
    let power = delay.ilog2();
    let fine = (delay >> (power - FINE.ilog2())) - FINE;
    ((power - FINE.ilog2() + 1) * FINE + fine) as usize
}

/// The largest delay of a class.
fn end(class: usize) -> u32 {
    let class = u32::try_from(class).unwrap_or(u32::MAX);
    if class < FINE {
        return class;
    }
    let shift = class / FINE - 1;
    let next = u64::from(class % FINE + FINE + 1) << shift;
    u32::try_from(next - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_delay_is_in_its_class(delay: u32) {
            prop_assert!(class(delay) < CLASSES);
            let end = end(class(delay));
            prop_assert!(delay <= end && end - delay <= delay / FINE, "{} in a class up to {}", delay, end);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_delays(
            mut delays in prop::collection::vec(0_u32..1_000_000, 1..200),
            quantile in 0.0..=1.0_f64,
        ) {
            let mut histogram = Histogram::default();
            delays.iter().for_each(|&delay| histogram.add(delay));
            delays.sort_unstable();
            let rank = delays.iter().enumerate().find(|&(rank, _)| (rank + 1) as f64 >= quantile * delays.len() as f64);
            let expected = *rank.unwrap().1;
            let found = histogram.quantile(quantile).unwrap();
            prop_assert!(found >= expected && found - expected <= expected / FINE, "{} instead of {}", found, expected);
        }
    }

    #[test]
    fn no_delays_have_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(end(CLASSES - 1), u32::MAX);
    }
}
