//! Numbers with units, and data rates.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::{Kind, ValueError};

/// The number that a text begins with, and the unit that follows it: `1.5` and `gbit`. Either may be empty.
pub fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// `number` × `size`, exactly, or `None` where that is no whole number, overflows, or `number` is no decimal.
pub fn scaled(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let places = u32::try_from(fraction.len()).ok()?;
    let divisor = 10_u64.checked_pow(places)?;
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(size)?;
    if !fraction.is_multiple_of(divisor) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(size)?.checked_add(fraction / divisor)
}

/// What to write where a rate is wrong.
pub const RATE_REMEDY: &str =
    "write a number and kbit, mbit or gbit (per second), such as \"20mbit\" or \"1.5gbit\"";

/// The units, and their size in bit/s. The larger come first: `rate_text` takes the first that fits.
const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];

/// The bits per second of a text such as `1.5gbit`. Bounds are the caller's.
pub fn bits_per_second(text: &str) -> Result<u64, ValueError> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = number_and_unit(&lower);
    let size = unit_size(text, unit)?;
    let bits = scaled(number, size);
    bits.ok_or_else(|| ValueError::new(format!("{text:?} is not a rate"), RATE_REMEDY))
}

/// A rate in the largest unit that needs no fraction, so that it reads back as the same.
pub fn rate_text(bits: u64) -> String {
    let fitting = UNITS.into_iter().find(|(_, size)| bits.is_multiple_of(*size));
    let (unit, size) = fitting.unwrap_or(("bit", 1));
    format!("{}{unit}", bits / size)
}

fn unit_size(text: &str, unit: &str) -> Result<u64, ValueError> {
    if let Some((_, size)) = UNITS.into_iter().find(|(name, _)| *name == unit) {
        return Ok(size);
    }
    let reason = match unit {
        "" => format!("the rate {text:?} has no unit"),
        "kbps" | "mbps" | "gbps" => format!("{unit:?} could mean bits or bytes"),
        _ => format!("{text:?} is not a rate"),
    };
    Err(ValueError::new(reason, RATE_REMEDY))
}

/// Below this a single full-size packet takes more than a second, and no path would ever be found alive.
const MIN_BITS_PER_SECOND: u64 = 16_000;

/// Beyond any link there is: a larger number is a typing error.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// A [`Rate`].
pub const RATE: Kind<Rate> = Kind::text("\"20mbit\"", str::parse);

/// A limit on the rate of a path, counted in outer IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate from a number of bits per second, of which 16 000 is the least and 10^12 the most.
    pub fn from_bits_per_second(bits: u64) -> Result<Self, ValueError> {
        match NonZeroU64::new(bits) {
            None => Err(ValueError::new("a rate of zero would stop the path", RATE_REMEDY)),
            Some(_) if bits < MIN_BITS_PER_SECOND => Err(ValueError::new(
                format!("{bits} bit/s is too slow to be used, 16kbit is the least"),
                RATE_REMEDY,
            )),
            Some(_) if bits > MAX_BITS_PER_SECOND => {
                Err(ValueError::new("the rate is more than 1000gbit, beyond any link", RATE_REMEDY))
            }
            Some(bits) => Ok(Self(bits)),
        }
    }

    /// Bits per second.
    pub fn bits_per_second(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Rate {
    /// In the largest unit that needs no fraction, so that it reads back as the same rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rate_text(self.0.get()))
    }
}

impl FromStr for Rate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::from_bits_per_second(bits_per_second(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions() {
        assert_eq!(bits_per_second("20mbit"), Ok(20_000_000));
        assert_eq!(bits_per_second("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(bits_per_second("500 kbit"), Ok(500_000));
        assert_eq!(bits_per_second("64.125kbit"), Ok(64_125));
        assert_eq!(bits_per_second("20Mbit"), Ok(20_000_000));
        assert_eq!(bits_per_second("16000bit"), Ok(16_000));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "mbit",
            "-1mbit",
            "20",
            "20mbps",
            "20 furlongs",
            "1.2.3mbit",
            ".5mbit",
            "5.mbit",
            "0.5bit",
            "99999999999999999999gbit",
            "1.00000000000000000000000001gbit",
            "٣mbit",
        ] {
            assert!(bits_per_second(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reads_back_what_it_prints() {
        for text in ["20mbit", "1500mbit", "64125bit", "1gbit", "500kbit", "0gbit"] {
            assert_eq!(rate_text(bits_per_second(text).unwrap()), text);
        }
    }

    #[test]
    fn a_path_needs_a_rate_to_live_by() {
        assert_eq!("16000bit".parse::<Rate>().unwrap().bits_per_second(), 16_000);
        for bad in ["0mbit", "15kbit", "1001gbit", "20", "mbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_rate_reads_back_what_it_prints() {
        assert_eq!("1500mbit".parse::<Rate>().unwrap().to_string(), "1500mbit");
    }
}
