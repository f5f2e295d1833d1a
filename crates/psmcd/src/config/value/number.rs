//! Numbers with bounds.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use psmc_toml::{Form, Setting, ValueError};

/// The share of a path in the `wrr` scheduler: 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

impl Weight {
    /// What weights may be. 1000 to 1 is more than any two useful links differ, and keeps a round of the scheduler short.
    const RANGE: RangeInclusive<u16> = 1..=1000;

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Weight {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        bounded(text, &Self::RANGE).map(Self).ok_or_else(|| {
            let remedy =
                "weights go from 1 to 1000; a path of weight 2 gets twice the packets of one of weight 1";
            ValueError::new(format!("{text} is not a weight"), remedy)
        })
    }
}

impl Setting for Weight {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "2";
}

/// The MTU of the TUN interface in bytes: 1280 to 65000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnerMtu(u16);

impl InnerMtu {
    /// The smallest: what IPv6 asks of every link (RFC 8200 §5).
    pub const LEAST: u16 = 1280;

    /// What an interface has at least that is fitted to its paths: a full-size packet then fits, sealed, into an Ethernet
    /// frame, PPPoE's or an LTE link's, whatever the IP version of the network.
    pub const FITTED_LEAST: u16 = 1400;

    /// What such an interface has at most: what hosts, and the networks behind them, are used to.
    pub const FITTED_MOST: u16 = 1500;

    /// Up to a TUN's 65535 less room for offload headers.
    const RANGE: RangeInclusive<u16> = Self::LEAST..=65000;

    /// Bytes.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl FromStr for InnerMtu {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        bounded(text, &Self::RANGE).map(Self).ok_or_else(|| {
            let remedy = "choose 1280 to 65000 bytes, or leave it out to have it fitted to the paths";
            ValueError::new(format!("{text} is no MTU for the tunnel"), remedy)
        })
    }
}

impl Setting for InnerMtu {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "1400";
}

/// The MTU of an outer link, in bytes of an IP packet: 1280 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkMtu(u16);

impl LinkMtu {
    /// From what every path is taken to carry (RFC 8200 §5, RFC 8899 §5.1.2) to the largest packet that IP has.
    const RANGE: RangeInclusive<u16> = 1280..=65535;

    /// Bytes.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl FromStr for LinkMtu {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        bounded(text, &Self::RANGE).map(Self).ok_or_else(|| {
            let remedy = "choose 1280 to 65535 bytes, or leave it out to take the interface's";
            ValueError::new(format!("{text} is no MTU for a path"), remedy)
        })
    }
}

impl Setting for LinkMtu {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "1500";
}

/// How often an idle path says that it is alive: every 1 to 120 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keepalive(Duration);

impl Keepalive {
    /// In seconds. "A NAT UDP mapping timer MUST NOT expire in less than two minutes" (RFC 4787, REQ-5): a longer
    /// silence would lose the mapping.
    const RANGE: RangeInclusive<u16> = 1..=120;

    /// The time between two signs of life.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Default for Keepalive {
    /// 10 s: within the 30 s of the strictest common NATs even when two in a row are lost.
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

impl FromStr for Keepalive {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let digits = text.strip_suffix('s').unwrap_or(text).trim_end();
        bounded(digits, &Self::RANGE).map(|s| Self(Duration::from_secs(s.into()))).ok_or_else(|| {
            let remedy =
                "choose 1 to 120 seconds, written 10 or \"10s\"; NATs forget a path that is silent longer";
            ValueError::new(format!("{text:?} is no keepalive interval"), remedy)
        })
    }
}

impl Setting for Keepalive {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"10s\"";
}

fn bounded(text: &str, range: &RangeInclusive<u16>) -> Option<u16> {
    text.parse().ok().filter(|n| range.contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert!("0".parse::<Weight>().is_err() && "1001".parse::<Weight>().is_err());
        assert!("1279".parse::<InnerMtu>().is_err() && "65001".parse::<InnerMtu>().is_err());
        assert!("1279".parse::<LinkMtu>().is_err() && "65536".parse::<LinkMtu>().is_err());
        assert_eq!("1000".parse::<Weight>().unwrap().get(), 1000);
        assert_eq!("1280".parse::<InnerMtu>().unwrap().get(), 1280);
    }

    #[test]
    fn keepalive_with_and_without_its_unit() {
        for text in ["25", "25s", "25 s"] {
            assert_eq!(text.parse::<Keepalive>().unwrap().get(), Duration::from_secs(25));
        }
        for bad in ["0", "121", "25m", "s", "", "-1"] {
            assert!(bad.parse::<Keepalive>().is_err(), "{bad:?}");
        }
    }
}
