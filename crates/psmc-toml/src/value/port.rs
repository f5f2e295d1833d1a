//! Ports.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use super::ValueError;

/// A UDP or TCP port; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

impl Port {
    /// The port on which a site listens unless it is told another.
    pub const DEFAULT: Self = Self(NonZeroU16::new(5115).expect("5115 is not 0"));

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Port {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let reason = format!("{text:?} is not a port");
            ValueError::new(
                reason,
                format!("a port is a number from 1 to 65535; PSMC's own is {}", Self::DEFAULT),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert!("0".parse::<Port>().is_err() && "65536".parse::<Port>().is_err());
        assert_eq!("65535".parse::<Port>().unwrap().get(), 65535);
    }
}
