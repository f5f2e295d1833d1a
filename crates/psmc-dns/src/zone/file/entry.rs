//! What each line of a zone file means.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use domain::base::iana::Rtype;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::BinDecodable;

use super::data;
use super::generate;
use super::lexer::{Line, Word, split_escape};

/// What a line has.
pub(super) enum Entry {
    /// It only changes what others mean.
    Nothing,
    /// One record, or those of a `$GENERATE`.
    Records(Vec<Record>),
    /// Another file stands in its place.
    Include {
        path: PathBuf,
        /// The origin of the names in it, if it is another.
        origin: Option<Name>,
    },
}

/// What lines leave out.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// What relative names are relative to.
    origin: Name,
    /// The name of the last record.
    owner: Option<Name>,
    /// The TTL that `$TTL` gives.
    default_ttl: Option<u32>,
    /// The last TTL that a record had.
    last_ttl: Option<u32>,
}

impl Context {
    pub(super) fn new(origin: &Name) -> Self {
        Self { origin: origin.clone(), owner: None, default_ttl: None, last_ttl: None }
    }

    /// That of an included file.
    pub(super) fn below(&self, origin: Option<Name>) -> Self {
        Self { origin: origin.unwrap_or_else(|| self.origin.clone()), ..self.clone() }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(&mut self, line: &Line) -> Result<Entry, String> {
        match line.words.first() {
            Some(word) if !line.is_continued && !word.is_quoted && word.text.first() == Some(&b'$') => {
                self.direct(line)
            }
            _ => self.record(line).map(|record| Entry::Records(vec![record])),
        }
    }

    fn direct(&mut self, line: &Line) -> Result<Entry, String> {
        let (directive, words) = line.words.split_first().expect("a line has a word");
        if directive.is("$GENERATE") {
            let mut records = Vec::new();
            for line in generate::lines(words, line.number)? {
                records.push(self.record(&line?)?);
            }
            return Ok(Entry::Records(records));
        }
        if directive.is("$ORIGIN") {
            let [origin] = words else { return Err("$ORIGIN takes one name".to_owned()) };
            self.origin = name(origin, &self.origin)?;
        } else if directive.is("$TTL") {
            let [ttl] = words else { return Err("$TTL takes one time".to_owned()) };
            self.default_ttl = Some(time(ttl).ok_or("$TTL takes a time, such as 3600 or 1h")?);
        } else if directive.is("$INCLUDE") {
            let (path, origin) = match words {
                [path] => (path, None),
                [path, origin] => (path, Some(name(origin, &self.origin)?)),
                _ => return Err("$INCLUDE takes a file, and perhaps an origin".to_owned()),
            };
            let path = path.bytes().ok_or("this is no path")?;
            return Ok(Entry::Include { path: PathBuf::from(OsStr::from_bytes(&path)), origin });
        } else {
            let directive = String::from_utf8_lossy(&directive.text);
            return Err(format!("{directive} is unknown: it takes $ORIGIN, $TTL, $INCLUDE or $GENERATE"));
        }
        Ok(Entry::Nothing)
    }

    fn record(&mut self, line: &Line) -> Result<Record, String> {
        let mut words = &line.words[..];
        if !line.is_continued {
            let (owner, rest) = words.split_first().expect("a line has a word");
            self.owner = Some(name(owner, &self.origin)?);
            words = rest;
        }
        let owner = self.owner.clone().ok_or("there is no name, and none in a line before")?;
        let (ttl, words) = ttl_and_class(words)?;
        let (kind, words) = words.split_first().ok_or("a record has a type, and data")?;
        let kind = kind_of(kind).ok_or_else(|| {
            let kind = String::from_utf8_lossy(&kind.text);
            format!("{kind:?} is no type of records: others are written TYPE and their number (RFC 3597)")
        })?;
        if is_meta(kind) {
            return Err(format!("{kind} is no type of records that a zone can have"));
        }
        let data = data::read(kind, words, &self.origin).map_err(|reason| format!("{kind}: {reason}"))?;
        let ttl = ttl.or(self.default_ttl).or(self.last_ttl).or_else(|| minimum(&data));
        let ttl = ttl.ok_or("the record has no TTL, and nothing before it says one: begin with $TTL")?;
        self.last_ttl = Some(ttl);
        Ok(Record::from_rdata(owner, ttl, data))
    }
}

/// Types that only questions and messages have, not zones (RFC 6895 §3.1).
pub(in crate::zone) fn is_meta(kind: RecordType) -> bool {
    matches!(u16::from(kind), 0 | 41 | 128..=255)
}

/// A type by its name, or as `TYPE` and its number (RFC 3597 §5).
pub(super) fn kind_of(word: &Word) -> Option<RecordType> {
    let text = word.plain().filter(|_| !word.is_quoted)?;
    // The list of the library has it under another name.
    if text.eq_ignore_ascii_case("NSAP-PTR") {
        return Some(RecordType::from(23));
    }
    Rtype::from_str(text).ok().map(|kind| RecordType::from(kind.to_int()))
}

/// A time in seconds, or with units as in `1h30m`.
pub(super) fn time(word: &Word) -> Option<u32> {
    let text = word.plain()?;
    let (mut total, mut number, mut has_unit) = (0_u64, None::<u64>, false);
    for byte in text.bytes() {
        let unit = match byte.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                let value = number.unwrap_or(0) * 10 + u64::from(digit - b'0');
                number = Some(value).filter(|value| *value <= u32::MAX.into());
                number?;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 24 * 3600,
            b'w' => 7 * 24 * 3600,
            _ => return None,
        };
        total += number.take()? * unit;
        has_unit = true;
    }
    match number {
        Some(seconds) => total += seconds,
        None if !has_unit => return None,
        None => {}
    }
    u32::try_from(total).ok()
}

