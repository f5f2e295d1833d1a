//! What the head of an answer says about the file.

use std::fmt;
use std::ops::Range;

use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use hyper::{Response, StatusCode};

use super::error::MirrorError;

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

/// Which part of the file an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// These bytes.
    Range(Range<u64>),
    /// All of it, whatever was asked for.
    Whole,
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) part: Part,
    pub(crate) version: Version,
}

impl Head {
    pub(super) fn read<B>(response: &Response<B>) -> Result<Self, MirrorError> {
        let headers = response.headers();
        let content_range = text(headers, &CONTENT_RANGE).and_then(|text| ContentRange::parse(&text));
        let (part, length) = match (response.status(), content_range) {
            (StatusCode::PARTIAL_CONTENT, Some(ContentRange { range: Some(range), total })) => {
                (Part::Range(range), total)
            }
            (StatusCode::PARTIAL_CONTENT, _) => return Err(MirrorError::WrongPart),
            // Of an empty file there is no part.
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(ContentRange { range: None, total: Some(0) })) => {
                (Part::Whole, Some(0))
            }
            (StatusCode::OK, _) => {
                (Part::Whole, text(headers, &CONTENT_LENGTH).and_then(|text| text.parse().ok()))
            }
            (status, _) => return Err(MirrorError::Status(status)),
        };
        let length = length.ok_or(MirrorError::NoLength)?;
        let version = Version { length, modified: text(headers, &LAST_MODIFIED), etag: text(headers, &ETAG) };
        Ok(Self { part, version })
    }
}

impl Version {
    /// Whether a mirror that said this before has the same file still. What the file is called by counts only where there is
    /// no time: of several servers behind one name each may call it something else.
    pub(crate) fn is_still(&self, later: &Self) -> bool {
        self.length == later.length
            && match (&self.modified, &later.modified) {
                (Some(before), Some(now)) => before == now,
                _ => self.etag == later.etag,
            }
    }

    /// Whether two mirrors seem to have the same file.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let times = self.modified.as_ref().zip(other.modified.as_ref());
        self.length == other.length && times.is_none_or(|(one, other)| one == other)
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
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let total = match total.trim() {
            "*" => None,
            number => Some(number.parse().ok()?),
        };
        if range.trim() == "*" {
            return Some(Self { range: None, total });
        }
        let (first, last) = range.trim().split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let end = last.checked_add(1)?;
        let is_sound = first < end && total.is_none_or(|total| end <= total);
        is_sound.then_some(Self { range: Some(first..end), total })
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
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
        assert_eq!((part.part, part.version.length), (Part::Range(5..10), 100));
        assert_eq!(part.version.etag.as_deref(), Some("\"x\""));
        let whole = head(200, &[("content-length", "7")]).unwrap();
        assert_eq!((whole.part, whole.version.length), (Part::Whole, 7));
        let empty = head(416, &[("content-range", "bytes */0")]).unwrap();
        assert_eq!((empty.part, empty.version.length), (Part::Whole, 0));
    }

    #[test]
    fn nonsense_is_refused() {
        for range in [
            "bytes 9-5/100",
            "bytes 5-100/100",
            "bytes */100",
            "5-9/100",
            "bytes 5-/9",
            "bytes 0-18446744073709551615/*",
        ] {
            assert!(matches!(head(206, &[("content-range", range)]), Err(MirrorError::WrongPart)), "{range}");
        }
        assert!(matches!(head(206, &[("content-range", "bytes 0-0/*")]), Err(MirrorError::NoLength)));
        assert!(matches!(head(200, &[]), Err(MirrorError::NoLength)));
        let lasting = [404, 416, 503, 429].map(|status| head(status, &[]).unwrap_err().is_lasting());
        assert_eq!(lasting, [true, true, false, false]);
    }

    fn version(length: u64, modified: Option<&str>) -> Version {
        Version { length, modified: modified.map(str::to_owned), etag: None }
    }

    #[test]
    fn a_mirror_has_the_same_file_as_long_as_it_says_so() {
        let tagged = |time, tag: &str| Version { etag: Some(tag.to_owned()), ..version(1, time) };
        assert!(tagged(Some("a"), "x").is_still(&tagged(Some("a"), "y")));
        assert!(!tagged(Some("a"), "x").is_still(&tagged(Some("b"), "x")));
        assert!(tagged(None, "x").is_still(&tagged(None, "x")));
        assert!(!tagged(None, "x").is_still(&tagged(None, "y")));
        assert!(!version(1, None).is_still(&version(2, None)));
    }

    #[test]
    fn mirrors_that_do_not_say_when_agree() {
        assert!(version(1, Some("a")).agrees(&version(1, None)));
        assert!(version(1, Some("a")).agrees(&version(1, Some("a"))));
        assert!(!version(1, Some("a")).agrees(&version(1, Some("b"))));
        assert!(!version(1, None).agrees(&version(2, None)));
    }
}
