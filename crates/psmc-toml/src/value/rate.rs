//! Data rates.

use super::ValueError;
use super::quantity::{number_and_unit, scaled};

/// What to write where a rate is wrong.
pub const RATE_REMEDY: &str =
    "write a number and kbit, mbit or gbit (per second), such as \"20mbit\" or \"1.5gbit\"";

/// The units, and their size in bit/s. The larger come first: `rate_text` takes the first that fits.
const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];

/// The bits per second of a text such as `1.5gbit`. Bounds are the caller's.
pub fn bits_per_second(text: &str) -> Result<u64, ValueError> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = number_and_unit(&lower);
    let size = unit_size(text, unit)?;
    let bits = scaled(number, size);
    bits.ok_or_else(|| ValueError::new(format!("{text:?} is not a rate"), RATE_REMEDY))
}

/// A rate in the largest unit that needs no fraction, so that it reads back as the same.
pub fn rate_text(bits: u64) -> String {
    let fitting = UNITS.into_iter().find(|(_, size)| bits.is_multiple_of(*size));
    let (unit, size) = fitting.unwrap_or(("bit", 1));
    format!("{}{unit}", bits / size)
}

fn unit_size(text: &str, unit: &str) -> Result<u64, ValueError> {
    if let Some((_, size)) = UNITS.into_iter().find(|(name, _)| *name == unit) {
        return Ok(size);
    }
    let reason = match unit {
        "" => format!("the rate {text:?} has no unit"),
        "kbps" | "mbps" | "gbps" => format!("{unit:?} could mean bits or bytes"),
        _ => format!("{text:?} is not a rate"),
    };
    Err(ValueError::new(reason, RATE_REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions() {
        assert_eq!(bits_per_second("20mbit"), Ok(20_000_000));
        assert_eq!(bits_per_second("1.5gbit"), Ok(1_500_000_000));
        assert_eq!(bits_per_second("500 kbit"), Ok(500_000));
        assert_eq!(bits_per_second("64.125kbit"), Ok(64_125));
        assert_eq!(bits_per_second("20Mbit"), Ok(20_000_000));
        assert_eq!(bits_per_second("16000bit"), Ok(16_000));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "mbit",
            "-1mbit",
            "20",
            "20mbps",
            "20 furlongs",
            "1.2.3mbit",
            ".5mbit",
            "5.mbit",
            "0.5bit",
            "99999999999999999999gbit",
            "1.00000000000000000000000001gbit",
            "٣mbit",
        ] {
            assert!(bits_per_second(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reads_back_what_it_prints() {
        for text in ["20mbit", "1500mbit", "64125bit", "1gbit", "500kbit", "0gbit"] {
            assert_eq!(rate_text(bits_per_second(text).unwrap()), text);
        }
    }
}
