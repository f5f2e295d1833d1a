//! The words and signs of DOT.

/// A word, with or without quotes, or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Sign(char),
    /// `--`, or, if directed, `->`.
    Edge {
        directed: bool,
    },
}

/// The text that is left to read.
#[derive(Default)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    rest: &'a str,
    peeked: Option<Token>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, rest: text, peeked: None }
    }

    /// The line that was read last, from 1.
    pub(super) fn line(&self) -> usize {
        let read = &self.text[..self.text.len() - self.rest.len()];
        read.trim_end().bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    /// What comes next; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<Token>, String> {
        if self.peeked.is_none() {
            self.peeked = self.read()?;
        }
        Ok(self.peeked.clone())
    }

    pub(super) fn word(&mut self) -> Result<String, String> {
        match self.peek()? {
            Some(Token::Word(word)) => {
                self.peeked = None;
                Ok(word)
            }
            Some(Token::Sign(sign)) => Err(format!("a name should stand here, not {sign:?}")),
            Some(Token::Edge { .. }) => Err("a name should stand here, not an edge".to_owned()),
            None => Err("the file ends in the middle of the graph; is it complete?".to_owned()),
        }
    }

    /// Takes a sign if it comes next.
    pub(super) fn take(&mut self, sign: char) -> Result<bool, String> {
        let is_next = self.peek()? == Some(Token::Sign(sign));
        if is_next {
            self.peeked = None;
        } else if self.peeked.is_none() {
            return Err(format!("the file ends where a {sign:?} should be; is it complete?"));
        }
        Ok(is_next)
    }

    pub(super) fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.take(sign)? { Ok(()) } else { Err(format!("a {sign:?} should stand here")) }
    }

    /// Takes an edge if it comes next. It must be of the graph's kind.
    pub(super) fn take_edge(&mut self, is_directed: bool) -> Result<bool, String> {
        let Some(Token::Edge { directed }) = self.peek()? else { return Ok(false) };
        if directed != is_directed {
            return Err(
                "edges are -> in a digraph and -- in a graph; correct the one or the other".to_owned()
            );
        }
        self.peeked = None;
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<Token>, String> {
        self.skip_comments()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        for (sign, directed) in [("--", false), ("->", true)] {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Ok(Some(Token::Edge { directed }));
            }
        }
        if first == '"' {
            return self.quoted().map(Some);
        }
        if "{}[]=;,:".contains(first) {
            self.rest = &self.rest[first.len_utf8()..];
            return Ok(Some(Token::Sign(first)));
        }
        let is_part = |c: char| c.is_alphanumeric() || "_.+".contains(c) || (c == '-' && first == '-');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("{first:?} means nothing here; put names with signs in quotes"));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Some(Token::Word(word.to_owned())))
    }

    fn quoted(&mut self) -> Result<Token, String> {
        let mut word = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((place, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[place + 1..];
                    return Ok(Token::Word(word));
                }
                '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => word.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    /// Spaces, `// …`, `# …` and `/* … */`.
    fn skip_comments(&mut self) -> Result<(), String> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or("a comment is not closed")?;
                self.rest = &comment[end + 2..];
            } else {
                return Ok(());
            }
        }
    }
}
