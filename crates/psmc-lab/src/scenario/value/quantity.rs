//! Times, sizes and rates.

use std::str::FromStr;
use std::time::Duration;

use psmc_toml::{
    Form, RATE_REMEDY, Setting, ValueError, bits_per_second, number_and_unit, rate_text, scaled,
};

/// A time: 0 to 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct Time(pub(in crate::scenario) Duration);

impl Time {
    /// The units, and their size in nanoseconds.
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1000),
        ("µs", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];

    /// A day. Nobody waits longer for a scenario, and a larger number is a typing error.
    const MAX: Duration = Duration::from_secs(24 * 3600);
}

impl FromStr for Time {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        const REMEDY: &str = "write a number and ms, s or min, such as \"20ms\" or \"1.5s\"";
        let (number, unit) = number_and_unit(text);
        let Some((_, size)) = Self::UNITS.into_iter().find(|(name, _)| *name == unit) else {
            let reason = match unit {
                "" => format!("the time {text:?} has no unit"),
                _ => format!("{text:?} is not a time"),
            };
            return Err(ValueError::new(reason, REMEDY));
        };
        match scaled(number, size).map(Duration::from_nanos) {
            Some(time) if time <= Self::MAX => Ok(Self(time)),
            Some(_) => Err(ValueError::new(format!("{text:?} is more than a day"), REMEDY)),
            None => Err(ValueError::new(format!("{text:?} is not a time"), REMEDY)),
        }
    }
}

impl Setting for Time {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10ms\"";
}

/// A number of bytes: 0 to 1 TB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct Size(pub(in crate::scenario) u64);

impl Size {
    /// The units, and their size in bytes. Without one, a number is of bytes.
    const UNITS: [(&str, u64); 9] = [
        ("", 1),
        ("B", 1),
        ("bytes", 1),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ];

    /// A terabyte: 100 Gbit/s for more than a minute. A larger number is a typing error.
    const MAX: u64 = 1_000_000_000_000;
}

impl FromStr for Size {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        const REMEDY: &str = "write a number of bytes, or one with kB, MB or GB, such as \"100kB\"";
        let (number, unit) = number_and_unit(text);
        let Some((_, size)) = Self::UNITS.into_iter().find(|(name, _)| *name == unit) else {
            let reason = match unit {
                "k" | "kb" | "Kb" | "KB" | "m" | "M" | "mb" | "Mb" | "g" | "G" | "gb" | "Gb" => {
                    format!("{unit:?} could mean bits or bytes, or 1024 of them")
                }
                _ => format!("{text:?} is not a number of bytes"),
            };
            return Err(ValueError::new(reason, REMEDY));
        };
        match scaled(number, size) {
            Some(bytes) if bytes <= Self::MAX => Ok(Self(bytes)),
            Some(_) => Err(ValueError::new(format!("{text:?} is more than 1000 GB"), REMEDY)),
            None => Err(ValueError::new(format!("{text:?} is not a number of bytes"), REMEDY)),
        }
    }
}

impl Setting for Size {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"100kB\"";
}

/// The rate of a link in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct LinkRate(pub(in crate::scenario) u64);

impl LinkRate {
    /// Below this a full-size packet takes more than ten seconds: nothing that is sent today lives with that.
    const MIN: u64 = 1000;
}

impl FromStr for LinkRate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bits = bounded_rate(text, Self::MIN)?;
        let remedy = "for a link that carries nothing, leave its rate alone and cut it by an [[event]]";
        (bits > 0).then_some(Self(bits)).ok_or_else(|| ValueError::new("the rate of a link is not 0", remedy))
    }
}

impl Setting for LinkRate {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"50mbit\"";
}

/// The rate of a stream in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct StreamRate(pub(in crate::scenario) u64);

impl FromStr for StreamRate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bits = bounded_rate(text, 1)?;
        (bits > 0).then_some(Self(bits)).ok_or_else(|| {
            ValueError::new("a stream of rate 0 is none", format!("remove it, or {RATE_REMEDY}"))
        })
    }
}

impl Setting for StreamRate {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10mbit\"";
}

/// A rate of 0, or one from `min` to beyond any link.
fn bounded_rate(text: &str, min: u64) -> Result<u64, ValueError> {
    match bits_per_second(text)? {
        bits if bits > 0 && bits < min => {
            let reason = format!("{bits} bit/s is too slow to be used, {} is the least", rate_text(min));
            Err(ValueError::new(reason, RATE_REMEDY))
        }
        bits if bits > MAX_BITS_PER_SECOND => {
            Err(ValueError::new("the rate is more than 1000gbit, beyond any link", RATE_REMEDY))
        }
        bits => Ok(bits),
    }
}

/// Beyond any link there is: a larger number is a typing error.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let time = |text: &str| text.parse::<Time>().map(|time| time.0);
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(time("1.5 ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(time("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        for bad in ["", "10", "s", "-1s", "1 fortnight", "25h", "0.1ns", "99999999999999999999s"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_of_bytes() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("200"), Ok(200));
        assert_eq!(size("1.5kB"), Ok(1500));
        assert_eq!(size("64 KiB"), Ok(65_536));
        for bad in ["", "kB", "10kb", "10Mb", "1.5B", "-1", "1001GB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn links_have_a_rate_worth_the_name() {
        assert_eq!("1kbit".parse(), Ok(LinkRate(1000)));
        assert_eq!("1bit".parse(), Ok(StreamRate(1)));
        for bad in ["0mbit", "999bit", "1001gbit", "10"] {
            assert!(bad.parse::<LinkRate>().is_err(), "{bad:?}");
        }
        assert!("0bit".parse::<StreamRate>().is_err());
    }
}
