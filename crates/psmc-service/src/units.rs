//! Quantities for people.

/// Bytes, in powers of 1000.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [(&str, u64); 5] = [
        ("PB", 1_000_000_000_000_000),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1000),
    ];
    match UNITS.into_iter().find(|(_, size)| number >= *size) {
        // In tenths, rounded down, without the loss of digits that a fraction would bring.
        Some((unit, size)) => format!("{}.{} {unit}", number / size, number % size / (size / 10)),
        None => format!("{number} B"),
    }
}

/// Milliseconds.
#[must_use]
pub fn duration_ms(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.1} ms") }
}

/// Megabits per second.
#[must_use]
pub fn rate_mbps(mbps: f64) -> String {
    if mbps < 1000.0 { format!("{mbps:.1} Mbit/s") } else { format!("{:.2} Gbit/s", mbps / 1000.0) }
}

/// Seconds, in the two largest units that fit.
#[must_use]
pub fn age(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    let (days, hours, minutes) = (whole / 86400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {} s", whole % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(1000), bytes(1_999_999)],
            ["0 B", "999 B", "1.0 kB", "1.9 MB"]
        );
        assert_eq!(bytes(u64::MAX), "18446.7 PB");
        assert_eq!([duration_ms(0.4), duration_ms(31.27)], ["0.40 ms", "31.3 ms"]);
        assert_eq!([rate_mbps(19.96), rate_mbps(1234.0)], ["20.0 Mbit/s", "1.23 Gbit/s"]);
        assert_eq!(
            [age(0.9), age(61.0), age(3700.0), age(90_000.0)],
            ["0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]
        );
        assert_eq!(age(-1.0), "0 s");
    }
}
