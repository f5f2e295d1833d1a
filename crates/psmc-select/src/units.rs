//! Bandwidth, latency and price: whole numbers, so that sums are exact and nothing is negative, infinite or not a number.

/// How much a link or a path carries, in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(u64);

/// How long a link or a path takes, one way, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latency(u64);

/// What a gigabyte costs, in millionths of whatever currency the input uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u64);

/// Why a number is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number, or infinite.
    #[error("is {0}; it must be a finite number")]
    NotFinite(f64),
    /// Below zero.
    #[error("is {0}; it cannot be negative")]
    Negative(f64),
    /// Beyond what sums over a whole network could hold.
    #[error("is {0}; the maximum is {1}")]
    TooLarge(f64, f64),
}

impl Bandwidth {
    /// Of a link that is down.
    pub const ZERO: Self = Self(0);

    /// From Mbit/s, at most a million of them: 1 Tbit/s is more than a link has, and sums over a million links fit.
    pub fn from_mbps(mbps: f64) -> Result<Self, QuantityError> {
        whole(mbps, 1e6, 1e6).map(Self)
    }

    /// From bit/s.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// In bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// In Mbit/s.
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Latency {
    /// Of no way at all.
    pub const ZERO: Self = Self(0);

    /// From milliseconds, at most a million of them: no packet is on its way for longer than a quarter of an hour.
    pub fn from_ms(ms: f64) -> Result<Self, QuantityError> {
        whole(ms, 1e6, 1e6).map(Self)
    }

    /// From ns.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In ns.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// In ms.
    pub fn ms(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl std::ops::Add for Latency {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::iter::Sum for Latency {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, |sum, next| sum + next)
    }
}

impl Price {
    /// From units of currency per gigabyte, at most a million of them.
    pub fn per_gigabyte(price: f64) -> Result<Self, QuantityError> {
        whole(price, 1e6, 1e6).map(Self)
    }

    /// In units of currency per gigabyte.
    pub fn get(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In millionths of a unit.
    pub(crate) const fn millionths(self) -> u64 {
        self.0
    }
}

/// A number of `parts` to the unit, rounded.
fn whole(number: f64, parts: f64, most: f64) -> Result<u64, QuantityError> {
    if !number.is_finite() {
        return Err(QuantityError::NotFinite(number));
    }
    if number < 0.0 {
        return Err(QuantityError::Negative(number));
    }
    if number > most {
        return Err(QuantityError::TooLarge(number, most));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to most × parts, which fits"
    )]
    let whole = (number * parts).round() as u64;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_whole_finite_and_not_negative() {
        assert_eq!(Bandwidth::from_mbps(1.5).map(Bandwidth::bits_per_second), Ok(1_500_000));
        assert_eq!(Latency::from_ms(0.25).map(Latency::nanos), Ok(250_000));
        assert_eq!(Latency::from_ms(-0.1), Err(QuantityError::Negative(-0.1)));
        assert_eq!(Price::per_gigabyte(f64::INFINITY), Err(QuantityError::NotFinite(f64::INFINITY)));
        assert!(matches!(Bandwidth::from_mbps(f64::NAN), Err(QuantityError::NotFinite(_))));
        assert_eq!(Bandwidth::from_mbps(2e6), Err(QuantityError::TooLarge(2e6, 1e6)));
    }
}
