//! What tells the packets of a class from others, and its share.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError, choose};

/// A differentiated services code point (RFC 2474), by its name or as a number from 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Dscp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let upper = text.to_ascii_uppercase();
        let named = match upper.as_str() {
            "EF" => Some(46),
            "VA" => Some(44),
            "LE" => Some(1),
            "DF" | "BE" => Some(0),
            name => class_selector(name).or_else(|| assured(name)),
        };
        named.or_else(|| text.parse().ok().filter(|number| *number < 64)).map(Self).ok_or_else(|| {
            let remedy = "write a name such as \"EF\", \"CS1\" or \"AF41\", or a number from 0 to 63";
            ValueError::new(format!("{text:?} is no DSCP"), remedy)
        })
    }
}

/// `CS0` to `CS7` (RFC 2474 §4.2.2).
fn class_selector(name: &str) -> Option<u8> {
    let number: u8 = name.strip_prefix("CS")?.parse().ok()?;
    (number < 8).then_some(number * 8)
}

/// `AF11` to `AF43`: class and drop precedence (RFC 2597 §6).
fn assured(name: &str) -> Option<u8> {
    let number: u8 = name.strip_prefix("AF")?.parse().ok()?;
    let (class, precedence) = (number / 10, number % 10);
    ((1..=4).contains(&class) && (1..=3).contains(&precedence)).then_some(class * 8 + precedence * 2)
}

impl Setting for Dscp {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"EF\"";
}

/// A protocol above IP, by its name or IANA's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(u8);

impl Protocol {
    const NAMES: [(&'static str, u8); 8] = [
        ("tcp", 6),
        ("udp", 17),
        ("icmp", 1),
        ("icmpv6", 58),
        ("sctp", 132),
        ("dccp", 33),
        ("esp", 50),
        ("gre", 47),
    ];

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Protocol {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Ok(number) = text.parse::<i64>() {
            let remedy = "IANA's numbers go from 0 to 255";
            let protocol = u8::try_from(number).map(Self);
            return protocol.map_err(|_| ValueError::new(format!("{number} is no protocol"), remedy));
        }
        choose("protocol", Self::NAMES, |(name, _)| name, text).map(|(_, number)| Self(number))
    }
}

impl Setting for Protocol {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "\"udp\"";
}

/// One port, or all from one to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortRange(RangeInclusive<u16>);

impl PortRange {
    /// The ports.
    pub fn get(&self) -> RangeInclusive<u16> {
        self.0.clone()
    }
}

impl FromStr for PortRange {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
        let range = port(first).zip(port(last)).filter(|(first, last)| first <= last);
        range.map(|(first, last)| Self(first..=last)).ok_or_else(|| {
            let remedy = "write a port such as 443, or the first and the last of several: \"5000-5100\"";
            ValueError::new(format!("{text:?} is no range of ports"), remedy)
        })
    }
}

impl Setting for PortRange {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "443";
}

/// Whose turn it is first, among classes that have not used up their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassPriority {
    /// Before all others.
    High,
    /// In the middle.
    #[default]
    Normal,
    /// When nobody else has anything.
    Low,
}

impl ClassPriority {
    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl FromStr for ClassPriority {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("priority", [Self::High, Self::Normal, Self::Low], Self::as_str, text)
    }
}

impl Setting for ClassPriority {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"high\"";
}

/// The share of a class while others want more than there is: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassWeight(u16);

impl ClassWeight {
    /// What weights may be: the engine's range.
    const RANGE: RangeInclusive<u16> = 1..=100;

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for ClassWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ClassWeight {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|weight| Self::RANGE.contains(weight)).map(Self).ok_or_else(|| {
            let remedy = "weights of classes go from 1 to 100; best effort has 10";
            ValueError::new(format!("{text} is not a weight"), remedy)
        })
    }
}

impl Setting for ClassWeight {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "10";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names_and_numbers() {
        let numbers =
            [("EF", 46), ("cs0", 0), ("CS7", 56), ("AF11", 10), ("af43", 38), ("LE", 1), ("63", 63)];
        for (text, number) in numbers {
            assert_eq!(text.parse::<Dscp>().unwrap().get(), number, "{text}");
        }
        for bad in ["", "64", "CS8", "AF14", "AF51", "AF1", "CS", "expedited", "-1"] {
            assert!(bad.parse::<Dscp>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn protocols_and_ports_have_bounds() {
        assert_eq!(["udp", "17", "icmpv6"].map(|text| text.parse::<Protocol>().unwrap().get()), [17, 17, 58]);
        assert!("256".parse::<Protocol>().is_err() && "http".parse::<Protocol>().is_err());
        assert_eq!("5000 - 5100".parse::<PortRange>().unwrap().get(), 5000..=5100);
        assert_eq!("443".parse::<PortRange>().unwrap().get(), 443..=443);
        for bad in ["", "0", "65536", "2-1", "1-", "-2", "1-2-3"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad:?}");
        }
        assert!("0".parse::<ClassWeight>().is_err() && "101".parse::<ClassWeight>().is_err());
    }
}
