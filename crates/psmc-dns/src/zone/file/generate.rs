//! `$GENERATE`, by which BIND and others write many records of a kind in one line.

use super::lexer::{Line, Lines, Word};

/// Records of one `$GENERATE` at most: a network of /8 has as many addresses.
const MAX_GENERATED: u64 = 1 << 24;

/// The lines that it stands for.
pub(super) fn lines(
    words: &[Word],
    number: usize,
) -> Result<impl Iterator<Item = Result<Line, String>>, String> {
    let [range, name, rest @ .., data] = words else {
        return Err("$GENERATE takes a range, a name, a type and data".to_owned());
    };
    let (first, last, step) = range
        .plain()
        .and_then(parse_range)
        .ok_or("$GENERATE takes a range such as 1-254 or 0-100/2, of at most 2^24 records")?;
    let spaced = |word: &Word| [&word.text[..], b" "].concat();
    let template: Vec<u8> =
        [spaced(name), rest.iter().flat_map(spaced).collect(), data.text.clone()].concat();
    Ok((first..=last).step_by(step).map(move |value| {
        let text = substituted(&template, value).ok_or("$GENERATE has a ${…} that is wrong")?;
        let line = Lines::new(&text).next().map_err(|(_, reason)| reason.to_owned())?;
        let line = line.ok_or("$GENERATE yields nothing")?;
        Ok(Line { number, ..line })
    }))
}

/// `start-stop` or `start-stop/step`.
fn parse_range(text: &str) -> Option<(u32, u32, usize)> {
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-')?;
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let step: u32 = step.parse().ok().filter(|step| *step > 0)?;
    let count = u64::from(last.checked_sub(first)?) / u64::from(step) + 1;
    (count <= MAX_GENERATED).then_some((first, last, usize::try_from(step).ok()?))
}

/// A template with each `$` and `${offset,width,base}` replaced by the value; `\$` and `$$` stay as `$`.
fn substituted(mut template: &[u8], value: u32) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        template = match template {
            [] => return Some(text),
            [b'\\', b'$', rest @ ..] | [b'$', b'$', rest @ ..] => {
                text.push(b'$');
                rest
            }
            [b'\\', other, rest @ ..] => {
                text.extend([b'\\', *other]);
                rest
            }
            [b'$', b'{', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b'}')?;
                text.extend(formatted(std::str::from_utf8(&rest[..end]).ok()?, value)?.bytes());
                &rest[end + 1..]
            }
            [b'$', rest @ ..] => {
                text.extend(value.to_string().bytes());
                rest
            }
            [other, rest @ ..] => {
                text.push(*other);
                rest
            }
        };
    }
}

/// A value by `offset,width,base`, the last two of which may be missing.
fn formatted(form: &str, value: u32) -> Option<String> {
    let mut parts = form.split(',');
    let offset: i64 = parts.next()?.trim().parse().ok()?;
    let width: usize = parts.next().map_or(Some(0), |width| width.trim().parse().ok())?;
    let base = parts.next().map_or("d", str::trim);
    if parts.next().is_some() || width > MAX_WIDTH {
        return None;
    }
    let value = u32::try_from(i64::from(value) + offset).ok()?;
    Some(match base {
        "d" => format!("{value:0width$}"),
        "o" => format!("{value:0width$o}"),
        "x" => format!("{value:0width$x}"),
        "X" => format!("{value:0width$X}"),
        "n" => nibbles(&format!("{value:x}"), width),
        "N" => nibbles(&format!("{value:X}"), width),
        _ => return None,
    })
}

/// Hexadecimal digits in reverse, with dots between them, in so many characters at least: as `ip6.arpa` has them.
fn nibbles(digits: &str, width: usize) -> String {
    let count = digits.len().max(width.div_ceil(2));
    let padded = digits.chars().rev().chain(std::iter::repeat('0')).take(count);
    padded.map(String::from).collect::<Vec<_>>().join(".")
}

/// The longest number: more digits fit into no label.
const MAX_WIDTH: usize = 255;