/// A name, relative to an origin unless it ends in a dot.
pub(super) fn name(word: &Word, origin: &Name) -> Result<Name, String> {
    let wrong = |why: &str| format!("{:?} is no name: {why}", String::from_utf8_lossy(&word.text));
    if word.is("@") {
        return Ok(origin.clone());
    }
    if word.text == b"." {
        return Ok(Name::root());
    }
    let (mut labels, mut wire, mut rest) = (Vec::new(), Vec::new(), &word.text[..]);
    let mut is_absolute = false;
    while !rest.is_empty() {
        let (byte, is_escaped, tail) = split_escape(rest).ok_or_else(|| wrong("an escape is wrong"))?;
        rest = tail;
        is_absolute = byte == b'.' && !is_escaped;
        if is_absolute {
            push_label(&mut wire, &mut labels).ok_or_else(|| wrong("a label has 1 to 63 bytes"))?;
        } else {
            labels.push(byte);
        }
    }
    if is_absolute {
        wire.push(0);
    } else {
        push_label(&mut wire, &mut labels).ok_or_else(|| wrong("a label has 1 to 63 bytes"))?;
        for label in origin.iter() {
            labels.extend(label);
            push_label(&mut wire, &mut labels).ok_or_else(|| wrong("its origin is none"))?;
        }
        wire.push(0);
    }
    if wire.len() > MAX_NAME {
        return Err(wrong("a name has 255 bytes at most"));
    }
    Name::from_bytes(&wire).map_err(|_| wrong("it cannot be written"))
}

fn push_label(wire: &mut Vec<u8>, label: &mut Vec<u8>) -> Option<()> {
    let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
    wire.push(length);
    wire.append(label);
    Some(())
}

/// Takes TTL and class from the front, in any order.
fn ttl_and_class(mut words: &[Word]) -> Result<(Option<u32>, &[Word]), String> {
    let (mut ttl, mut has_class) = (None, false);
    while let Some((word, rest)) = words.split_first() {
        if !has_class && (word.is("IN") || word.is("CLASS1")) {
            has_class = true;
        } else if !has_class && ["CH", "HS", "CS", "CHAOS", "HESIOD"].iter().any(|class| word.is(class)) {
            return Err("only the class IN is served".to_owned());
        } else if ttl.is_none()
            && !word.is_quoted
            && let Some(seconds) = time(word)
        {
            ttl = Some(seconds);
        } else {
            break;
        }
        words = rest;
    }
    Ok((ttl, words))
}

/// Where nothing says a TTL, the first SOA record does.
fn minimum(data: &RData) -> Option<u32> {
    let RData::SOA(soa) = data else { return None };
    Some(soa.minimum)
}

/// The longest name in bytes (RFC 1035 §3.1).
const MAX_NAME: usize = 255;
