//! Values of a quota.

use psmc_toml::{Kind, ValueError};

use crate::quota::Then;

/// Bytes of a quota: a number with a unit, of which 1 MB is the least, as less could be used before it is counted, and 1 EB the most.
pub(in crate::config) const QUOTA_BYTES: Kind<u64> = Kind::text("\"50GB\"", |text| {
    const UNITS: [(&str, u64); 6] = [
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
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
