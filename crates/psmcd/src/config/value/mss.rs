//! The segments of inner TCP connections.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError};

/// What becomes of the MSS that TCP connections through the tunnel agree on: `"auto"`, `"off"`, or 536 to 65495 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClampMss(psmc_core::ClampMss);

impl ClampMss {
    /// From what every host takes to what the largest packet of IPv4 holds (RFC 9293 §3.7.1).
    const RANGE: RangeInclusive<u16> = 536..=65495;

    /// What the engine is told.
    pub fn setting(self) -> psmc_core::ClampMss {
        self.0
    }
}

impl fmt::Display for ClampMss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            psmc_core::ClampMss::Auto => f.write_str("what fits the smallest path"),
            psmc_core::ClampMss::Off => f.write_str("left to the hosts"),
            psmc_core::ClampMss::To(limit) => write!(f, "at most {limit}"),
        }
    }
}

impl FromStr for ClampMss {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bytes = || text.parse().ok().filter(|bytes| Self::RANGE.contains(bytes));
        match text {
            "auto" => Ok(Self(psmc_core::ClampMss::Auto)),
            "off" => Ok(Self(psmc_core::ClampMss::Off)),
            _ => bytes().map(|bytes| Self(psmc_core::ClampMss::To(bytes))).ok_or_else(|| {
                let remedy = "write \"auto\", \"off\", or the largest MSS, 536 to 65495 bytes";
                ValueError::new(format!("{text:?} is no way to clamp the MSS of TCP"), remedy)
            }),
        }
    }
}

impl Setting for ClampMss {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"auto\"";
}
