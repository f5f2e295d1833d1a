//! What the head of an answer says about the file.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use hyper::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER,
    TRANSFER_ENCODING,
};
use hyper::{Response, StatusCode};

use super::MirrorError;

/// What a mirror says of the file: by that it is known whether it is still the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// In bytes.
    pub(crate) length: u64,
    /// When it changed last, in the words of the mirror. Mirrors that copy files with their times agree on it.
    pub(crate) modified: Option<String>,
    /// Whatever the mirror calls this version; another mirror may call it something else.
    pub(crate) etag: Option<String>,
}

/// By what it is known that answers are of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// What servers say of it.
    Words,
    /// Its hash, in the end. Until then only lengths count: several machines behind one name, or mirrors that got the file at
    /// different times, have it with different times and names.
    Hash,
}

/// Which part of the file an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// These bytes.
    Range(Range<u64>),
    /// All of it, whatever was asked for.
    Whole,
}

/// How the bytes of an answer become those of the file (RFC 9110, section 8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// They are.
    Identity,
    /// They are to be decompressed first.
    Gzip,
    /// The same, by a name that only servers use.
    Other(String),
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) part: Piece,
    /// Of the whole file, in bytes, if the answer says so.
    pub(crate) length: Option<u64>,
    pub(crate) modified: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) coding: Coding,
    /// Whether the end of the answer is told from a connection that breaks (RFC 9112, section 6.3).
    pub(crate) has_end: bool,
}

impl Head {
    pub(super) fn read<B>(response: &Response<B>) -> Result<Self, MirrorError> {
        let headers = response.headers();
        let content_range = text(headers, &CONTENT_RANGE).and_then(|text| ContentRange::parse(&text));
        let content_length = text(headers, &CONTENT_LENGTH).and_then(|text| text.trim().parse().ok());
        let (part, length) = match (response.status(), content_range) {
            // Of an empty file there is no part, but some servers make one up.
            (
                StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE,
                Some(ContentRange { total: Some(0), .. }),
            ) => (Piece::Whole, Some(0)),
            (StatusCode::PARTIAL_CONTENT, Some(ContentRange { range: Some(range), total })) => {
                if content_length.is_some_and(|length| length != range.end - range.start) {
                    return Err(MirrorError::WrongPart);
                }
                (Piece::Range(range), total)
            }
            (StatusCode::PARTIAL_CONTENT, _) => return Err(MirrorError::WrongPart),
            (StatusCode::OK, _) => (Piece::Whole, content_length),
            (status, _) => return Err(MirrorError::Status { status, after: retry_after(headers) }),
        };
        let coding = Coding::of(headers);
        // A part of what was compressed on the way is a part of nothing.
        if matches!(part, Piece::Range(_)) && coding != Coding::Identity && content_length.is_none() {
            return Err(MirrorError::Coding(coding.to_string()));
        }
        let has_end = content_length.is_some() || headers.contains_key(TRANSFER_ENCODING);
        let (modified, etag) = (text(headers, &LAST_MODIFIED), text(headers, &ETAG));
        Ok(Self { part, length, modified, etag, coding, has_end })
    }

    /// What it says of the file, if it says how long that is.
    pub(crate) fn version(&self) -> Option<Version> {
        let (modified, etag) = (self.modified.clone(), self.etag.clone());
        Some(Version { length: self.length?, modified, etag })
    }
}

impl Proof {
    /// Whether two mirrors seem to have the same file.
    pub(crate) fn agree(self, one: &Version, other: &Version) -> bool {
        let times = one.modified.as_ref().zip(other.modified.as_ref());
        let is_same_time = times.is_none_or(|(one, other)| is_same_time(one, other));
        one.length == other.length && (self == Self::Hash || is_same_time)
    }

    /// Whether a mirror that said this before has the same file still. What the file is called by counts only where there is
    /// no time: of several servers behind one name each may call it something else.
    pub(crate) fn is_still(self, before: &Version, now: &Head) -> bool {
        let is_as_long = now.length.is_none_or(|length| length == before.length);
        let is_same = match (&before.modified, &now.modified) {
            (Some(before), Some(now)) => is_same_time(before, now),
            _ => before.etag == now.etag,
        };
        is_as_long && (self == Self::Hash || is_same)
    }
}

/// Whether two times are one, in whichever of the forms (RFC 9110, section 5.6.7).
pub(crate) fn is_same_time(one: &str, other: &str) -> bool {
    let parsed = |text| httpdate::parse_http_date(text).ok();
    one == other || parsed(one).is_some_and(|time| parsed(other) == Some(time))
}

