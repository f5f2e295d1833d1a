//! What links have: chances and queues.

use std::str::FromStr;
use std::time::Duration;

use psmc_sim::link::{Probability, QueueLimit};
use psmc_toml::{Form, Setting, ValueError, number_and_unit};

use super::{Size, Time};

/// A chance, written in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scenario) struct Percent(pub(in crate::scenario) Probability);

impl FromStr for Percent {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (number, unit) = number_and_unit(text);
        let chance = number.parse().ok().and_then(|percent: f64| Probability::new(percent / 100.0));
        match (chance, unit) {
            (Some(chance), "%") => Ok(Self(chance)),
            (None | Some(_), _) => {
                let remedy = "write 0 to 100 and a percent sign, such as \"0.5%\"";
                Err(ValueError::new(format!("{text:?} is not a chance in percent"), remedy))
            }
        }
    }
}

impl Setting for Percent {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"0.5%\"";
}

/// How much a queue holds: packets, bytes or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Queue(pub(in crate::scenario) QueueLimit);

impl Queue {
    /// A million packets: what a link of 100 Gbit/s sends in a tenth of a second. More is a typing error.
    const MAX_PACKETS: usize = 1_000_000;

    fn packets(number: &str) -> Option<QueueLimit> {
        let number = number.parse().ok().filter(|number| (1..=Self::MAX_PACKETS).contains(number))?;
        Some(QueueLimit::Packets(number))
    }

    fn bytes(text: &str) -> Option<QueueLimit> {
        let bytes = text.parse::<Size>().ok().filter(|size| size.0 > 0)?.0;
        usize::try_from(bytes).ok().map(QueueLimit::Bytes)
    }

    fn time(text: &str) -> Option<QueueLimit> {
        text.parse::<Time>()
            .ok()
            .map(|time| time.0)
            .filter(|time| *time > Duration::ZERO)
            .map(QueueLimit::Time)
    }
}

impl FromStr for Queue {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (number, unit) = number_and_unit(text);
        let limit = match unit {
            "" => None,
            "packet" | "packets" => Self::packets(number),
            _ => Self::bytes(text).or_else(|| Self::time(text)),
        };
        limit.map(Self).ok_or_else(|| {
            let remedy = "write how many packets, bytes or milliseconds it holds: \"64 packets\", \"100kB\" or \"50ms\"";
            ValueError::new(format!("{text:?} is no length of a queue"), remedy)
        })
    }
}

impl Setting for Queue {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"64 packets\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_in_percent() {
        assert_eq!("0.5%".parse::<Percent>().unwrap().0.get(), 0.005);
        assert_eq!("100 %".parse::<Percent>().unwrap().0.get(), 1.0);
        for bad in ["", "%", "1", "101%", "-1%", "1.2.3%", "1percent"] {
            assert!(bad.parse::<Percent>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn queues_hold_packets_bytes_or_time() {
        let queue = |text: &str| text.parse::<Queue>().map(|queue| queue.0).ok();
        assert_eq!(queue("64 packets"), Some(QueueLimit::Packets(64)));
        assert_eq!(queue("1packet"), Some(QueueLimit::Packets(1)));
        assert_eq!(queue("100kB"), Some(QueueLimit::Bytes(100_000)));
        assert_eq!(queue("50ms"), Some(QueueLimit::Time(Duration::from_millis(50))));
        for bad in ["", "64", "0 packets", "1.5 packets", "0B", "0s", "2000000 packets", "5 crates"] {
            assert_eq!(queue(bad), None, "{bad:?}");
        }
    }
}
