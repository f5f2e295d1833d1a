//! Numbers.

use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// The number.
    pub(in crate::scenario) fn get(self) -> u64 {
        self.0
    }

    /// The number, for what is counted in memory.
    pub(in crate::scenario) fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Whole<MIN, MAX> {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is out of range"), format!("choose {MIN} to {MAX}"))
        })
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Whole<MIN, MAX> {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "4";
}

/// Any whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(in crate::scenario) struct Integer(pub(in crate::scenario) i32);

impl FromStr for Integer {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            ValueError::new(format!("{text} is no exit status"), "a program ends with a number from 0 to 255")
        })
    }
}

impl Setting for Integer {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "0";
}

/// How many a second: more than 0, up to a million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scenario) struct Frequency(pub(in crate::scenario) f64);

impl FromStr for Frequency {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= 1e6);
        number.map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is out of range"), "choose how many a second, up to 1000000")
        })
    }
}

impl Setting for Frequency {
    const FORM: Form = Form::Decimal;
    const EXAMPLE: &'static str = "20";
}

/// A weight: more than 0, up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scenario) struct Weight(pub(in crate::scenario) f64);

impl FromStr for Weight {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= 1.0);
        number.map(Self).ok_or_else(|| {
            let remedy =
                "choose more than 0 and at most 1: the smaller, the longer the time it averages over";
            ValueError::new(format!("{text} is no weight of an average"), remedy)
        })
    }
}

impl Setting for Weight {
    const FORM: Form = Form::Decimal;
    const EXAMPLE: &'static str = "0.002";
}

/// True or false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Flag(pub(in crate::scenario) bool);

impl FromStr for Flag {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse()
            .map(Self)
            .map_err(|_| ValueError::new(format!("{text:?} is neither true nor false"), "choose one"))
    }
}

impl Setting for Flag {
    const FORM: Form = Form::Boolean;
    const EXAMPLE: &'static str = "true";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert_eq!("1".parse::<Whole<1, 4>>().unwrap().get(), 1);
        assert!("0".parse::<Whole<1, 4>>().is_err() && "5".parse::<Whole<1, 4>>().is_err());
        assert!("-1".parse::<Whole<0, 4>>().is_err());
        for bad in ["0", "-1", "NaN", "inf", "1e7"] {
            assert!(bad.parse::<Frequency>().is_err(), "{bad}");
            assert!(bad.parse::<Weight>().is_err(), "{bad}");
        }
        assert_eq!("0.5".parse(), Ok(Frequency(0.5)));
        assert!("1.5".parse::<Weight>().is_err());
    }
}