impl Coding {
    fn of(headers: &HeaderMap) -> Self {
        let names = headers.get_all(CONTENT_ENCODING).iter();
        let names = names.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
        let names: Vec<_> =
            names.flat_map(|list| list.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
        let names = names.iter().map(|name| name.trim());
        let names: Vec<_> = names.filter(|name| !matches!(*name, "" | "identity" | "none")).collect();
        match names.as_slice() {
            [] => Self::Identity,
            ["gzip" | "x-gzip"] => Self::Gzip,
            others => Self::Other(others.join(", ")),
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Other(name) => name,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.length)?;
        match &self.modified {
            Some(modified) => write!(out, " of {modified}"),
            None => Ok(()),
        }
    }
}

/// The header `Content-Range` (RFC 9110, section 14.4).
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContentRange {
    range: Option<Range<u64>>,
    total: Option<u64>,
}

impl ContentRange {
    /// Units are compared without regard to case (RFC 9110, section 14.1). What some servers write between unit and numbers
    /// instead of a space changes no number.
    fn parse(text: &str) -> Option<Self> {
        let (unit, numbers) = text.trim().split_at_checked("bytes".len())?;
        let numbers = numbers.strip_prefix([' ', '\t', '=', ':'])?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (range, total) = numbers.split_once('/')?;
        let total = match total.trim() {
            "*" => None,
            number => Some(number.parse().ok()?),
        };
        if range.trim() == "*" {
            return Some(Self { range: None, total });
        }
        let (first, last) = range.trim().split_once('-')?;
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let end = last.checked_add(1)?;
        if total == Some(0) {
            return Some(Self { range: None, total });
        }
        let is_sound = first < end && total.is_none_or(|total| end <= total);
        is_sound.then_some(Self { range: Some(first..end), total })
    }
}

/// When a server wants to be asked again: seconds, or a time (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?;
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(SystemTime::now()).unwrap_or_default())
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(status: u16, headers: &[(&str, &str)]) -> Result<Head, MirrorError> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Head::read(&response.body(()).unwrap())
    }

    #[test]
    fn parts_and_lengths_are_found() {
        let part = head(206, &[("content-range", "bytes 5-9/100"), ("etag", "\"x\"")]).unwrap();
        assert_eq!((part.part, part.length), (Piece::Range(5..10), Some(100)));
        assert_eq!(part.etag.as_deref(), Some("\"x\""));
        let whole = head(200, &[("content-length", "7")]).unwrap();
        assert_eq!((whole.part, whole.length), (Piece::Whole, Some(7)));
        let unknown = head(206, &[("content-range", "bytes 0-0/*")]).unwrap();
        assert_eq!((unknown.part, unknown.length), (Piece::Range(0..1), None));
        assert_eq!(head(200, &[]).unwrap().length, None);
    }

    #[test]
    fn empty_files_have_no_parts() {
        for (status, range) in [
            (416, "bytes */0"),
            (416, "Bytes */0"),
            (206, "bytes 0-0/0"),
            (206, "bytes */0"),
            (206, "bytes 0-4/0"),
        ] {
            let empty = head(status, &[("content-range", range)]).unwrap();
            assert_eq!((empty.part, empty.length), (Piece::Whole, Some(0)), "{status} {range}");
        }
    }

    #[test]
    fn units_are_read_in_any_spelling() {
        for range in
            ["Bytes 5-9/100", "BYTES 5-9/100", "bytes=5-9/100", "bytes: 5-9/100", "bytes\t5 - 9 / 100"]
        {
            let part = head(206, &[("content-range", range)]).unwrap();
            assert_eq!((part.part, part.length), (Piece::Range(5..10), Some(100)), "{range}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for range in [
            "bytes 9-5/100",
            "bytes 5-100/100",
            "bytes */100",
            "5-9/100",
            "bytes5-9/100",
            "lines 5-9/100",
            "byteé 5-9/100",
            "bytes 5-/9",
            "bytes 0-18446744073709551615/*",
        ] {
            assert!(matches!(head(206, &[("content-range", range)]), Err(MirrorError::WrongPart)), "{range}");
        }
        let longer = head(206, &[("content-range", "bytes 5-9/100"), ("content-length", "6")]);
        assert!(matches!(longer, Err(MirrorError::WrongPart)));
        let lasting = [404, 416, 503, 429].map(|status| head(status, &[]).unwrap_err().is_lasting());
        assert_eq!(lasting, [true, true, false, false]);
    }

    proptest! {
        #[test]
        fn no_header_is_too_much(range in "(bytes|Bytes)?[ =]?[0-9*]{0,21}-?[0-9*]{0,21}/?[0-9*]{0,21}") {
            if let Ok(Head { part: Piece::Range(range), length, .. }) = head(206, &[("content-range", &range)]) {
                prop_assert!(range.start < range.end && length.is_none_or(|length| range.end <= length));
            }
        }
    }

    #[test]
    fn codings_are_known_in_any_spelling() {
        let coding =
            |value: &str| head(200, &[("content-length", "7"), ("content-encoding", value)]).unwrap().coding;
        for plain in ["identity", "Identity", "none", ""] {
            assert_eq!(coding(plain), Coding::Identity, "{plain}");
        }
        assert_eq!([coding("gzip"), coding("X-GZip"), coding("gzip, identity")], [const { Coding::Gzip }; 3]);
        assert_eq!(coding("br"), Coding::Other("br".to_owned()));
        assert_eq!(coding("gzip, gzip"), Coding::Other("gzip, gzip".to_owned()));
    }

    #[test]
    fn parts_that_are_compressed_on_the_way_are_refused() {
        let part = [("content-range", "bytes 5-9/100"), ("content-encoding", "gzip")];
        assert!(matches!(head(206, &part), Err(MirrorError::Coding(_))));
        let stored = [part[0], part[1], ("content-length", "5")];
        assert_eq!(head(206, &stored).unwrap().part, Piece::Range(5..10), "a file that is stored so");
    }

    #[test]
    fn a_server_says_when_to_come_back() {
        let after = |value: &str| {
            let error = head(503, &[("retry-after", value)]).unwrap_err();
            let MirrorError::Status { after, .. } = error else { panic!("{error}") };
            after
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO), "that is over");
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        assert!(after(&later).is_some_and(|after| after > Duration::from_secs(3500)));
        assert_eq!(after("soon"), None);
    }

    fn version(length: u64, modified: Option<&str>) -> Version {
        Version { length, modified: modified.map(str::to_owned), etag: None }
    }

    fn said(version: &Version) -> Head {
        Head {
            part: Piece::Whole,
            length: Some(version.length),
            modified: version.modified.clone(),
            etag: version.etag.clone(),
            coding: Coding::Identity,
            has_end: true,
        }
    }

    #[test]
    fn a_mirror_has_the_same_file_as_long_as_it_says_so() {
        let tagged = |time, tag: &str| Version { etag: Some(tag.to_owned()), ..version(1, time) };
        let is_still = |before: &Version, now: &Version| Proof::Words.is_still(before, &said(now));
        assert!(is_still(&tagged(Some("a"), "x"), &tagged(Some("a"), "y")));
        assert!(!is_still(&tagged(Some("a"), "x"), &tagged(Some("b"), "x")));
        assert!(is_still(&tagged(None, "x"), &tagged(None, "x")));
        assert!(!is_still(&tagged(None, "x"), &tagged(None, "y")));
        assert!(!is_still(&version(1, None), &version(2, None)));
        let silent = Head { length: None, ..said(&version(1, None)) };
        assert!(Proof::Words.is_still(&version(1, None), &silent), "a length that is not told is no other");
    }

    #[test]
    fn a_hash_makes_all_but_the_length_unimportant() {
        let tagged = |time, tag: &str| Version { etag: Some(tag.to_owned()), ..version(1, time) };
        let (one, other) = (tagged(Some("a"), "x"), tagged(Some("b"), "y"));
        assert!(Proof::Hash.is_still(&one, &said(&other)) && Proof::Hash.agree(&one, &other));
        assert!(!Proof::Hash.is_still(&one, &said(&version(2, Some("a")))));
        assert!(!Proof::Hash.agree(&one, &version(2, Some("a"))));
    }

    #[test]
    fn mirrors_that_do_not_say_when_agree() {
        let agree = |one: &Version, other: &Version| Proof::Words.agree(one, other);
        assert!(agree(&version(1, Some("a")), &version(1, None)));
        assert!(agree(&version(1, Some("a")), &version(1, Some("a"))));
        assert!(!agree(&version(1, Some("a")), &version(1, Some("b"))));
        assert!(!agree(&version(1, None), &version(2, None)));
    }

    #[test]
    fn one_time_has_three_forms() {
        let [first, second, third] =
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        assert!(is_same_time(first, second) && is_same_time(second, third));
        assert!(!is_same_time(first, "Sun, 06 Nov 1994 08:49:38 GMT"));
    }
}
