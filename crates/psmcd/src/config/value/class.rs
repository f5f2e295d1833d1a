//! What tells the packets of a class from others, and its share.

use std::ops::RangeInclusive;

use psmc_core::condition::{AssuredClass, Mode, SeedRules};
use psmc_toml::{Kind, ValueError, choose, within};

/// A differentiated services code point (RFC 2474), by its name or as a number from 0 to 63.
pub(in crate::config) const DSCP: Kind<u8> = Kind::text_or_number("\"EF\"", |text| {
    let upper = text.to_ascii_uppercase();
    let named = match upper.as_str() {
        "EF" => Some(46),
        "VA" => Some(44),
        "LE" => Some(1),
        "NQB" => Some(45),
        "DF" | "BE" => Some(0),
        name => class_selector(name).or_else(|| assured(name)),
    };
    named.or_else(|| digits(text).filter(|number| *number < 64)).ok_or_else(|| {
        let remedy = "write a name such as \"EF\", \"CS1\" or \"AF41\", or a number from 0 to 63";
        ValueError::new(format!("{text:?} is no DSCP"), remedy)
    })
});

/// A number without a sign, which `parse` would take.
fn digits(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// `CS0` to `CS7` (RFC 2474 §4.2.2).
fn class_selector(name: &str) -> Option<u8> {
    let number = digits(name.strip_prefix("CS")?)?;
    (number < 8).then_some(number * 8)
}

/// `AF11` to `AF43`: class and drop precedence (RFC 2597 §6).
fn assured(name: &str) -> Option<u8> {
    let number = digits(name.strip_prefix("AF")?)?;
    let (class, precedence) = (number / 10, number % 10);
    ((1..=4).contains(&class) && (1..=3).contains(&precedence)).then_some(class * 8 + precedence * 2)
}

/// A protocol above IP, by its name or IANA's number.
pub(in crate::config) const PROTOCOL: Kind<u8> = Kind::text_or_number("\"udp\"", |text| {
    const NAMES: [(&str, u8); 8] = [
        ("tcp", 6),
        ("udp", 17),
        ("icmp", 1),
        ("icmpv6", 58),
        ("sctp", 132),
        ("dccp", 33),
        ("esp", 50),
        ("gre", 47),
    ];
    if let Ok(number) = text.parse::<i64>() {
        let remedy = "IANA's numbers go from 0 to 255";
        return u8::try_from(number).map_err(|_| ValueError::new(format!("{number} is no protocol"), remedy));
    }
    choose("protocol", NAMES, |(name, _)| name, text).map(|(_, number)| number)
});

/// One port, or all from one to another.
pub(in crate::config) const PORTS: Kind<RangeInclusive<u16>> = Kind::text_or_number("443", |text| {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
    let range = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    range.map(|(first, last)| first..=last).ok_or_else(|| {
        let remedy = "write a port such as 443, or the first and the last of several: \"5000-5100\"";
        ValueError::new(format!("{text:?} is no range of ports"), remedy)
    })
});

/// The share of a class while others want more than there is: the engine's range.
pub(in crate::config) const CLASS_WEIGHT: Kind<u16> = Kind::number("10", |text| {
    let remedy = "weights of classes go from 1 to 100; best effort has 10";
    within(text, 1..=100, format_args!("{text} is not a weight"), remedy)
});

/// How the packets of a class are marked that has a profile.
pub(in crate::config) const CONDITIONER: Kind<Mode> = Kind::text("\"adaptive\"", |text| {
    let modes = [Mode::Off, Mode::Standard, Mode::Seed(SeedRules::default()), Mode::Adaptive];
    choose("conditioner", modes, |mode| mode.name(), text)
});

/// The class of assured forwarding that tells routers of the marks, if any does (RFC 2597).
pub(in crate::config) const ASSURED: Kind<Option<AssuredClass>> = Kind::text("\"AF1\"", |text| {
    const NAMES: [(&str, u8); 5] = [("none", 0), ("AF1", 1), ("AF2", 2), ("AF3", 3), ("AF4", 4)];
    choose("mark", NAMES, |(name, _)| name, text).map(|(_, number)| AssuredClass::new(number))
});

/// The burst of a profile that says nothing of it, in bytes: what segmentation offload sends at once.
pub(in crate::config) const DEFAULT_BURST: u64 = 64_000;

/// Two packets of full size: with less, one could wait for ever.
const MIN_BURST: u64 = 3000;

/// A second at 1 Gb/s: a larger one is no burst.
const MAX_BURST: u64 = 125_000_000;

/// Bytes that may exceed the rate of a profile for a moment.
pub(in crate::config) const BURST: Kind<u64> = Kind::text("\"64kB\"", |text| {
    const UNITS: [(&str, u64); 5] =
        [("KiB", 1 << 10), ("MiB", 1 << 20), ("kB", 1000), ("MB", 1_000_000), ("B", 1)];
    let split = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), bytes)));
    let number = split.filter(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()));
    let bytes = number.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(*unit));
    bytes.filter(|bytes| (MIN_BURST..=MAX_BURST).contains(bytes)).ok_or_else(|| {
        let remedy = "write bytes with a unit, such as \"64kB\"; 3000B is the least, 125MB the most";
        ValueError::new(format!("{text:?} is no burst"), remedy)
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names_and_numbers() {
        let numbers =
            [("EF", 46), ("cs0", 0), ("CS7", 56), ("AF11", 10), ("af43", 38), ("LE", 1), ("63", 63)];
        for (text, number) in numbers {
            assert_eq!(DSCP.read(text), Ok(number), "{text}");
        }
        for bad in ["", "64", "CS8", "AF14", "AF51", "AF1", "CS", "CS+1", "AF+41", "+46", "expedited", "-1"] {
            assert!(DSCP.read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn profiles_have_bounds_and_marks_have_names() {
        let bursts = [("3000B", 3000), ("64kB", 64_000), ("64 KiB", 65_536), ("1MB", 1_000_000)];
        for (text, bytes) in bursts {
            assert_eq!(BURST.read(text), Ok(bytes), "{text}");
        }
        for bad in
            ["", "B", "64", "2999B", "126MB", "-64kB", "+64kB", "6.4kB", "99999999999999999999B", "٣kB"]
        {
            assert!(BURST.read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ASSURED.read("AF3"), Ok(AssuredClass::new(3)));
        assert_eq!(ASSURED.read("none"), Ok(None));
        assert!(ASSURED.read("AF5").is_err() && ASSURED.read("AF11").is_err());
        assert_eq!(CONDITIONER.read("standard"), Ok(Mode::Standard));
        assert!(CONDITIONER.read("Adaptive").is_err());
    }

    #[test]
    fn protocols_and_ports_have_bounds() {
        assert_eq!(["udp", "17", "icmpv6"].map(|text| PROTOCOL.read(text).unwrap()), [17, 17, 58]);
        assert!(PROTOCOL.read("256").is_err() && PROTOCOL.read("http").is_err());
        assert_eq!(PORTS.read("5000 - 5100"), Ok(5000..=5100));
        assert_eq!(PORTS.read("443"), Ok(443..=443));
        for bad in ["", "0", "65536", "2-1", "1-", "-2", "1-2-3"] {
            assert!(PORTS.read(bad).is_err(), "{bad:?}");
        }
        assert!(CLASS_WEIGHT.read("0").is_err() && CLASS_WEIGHT.read("101").is_err());
    }
}
