//! Data rates.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::{Form, Setting, ValueError};

const REMEDY: &str = "write a number and kbit, mbit or gbit (per second), such as \"20mbit\" or \"1.5gbit\"";

/// The units, and their size in bit/s. The larger come first: `Display` takes the first that fits.
const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];

/// Below this a single full-size packet takes more than a second, and no path would ever be found alive.
const MIN_BITS_PER_SECOND: u64 = 16_000;

/// Beyond any link there is: a larger number is a typing error.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// A limit on the rate of a path, counted in outer IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate from a number of bits per second, of which 16 000 is the least and 10^12 the most.
    pub fn from_bits_per_second(bits: u64) -> Result<Self, ValueError> {
        match NonZeroU64::new(bits) {
            None => Err(ValueError::new("a rate of zero would stop the path", REMEDY)),
            Some(_) if bits < MIN_BITS_PER_SECOND => Err(ValueError::new(
                format!("{bits} bit/s is too slow to be used, 16kbit is the least"),
                REMEDY,
            )),
            Some(_) if bits > MAX_BITS_PER_SECOND => {
                Err(ValueError::new("the rate is more than 1000gbit, beyond any link", REMEDY))
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
        let bits = self.0.get();
        let fitting = UNITS.into_iter().find(|(_, size)| bits.is_multiple_of(*size));
        let (unit, size) = fitting.unwrap_or(("bit", 1));
        write!(f, "{}{unit}", bits / size)
    }
}

impl FromStr for Rate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let lower = text.trim().to_ascii_lowercase();
        let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
        let (number, unit) = lower.split_at(end);
        let size = unit_size(text, unit.trim_start())?;
        let bits = scaled(number, size);
        let bits = bits.ok_or_else(|| ValueError::new(format!("{text:?} is not a rate"), REMEDY))?;
        Self::from_bits_per_second(bits)
    }
}

impl Setting for Rate {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"20mbit\"";
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
    Err(ValueError::new(reason, REMEDY))
}

/// `number` × `size`, exactly, or `None` where that is no whole number of bits, overflows, or `number` is no decimal.
fn scaled(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let places = u32::try_from(fraction.len()).ok()?;
    let divisor = 10_u64.checked_pow(places)?;
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(size)?;
    if !fraction.is_multiple_of(divisor) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(size)?.checked_add(fraction / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Result<u64, ValueError> {
        text.parse::<Rate>().map(Rate::bits_per_second)
    }

    #[test]
    fn units_and_fractions() {
        assert_eq!(bits("20mbit"), Ok(20_000_000));
        assert_eq!(bits("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(bits("500 kbit"), Ok(500_000));
        assert_eq!(bits("64.125kbit"), Ok(64_125));
        assert_eq!(bits("20Mbit"), Ok(20_000_000));
        assert_eq!(bits("16000bit"), Ok(16_000));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "mbit",
            "0mbit",
            "-1mbit",
            "20",
            "20mbps",
            "20 furlongs",
            "1.2.3mbit",
            ".5mbit",
            "5.mbit",
            "0.5bit",
            "15kbit",
            "1001gbit",
            "99999999999999999999gbit",
            "1.00000000000000000000000001gbit",
            "٣mbit",
        ] {
            assert!(bits(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reads_back_what_it_prints() {
        for text in ["20mbit", "1500mbit", "64125bit", "1gbit", "500kbit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }
}
