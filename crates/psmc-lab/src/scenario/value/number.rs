//! Numbers.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use psmc_sim::link::Probability;
use psmc_toml::{Kind, ValueError, number_and_unit, within};

/// A whole number in a range.
fn bounded<T: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<T>) -> Result<T, ValueError> {
    let remedy = format!("choose {} to {}", range.start(), range.end());
    within(text, range, format_args!("{text} is out of range"), remedy)
}

/// Where all chance comes from.
pub(in crate::scenario) const SEED: Kind<u64> =
    Kind::number("4", |text| bounded(text, 0..=i64::MAX.unsigned_abs()));

/// Bytes of an IP packet: from the datagram that every host must accept (RFC 791 §3.1) to the usual jumbo frame.
pub(in crate::scenario) const MTU: Kind<usize> = Kind::number("4", |text| bounded(text, 576..=9000));

/// More connections between two hosts than a thousand measure the kernel instead of the network.
pub(in crate::scenario) const FLOWS: Kind<usize> = Kind::number("4", |text| bounded(text, 1..=1000));

/// Bytes of a UDP datagram over IPv4, after the number and the time that the generator puts first.
pub(in crate::scenario) const UDP_PAYLOAD: Kind<usize> = Kind::number("4", |text| bounded(text, 16..=65_507));

/// Bytes of an echo request over IPv4, after the time that the generator puts first.
pub(in crate::scenario) const PING_PAYLOAD: Kind<usize> = Kind::number("4", |text| bounded(text, 8..=65_507));

/// What a program says when it ends.
pub(in crate::scenario) const EXIT_STATUS: Kind<i32> = Kind::number("0", |text| {
    let remedy = "a program ends with a number from 0 to 255";
    text.parse().map_err(|_| ValueError::new(format!("{text} is no exit status"), remedy))
});

/// How many a second: more than 0, up to a million.
pub(in crate::scenario) const FREQUENCY: Kind<f64> = Kind::decimal("20", |text| {
    let remedy = "choose how many a second, up to 1000000";
    positive(text, 1e6).ok_or_else(|| ValueError::new(format!("{text} is out of range"), remedy))
});

/// A weight: more than 0, up to 1.
pub(in crate::scenario) const WEIGHT: Kind<f64> = Kind::decimal("0.002", |text| {
    let remedy = "choose more than 0 and at most 1: the smaller, the longer the time it averages over";
    positive(text, 1.0).ok_or_else(|| ValueError::new(format!("{text} is no weight of an average"), remedy))
});

fn positive(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| *number > 0.0 && *number <= most)
}

/// A chance, written in percent.
pub(in crate::scenario) const PERCENT: Kind<Probability> = Kind::text("\"0.5%\"", |text| {
    let (number, unit) = number_and_unit(text);
    let chance = number.parse().ok().and_then(|percent: f64| Probability::new(percent / 100.0));
    chance.filter(|_| unit == "%").ok_or_else(|| {
        let remedy = "write 0 to 100 and a percent sign, such as \"0.5%\"";
        ValueError::new(format!("{text:?} is not a chance in percent"), remedy)
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert_eq!(bounded("1", 1..=4), Ok(1));
        assert!(bounded("0", 1..=4_u64).is_err() && bounded("5", 1..=4_u64).is_err());
        assert!(bounded("-1", 0..=4_u64).is_err());
        for bad in ["0", "-1", "NaN", "inf", "1e7"] {
            assert!(FREQUENCY.read(bad).is_err(), "{bad}");
            assert!(WEIGHT.read(bad).is_err(), "{bad}");
        }
        assert_eq!(FREQUENCY.read("0.5"), Ok(0.5));
        assert!(WEIGHT.read("1.5").is_err());
    }

    #[test]
    fn chances_are_in_percent() {
        assert_eq!(PERCENT.read("0.5%").unwrap().get(), 0.005);
        assert_eq!(PERCENT.read("100 %").unwrap().get(), 1.0);
        for bad in ["", "%", "1", "101%", "-1%", "1.2.3%", "1percent"] {
            assert!(PERCENT.read(bad).is_err(), "{bad:?}");
        }
    }
}
