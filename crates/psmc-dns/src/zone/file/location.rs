//! Places on Earth (RFC 1876 §3).

use super::lexer::Word;

/// Thousandths of a second of arc from the equator, and from Greenwich, are counted from here.
const MIDDLE: i64 = 1 << 31;

/// Altitudes are counted in centimetres from so far below the sea.
const BELOW_CM: i64 = 10_000_000;

/// The data of a LOC record: latitude, longitude, altitude, and perhaps size and precisions.
pub(super) fn read(words: &[Word]) -> Option<Vec<u8>> {
    let words: Vec<&str> = words.iter().map(Word::plain).collect::<Option<_>>()?;
    let (latitude, rest) = angle(&words, ["N", "S"], 90)?;
    let (longitude, rest) = angle(rest, ["E", "W"], 180)?;
    let (altitude, rest) = rest.split_first()?;
    let altitude = centimetres(altitude)? + BELOW_CM;
    // The defaults: one metre, ten kilometres, ten metres.
    let mut lengths = [0x12, 0x16, 0x13];
    if rest.len() > lengths.len() {
        return None;
    }
    for (length, word) in lengths.iter_mut().zip(rest) {
        *length = power(centimetres(word)?)?;
    }
    let [size, horizontal, vertical] = lengths;
    let mut bytes = vec![0, size, horizontal, vertical];
    for number in [latitude, longitude, altitude] {
        bytes.extend(u32::try_from(number).ok()?.to_be_bytes());
    }
    Some(bytes)
}

/// Degrees, perhaps minutes and seconds, and which way.
fn angle<'a, 'b>(words: &'a [&'b str], ways: [&str; 2], most: i64) -> Option<(i64, &'a [&'b str])> {
    let is_way = |word: &&str| ways.iter().any(|way| way.eq_ignore_ascii_case(word));
    let place = words.iter().position(is_way)?;
    let (numbers, rest) = words.split_at(place);
    let (degrees, minutes, seconds) = match numbers {
        [degrees] => (*degrees, "0", "0"),
        [degrees, minutes] => (*degrees, *minutes, "0"),
        [degrees, minutes, seconds] => (*degrees, *minutes, *seconds),
        _ => return None,
    };
    let whole = |text: &str, most: i64| text.parse().ok().filter(|number| (0..=most).contains(number));
    let thousandths = decimal(seconds, 3).filter(|number| (0..60_000).contains(number))?;
    let angle = (whole(degrees, most)? * 60 + whole(minutes, 59)?) * 60_000 + thousandths;
    if angle > most * 3_600_000 {
        return None;
    }
    let (way, rest) = rest.split_first()?;
    let sign = if ways[0].eq_ignore_ascii_case(way) { 1 } else { -1 };
    Some((MIDDLE + sign * angle, rest))
}

/// Metres, with or without an `m`, in centimetres.
fn centimetres(text: &str) -> Option<i64> {
    decimal(text.strip_suffix(['m', 'M']).unwrap_or(text), 2)
}

/// A number with so many digits behind its point at most, times the power of ten that makes it whole.
fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > digits || !(whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = format!("{whole}{fraction:0<digits$}").parse().ok()?;
    Some(sign * number)
}

/// A length as a digit and a power of ten, in a byte.
fn power(mut centimetres: i64) -> Option<u8> {
    let mut exponent = 0;
    while centimetres > 9 {
        centimetres /= 10;
        exponent += 1;
    }
    let mantissa = u8::try_from(centimetres).ok()?;
    (exponent <= 9).then_some(mantissa << 4 | exponent)
}
