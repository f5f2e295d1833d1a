//! Chance as Python's module `random` draws it, so that networks are the same for everybody who has their seeds.

use rand_mt::Mt;

/// `random.Random(seed)`: the Mersenne Twister (Matsumoto and Nishimura 1998), and what Python makes of its numbers.
pub(super) struct Random(Mt);

impl Random {
    pub(super) fn new(seed: u32) -> Self {
        Self(Mt::new_with_key([seed]))
    }

    /// `random()`: 53 random bits, as a fraction of one.
    fn fraction(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// `uniform(low, high)`
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.fraction()
    }

    /// Each order of magnitude between both is as likely.
    pub(super) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// `choice(all)`: as many bits as the number of elements has, again and again until they name one.
    pub(super) fn choice<T: Copy>(&mut self, all: &[T]) -> T {
        let unused = (all.len() as u64).leading_zeros() - u32::BITS;
        loop {
            let index = self.0.next_u32() >> unused;
            if let Some(&chosen) = all.get(index as usize) {
                return chosen;
            }
        }
    }
}

/// `round(number, decimals)`: the nearest of the numbers that have so many decimals.
pub(super) fn rounded(number: f64, decimals: usize) -> f64 {
    format!("{number:.decimals$}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Python 3.11: `r = random.Random(1000)`.
    #[test]
    fn it_draws_what_python_draws() {
        let mut random = Random::new(1000);
        // [r.random() for _ in range(3)]
        let fractions = [(); 3].map(|()| random.fraction());
        assert_eq!(fractions, [0.7773566427005639, 0.6698255595592497, 0.09913960392481702]);
        // [r.choice(range(4)) for _ in range(8)]
        let choices = [(); 8].map(|()| random.choice(&[0, 1, 2, 3]));
        assert_eq!(choices, [2, 0, 3, 1, 3, 1, 1, 1]);
        // r.uniform(3, 7)
        assert_eq!(random.uniform(3.0, 7.0), 4.456917663789502);
        assert_eq!(Random::new(0).fraction(), 0.8444218515250481);
    }

    #[test]
    fn numbers_are_rounded_as_python_does() {
        // round(2.675, 2), round(0.25, 1), round(144.25, 1), round(2.5)
        let ours = [rounded(2.675, 2), rounded(0.25, 1), rounded(144.25, 1), rounded(2.5, 0)];
        assert_eq!(ours, [2.67, 0.2, 144.2, 2.0]);
    }
}
