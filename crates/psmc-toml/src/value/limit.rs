//! Data rates.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::rate::{RATE_REMEDY, bits_per_second, rate_text};
use super::{Form, Setting, ValueError};

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

impl Setting for Rate {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"20mbit\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_needs_a_rate_to_live_by() {
        assert_eq!("16000bit".parse::<Rate>().unwrap().bits_per_second(), 16_000);
        for bad in ["0mbit", "15kbit", "1001gbit", "20", "mbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reads_back_what_it_prints() {
        assert_eq!("1500mbit".parse::<Rate>().unwrap().to_string(), "1500mbit");
    }
}
