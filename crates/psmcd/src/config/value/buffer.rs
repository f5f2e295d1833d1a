//! The buffers of the policies `fixed` and `adaptive`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use psmc_toml::{Form, Setting, ValueError};

/// How long a buffer of fixed size holds a packet: 1 to 1000 milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferTimeout(Duration);

impl BufferTimeout {
    /// In milliseconds. After a second a sender's retransmission timer runs out at the latest (RFC 6298 §2.4).
    const RANGE: RangeInclusive<u64> = 1..=1000;

    /// The longest time that a packet is held.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Default for BufferTimeout {
    /// 100 ms: half of the shortest retransmission timeout that Linux has.
    fn default() -> Self {
        Self(Duration::from_millis(100))
    }
}

impl fmt::Display for BufferTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}

impl FromStr for BufferTimeout {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let digits = text.strip_suffix("ms").unwrap_or(text).trim_end();
        let ms = digits.parse().ok().filter(|ms| Self::RANGE.contains(ms));
        ms.map(|ms| Self(Duration::from_millis(ms))).ok_or_else(|| {
            let remedy = "choose 1 to 1000 milliseconds, written 50 or \"50ms\"";
            ValueError::new(format!("{text:?} is no time to hold a packet"), remedy)
        })
    }
}

impl Setting for BufferTimeout {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"50ms\"";
}

/// A size of a buffer, in packets: 1 to 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferPackets(u16);

impl BufferPackets {
    /// 4096 is the most that the engine waits for in one flow.
    const RANGE: RangeInclusive<u16> = 1..=4096;

    /// 20 packets: in the middle of the sizes that the literature found to be equally good (PSMC, fig. 4.6b).
    pub const FIXED: Self = Self(20);

    /// As small as can be: the number of paths then decides.
    pub const LEAST: Self = Self(1);

    /// 40 packets: the largest of the sizes that the literature compares (PSMC, fig. 4.6a).
    pub const MOST: Self = Self(40);

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for BufferPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BufferPackets {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|n| Self::RANGE.contains(n)).map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is no size for a buffer"), "choose 1 to 4096 packets")
        })
    }
}

impl Setting for BufferPackets {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "20";
}

/// How many times its lower limit an adaptive buffer is large at first: 1 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferFactor(u16);

impl BufferFactor {
    /// Below 1 a buffer would be smaller than its lower limit; beyond 16 it would never be full.
    const RANGE: RangeInclusive<u16> = 1..=16;

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for BufferFactor {
    /// "a is a user specified parameter, usually a = 2" (PSMC ch. IV).
    fn default() -> Self {
        Self(2)
    }
}

impl fmt::Display for BufferFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BufferFactor {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|n| Self::RANGE.contains(n)).map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is no factor for a buffer"), "choose 1 to 16; usual is 2")
        })
    }
}

impl Setting for BufferFactor {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "2";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_with_and_without_its_unit() {
        for text in ["50", "50ms", "50 ms"] {
            assert_eq!(text.parse::<BufferTimeout>().unwrap().get(), Duration::from_millis(50));
        }
        for bad in ["0", "1001", "50s", "ms", "", "-1"] {
            assert!(bad.parse::<BufferTimeout>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bounds_hold() {
        assert!("0".parse::<BufferPackets>().is_err() && "4097".parse::<BufferPackets>().is_err());
        assert!("0".parse::<BufferFactor>().is_err() && "17".parse::<BufferFactor>().is_err());
        assert_eq!("4096".parse::<BufferPackets>().unwrap().get(), 4096);
    }
}
