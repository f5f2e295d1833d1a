//! Values of a quota.

use std::str::FromStr;

use psmc_toml::{Kind, ValueError, number_and_unit, scaled};

use psmc_core::Tier;

use crate::quota::{Every, Quota, Then};

/// Days of a week.
const WEEK: i8 = 7;

/// Units of bytes. The larger come first: [`bytes_text`] takes the first that fits.
const UNITS: [(&str, u64); 6] = [
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
];

/// Bytes of a quota: a number with a unit, of which 1 MB is the least, as less could be used before it is counted, and 1 EB the most.
pub(in crate::config) const QUOTA_BYTES: Kind<u64> = Kind::text("\"50GB\"", |text| {
    const MOST: u64 = 1_000_000_000_000_000_000;
    let split = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), bytes)));
    let number = split.filter(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()));
    let bytes = number.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(*unit));
    bytes.filter(|bytes| (1_000_000..=MOST).contains(bytes)).ok_or_else(|| {
        let remedy = "write whole bytes with a unit, such as \"50GB\" or \"500MB\"; 1MB is the least";
        ValueError::new(format!("{text:?} is no number of bytes for a quota"), remedy)
    })
});

/// What becomes of a path whose quota is used up.
pub(in crate::config) const THEN: Kind<Then> = Kind::text("\"backup\"", |text| match text.split_once(':') {
    None if text == "backup" => Ok(Then::Backup),
    None if text == "never" => Ok(Then::Never),
    Some(("slow", rate)) => rate.parse().map(Then::Slow),
    None | Some(_) => Err(ValueError::new(
        format!("nothing is called {text:?} that could become of the path"),
        "write \"backup\", \"never\", or \"slow:2mbit\" with the rate to go on at",
    )),
});

/// The day on which a week or a month begins.
pub(in crate::config) const DAY: Kind<i8> = Kind::number("1", |text| {
    let remedy =
        "choose 1 to 31, the day of the month on which it begins; of a week 1 is Monday and 7 Sunday";
    psmc_toml::within(text, 1..=31, format_args!("{text} is no day on which a period begins"), remedy)
});

/// Bytes that were used of a quota: what providers show, such as `12.3GB`, or `0MB`.
pub const USED_BYTES: Kind<u64> = Kind::text("\"12.3GB\"", |text| {
    let (number, unit) = number_and_unit(text);
    let size = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
    size.and_then(|size| scaled(number, size)).ok_or_else(|| {
        let remedy = "write a number with a unit, such as 12.3GB, 800MB or 0MB";
        ValueError::new(format!("{text:?} is no number of bytes"), remedy)
    })
});

/// Complains of a day on which such a period cannot begin.
pub(in crate::config) fn check_day(every: Every, day: i8) -> Result<(), ValueError> {
    match every {
        Every::Day => Err(ValueError::new("a day begins at midnight", "remove `day`")),
        Every::Week if day > WEEK => {
            let remedy = "choose 1, which is Monday, to 7, which is Sunday";
            Err(ValueError::new("a week has seven days", remedy))
        }
        Every::Week | Every::Month => Ok(()),
    }
}

/// Bytes in the largest unit that needs no fraction. All quotas have one.
pub(in crate::config) fn bytes_text(bytes: u64) -> String {
    let fitting = UNITS.into_iter().find(|(_, size)| bytes.is_multiple_of(*size));
    let (unit, size) = fitting.unwrap_or(("B", 1));
    format!("{}{unit}", bytes / size)
}

/// As command lines spell it: `50GB/month/12,backup`, where the day may be left out.
impl FromStr for Quota {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "write bytes/period,then or bytes/period/day,then: 50GB/month,backup or \
                      50GB/month/12,slow:2mbit";
        let wrong = || ValueError::new(format!("{text:?} is no quota"), remedy);
        let (amount, then) = text.split_once(',').ok_or_else(wrong)?;
        let mut parts = amount.split('/');
        let (bytes, every) = parts.next().zip(parts.next()).ok_or_else(wrong)?;
        let (bytes, every) = (QUOTA_BYTES.read(bytes)?, every.parse()?);
        let day = parts.next().map(|day| DAY.read(day)).transpose()?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        day.map(|day| check_day(every, day)).transpose()?;
        Ok(Self { bytes, every, day: day.unwrap_or(1), then: THEN.read(then)? })
    }
}

impl Quota {
    /// The text that is read as this quota.
    #[must_use]
    pub fn spelt(&self) -> String {
        let Self { bytes, every, day, then } = self;
        let (bytes, every_text) = (bytes_text(*bytes), every.as_str());
        match every {
            Every::Week | Every::Month if *day != 1 => format!("{bytes}/{every_text}/{day},{then}"),
            Every::Day | Every::Week | Every::Month => format!("{bytes}/{every_text},{then}"),
        }
    }

    /// Complains if a path of this tier would not be worse off when the quota is used up.
    pub(crate) fn check_tier(&self, tier: Tier) -> Result<(), ValueError> {
        if self.then.tier() == Tier::Primary || tier < self.then.tier() {
            return Ok(());
        }
        let remedy = "write then = \"never\", or \"slow:2mbit\", or give the path another tier";
        Err(ValueError::new(format!("the path has the tier \"{}\" already", tier.name()), remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_and_bounds() {
        for (text, bytes) in
            [("50GB", 50_000_000_000), ("1 MB", 1_000_000), ("2GiB", 2 << 30), ("1000000TB", 10u64.pow(18))]
        {
            assert_eq!(QUOTA_BYTES.read(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "50",
            "GB",
            "0GB",
            "50gb",
            "1.5GB",
            "-1GB",
            "999999B",
            "1000001TB",
            "99999999999999TB",
            "٣GB",
        ] {
            assert!(QUOTA_BYTES.read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_quota_is_spelt_as_it_is_read() {
        for text in [
            "50GB/month,backup",
            "50GB/month/31,never",
            "1500MB/week/7,slow:2mbit",
            "3MiB/day,backup",
            "2TiB/week,backup",
        ] {
            assert_eq!(text.parse::<Quota>().unwrap().spelt(), text);
        }
        for bad in [
            "",
            "50GB",
            "50GB,backup",
            "50GB/year,backup",
            "50GB/month",
            "50GB/month/32,backup",
            "50GB/week/8,backup",
            "50GB/day/1,backup",
            "50GB/month/1/1,backup",
            "50GB/month,faster",
            "1kB/month,backup",
        ] {
            assert!(bad.parse::<Quota>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_was_used_is_told_as_providers_show_it() {
        for (text, bytes) in
            [("12.3GB", 12_300_000_000), ("0MB", 0), ("1.5 GiB", 3 << 29), ("800MB", 800_000_000)]
        {
            assert_eq!(USED_BYTES.read(text), Ok(bytes), "{text}");
        }
        for bad in ["", "12", "GB", "-1GB", "1.GB", "12gb", "99999999999TB", "0.0000001MB"] {
            assert!(USED_BYTES.read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_becomes_of_a_path_is_spelt_as_it_is_read() {
        for text in ["backup", "never", "slow:2mbit"] {
            assert_eq!(THEN.read(text).unwrap().to_string(), text);
        }
        for bad in ["", "slow", "slow:", "slow:fast", "backup:1mbit", "primary"] {
            assert!(THEN.read(bad).is_err(), "{bad:?}");
        }
        assert!(DAY.read("31").is_ok() && DAY.read("32").is_err() && DAY.read("0").is_err());
    }
}
