//! Times, sizes, rates, and what is measured in them.

use std::time::Duration;

use psmc_sim::link::QueueLimit;
use psmc_toml::{Kind, RATE_REMEDY, ValueError, bits_per_second, number_and_unit, rate_text, scaled};

/// The units of time, and their size in nanoseconds.
const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A day. Nobody waits longer for a scenario, and a larger number is a typing error.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// The units of size, and how many bytes they are. Without one, a number is of bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("bytes", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A terabyte: 100 Gbit/s for more than a minute. A larger number is a typing error.
const MAX_SIZE: u64 = 1_000_000_000_000;

/// Below this rate a full-size packet takes more than ten seconds: nothing that is sent today lives with that.
const MIN_LINK_RATE: u64 = 1000;

/// A million packets: what a link of 100 Gbit/s sends in a tenth of a second. More is a typing error.
const MAX_QUEUE_PACKETS: usize = 1_000_000;

/// A time: 0 to 24 hours.
pub(crate) const TIME: Kind<Duration> = Kind::text("\"10ms\"", |text| {
    const REMEDY: &str = "write a number and ms, s or min, such as \"20ms\" or \"1.5s\"";
    let (number, unit) = number_and_unit(text);
    let Some((_, size)) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit) else {
        let reason = match unit {
            "" => format!("the time {text:?} has no unit"),
            _ => format!("{text:?} is not a time"),
        };
        return Err(ValueError::new(reason, REMEDY));
    };
    match scaled(number, size).map(Duration::from_nanos) {
        Some(time) if time <= MAX_TIME => Ok(time),
        Some(_) => Err(ValueError::new(format!("{text:?} is more than a day"), REMEDY)),
        None => Err(ValueError::new(format!("{text:?} is not a time"), REMEDY)),
    }
});

/// A number of bytes: 0 to 1 TB.
pub(in crate::scenario) const SIZE: Kind<u64> = Kind::text_or_number("\"100kB\"", |text| {
    const REMEDY: &str = "write a number of bytes, or one with kB, MB or GB, such as \"100kB\"";
    let (number, unit) = number_and_unit(text);
    let Some((_, size)) = SIZE_UNITS.into_iter().find(|(name, _)| *name == unit) else {
        let reason = match unit {
            "k" | "kb" | "Kb" | "KB" | "m" | "M" | "mb" | "Mb" | "g" | "G" | "gb" | "Gb" => {
                format!("{unit:?} could mean bits or bytes, or 1024 of them")
            }
            _ => format!("{text:?} is not a number of bytes"),
        };
        return Err(ValueError::new(reason, REMEDY));
    };
    match scaled(number, size) {
        Some(bytes) if bytes <= MAX_SIZE => Ok(bytes),
        Some(_) => Err(ValueError::new(format!("{text:?} is more than 1000 GB"), REMEDY)),
        None => Err(ValueError::new(format!("{text:?} is not a number of bytes"), REMEDY)),
    }
});

/// The rate of a link in bit/s.
pub(crate) const LINK_RATE: Kind<u64> = Kind::text("\"50mbit\"", |text| {
    let remedy = "for a link that carries nothing, leave its rate alone and cut it by an [[event]]";
    match bounded_rate(text, MIN_LINK_RATE)? {
        0 => Err(ValueError::new("the rate of a link is not 0", remedy)),
        bits => Ok(bits),
    }
});

/// The rate of a stream in bit/s.
pub(in crate::scenario) const STREAM_RATE: Kind<u64> =
    Kind::text("\"10mbit\"", |text| match bounded_rate(text, 1)? {
        0 => Err(ValueError::new("a stream of rate 0 is none", format!("remove it, or {RATE_REMEDY}"))),
        bits => Ok(bits),
    });

/// A rate of 0, or one from `min` to beyond any link.
fn bounded_rate(text: &str, min: u64) -> Result<u64, ValueError> {
    match bits_per_second(text)? {
        bits if bits > 0 && bits < min => {
            let reason = format!("{bits} bit/s is too slow to be used, {} is the least", rate_text(min));
            Err(ValueError::new(reason, RATE_REMEDY))
        }
        bits if bits > MAX_BITS_PER_SECOND => {
            Err(ValueError::new("the rate is more than 1000gbit, beyond any link", RATE_REMEDY))
        }
        bits => Ok(bits),
    }
}

/// Beyond any link there is: a larger number is a typing error.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000;

/// How much a queue holds: packets, bytes or time.
pub(in crate::scenario) const QUEUE: Kind<QueueLimit> = Kind::text("\"64 packets\"", |text| {
    let (number, unit) = number_and_unit(text);
    let limit = match unit {
        "" => None,
        "packet" | "packets" => {
            let packets = number.parse().ok().filter(|number| (1..=MAX_QUEUE_PACKETS).contains(number));
            packets.map(QueueLimit::Packets)
        }
        _ => queue_bytes(text).or_else(|| queue_time(text)),
    };
    limit.ok_or_else(|| {
        let remedy =
            "write how many packets, bytes or milliseconds it holds: \"64 packets\", \"100kB\" or \"50ms\"";
        ValueError::new(format!("{text:?} is no length of a queue"), remedy)
    })
});

fn queue_bytes(text: &str) -> Option<QueueLimit> {
    let bytes = SIZE.read(text).ok().filter(|size| *size > 0)?;
    usize::try_from(bytes).ok().map(QueueLimit::Bytes)
}

fn queue_time(text: &str) -> Option<QueueLimit> {
    TIME.read(text).ok().filter(|time| !time.is_zero()).map(QueueLimit::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let time = |text: &str| TIME.read(text);
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(time("1.5 ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(time("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        for bad in ["", "10", "s", "-1s", "1 fortnight", "25h", "0.1ns", "99999999999999999999s"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_of_bytes() {
        let size = |text: &str| SIZE.read(text);
        assert_eq!(size("200"), Ok(200));
        assert_eq!(size("1.5kB"), Ok(1500));
        assert_eq!(size("64 KiB"), Ok(65_536));
        for bad in ["", "kB", "10kb", "10Mb", "1.5B", "-1", "1001GB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn links_have_a_rate_worth_the_name() {
        assert_eq!(LINK_RATE.read("1kbit"), Ok(1000));
        assert_eq!(STREAM_RATE.read("1bit"), Ok(1));
        for bad in ["0mbit", "999bit", "1001gbit", "10"] {
            assert!(LINK_RATE.read(bad).is_err(), "{bad:?}");
        }
        assert!(STREAM_RATE.read("0bit").is_err());
    }

    #[test]
    fn queues_hold_packets_bytes_or_time() {
        let queue = |text: &str| QUEUE.read(text).ok();
        assert_eq!(queue("64 packets"), Some(QueueLimit::Packets(64)));
        assert_eq!(queue("1packet"), Some(QueueLimit::Packets(1)));
        assert_eq!(queue("100kB"), Some(QueueLimit::Bytes(100_000)));
        assert_eq!(queue("50ms"), Some(QueueLimit::Time(Duration::from_millis(50))));
        for bad in ["", "64", "0 packets", "1.5 packets", "0B", "0s", "2000000 packets", "5 crates"] {
            assert_eq!(queue(bad), None, "{bad:?}");
        }
    }
}
