//! From the text of a zone file to words (RFC 1035 §5.1).

/// A word. Its escapes are still in it: what they mean depends on where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: Vec<u8>,
    /// Whether it stood between quotation marks, as a whole.
    pub(super) is_quoted: bool,
}

/// An entry: a line, or several that parentheses join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: usize,
    /// Whether it begins with a space: its name is that of the line before.
    pub(super) is_continued: bool,
    pub(super) words: Vec<Word>,
}

/// The lines of a text that have something in them.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

/// What a text ends in before it should.
pub(super) type Unfinished = (usize, &'static str);

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        // Some editors of other systems put a mark of three bytes in front.
        Self { rest: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text), number: 1 }
    }

    /// The next line with something in it.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Unfinished> {
        while !self.rest.is_empty() {
            let line = self.line()?;
            if !line.words.is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Line, Unfinished> {
        let number = self.number;
        let is_continued = matches!(self.rest.first(), Some(b' ' | b'\t'));
        let (mut words, mut open) = (Vec::new(), 0_usize);
        while let Some((byte, rest)) = self.rest.split_first() {
            match byte {
                b'\n' => {
                    self.rest = rest;
                    self.number += 1;
                    if open == 0 {
                        return Ok(Line { number, is_continued, words });
                    }
                }
                b' ' | b'\t' | b'\r' => self.rest = rest,
                b';' => {
                    let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    self.rest = &rest[length..];
                }
                b'(' => {
                    open += 1;
                    self.rest = rest;
                }
                b')' => {
                    open = open
                        .checked_sub(1)
                        .ok_or((self.number, "a parenthesis is closed that is not open"))?;
                    self.rest = rest;
                }
                b'"' => {
                    self.rest = rest;
                    words.push(Word { text: self.quoted()?, is_quoted: true });
                }
                _ => words.push(Word { text: self.plain()?, is_quoted: false }),
            }
        }
        if open > 0 {
            return Err((number, "a parenthesis is not closed"));
        }
        Ok(Line { number, is_continued, words })
    }

    /// A word up to a space; where it goes on in quotation marks behind a `=`, up to their end.
    fn plain(&mut self) -> Result<Vec<u8>, Unfinished> {
        let mut text = Vec::new();
        while let Some((byte, rest)) = self.rest.split_first() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' => break,
                b'"' if text.last() == Some(&b'=') => {
                    self.rest = rest;
                    text.extend(self.quoted()?);
                    break;
                }
                b'"' if !text.is_empty() => break,
                _ => self.take(&mut text),
            }
        }
        Ok(text)
    }

    /// What is between quotation marks, of which the first one has been passed.
    fn quoted(&mut self) -> Result<Vec<u8>, Unfinished> {
        let (mut text, number) = (Vec::new(), self.number);
        while let Some((byte, rest)) = self.rest.split_first() {
            match byte {
                b'"' => {
                    self.rest = rest;
                    return Ok(text);
                }
                b'\n' => return Err((number, "a quotation mark is not closed")),
                _ => self.take(&mut text),
            }
        }
        Err((number, "a quotation mark is not closed"))
    }

    /// Moves a byte to a word; with a backslash, the one behind it as well.
    fn take(&mut self, text: &mut Vec<u8>) {
        let length = match self.rest {
            [b'\\', b'\n', ..] | [b'\\'] => 1,
            [b'\\', _, ..] => 2,
            _ => 1,
        };
        let (taken, rest) = self.rest.split_at(length);
        text.extend(taken);
        self.rest = rest;
    }
}

impl Word {
    /// The word without its escapes: `\DDD` is a byte, `\X` is X. `None` for a number above 255.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        unescaped(&self.text)
    }

    /// The word, if it has no escapes and nothing but ASCII in it.
    pub(super) fn plain(&self) -> Option<&str> {
        let is_plain = self.text.is_ascii() && !self.text.contains(&b'\\');
        std::str::from_utf8(&self.text).ok().filter(|_| is_plain)
    }

    /// Whether it is this word, in any case, and not quoted.
    pub(super) fn is(&self, word: &str) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Splits what an escape yields from the front: the byte, whether it was escaped, and the rest.
pub(super) fn split_escape(text: &[u8]) -> Option<(u8, bool, &[u8])> {
    match text {
        [b'\\', a, b, c, rest @ ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()) => {
            let value = [a, b, c].iter().fold(0_u16, |value, digit| value * 10 + u16::from(**digit - b'0'));
            Some((u8::try_from(value).ok()?, true, rest))
        }
        [b'\\', other, rest @ ..] => Some((*other, true, rest)),
        [byte, rest @ ..] => Some((*byte, false, rest)),
        [] => None,
    }
}

pub(super) fn unescaped(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while !text.is_empty() {
        let (byte, _, rest) = split_escape(text)?;
        bytes.push(byte);
        text = rest;
    }
    Some(bytes)
}
