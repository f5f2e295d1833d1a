//! Numbers with units.

/// The number that a text begins with, and the unit that follows it: `1.5` and `gbit`. Either may be empty.
pub fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// `number` × `size`, exactly, or `None` where that is no whole number, overflows, or `number` is no decimal.
pub fn scaled(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let places = u32::try_from(fraction.len()).ok()?;
    let divisor = 10_u64.checked_pow(places)?;
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(size)?;
    if !fraction.is_multiple_of(divisor) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(size)?.checked_add(fraction / divisor)
}
