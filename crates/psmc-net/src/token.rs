//! Secret words by which programs are let in.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use thiserror::Error;
use zeroize::Zeroizing;

/// The shortest token in bytes: shorter ones can be tried out.
pub const MIN_TOKEN_LEN: usize = 16;

/// Text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a token is one word of {MIN_TOKEN_LEN} characters or more")]
pub struct TokenError;

/// A secret word: whoever shows it is let in. Wiped from memory when dropped.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// Reads a token; white space around it is ignored.
    ///
    /// # Errors
    /// [`TokenError`] if `text` is not one word of printable ASCII, or is too short.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let word = text.trim();
        let is_token = word.len() >= MIN_TOKEN_LEN && word.chars().all(|c| c.is_ascii_graphic());
        if is_token { Ok(Self(Zeroizing::new(word.to_owned()))) } else { Err(TokenError) }
    }

    /// Another token, which follows from this one and the purpose that it is for. This one does not follow from it, unless it can be
    /// guessed. It is HMAC-SHA-256 (RFC 2104) of the purpose under this one, in hexadecimal digits.
    #[must_use]
    pub fn derived(&self, purpose: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let tag = hmac::sign(&key, purpose.as_bytes());
        let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self(Zeroizing::new(digits.collect()))
    }

    /// The word, to be shown where it lets in.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is what somebody shows. How long that takes does not tell how much of a guess is right.
    #[must_use]
    pub fn is(&self, shown: &[u8]) -> bool {
        verify_slices_are_equal(shown, self.0.as_bytes()).is_ok()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.0.as_bytes())
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_long_word() {
        let token = Token::parse(" 0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        for text in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcdéf"] {
            assert_eq!(Token::parse(text), Err(TokenError), "{text}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    /// RFC 4231, section 4.3.
    #[test]
    fn another_token_follows_from_it() {
        let jefe = Token(Zeroizing::new("Jefe".to_owned()));
        let derived = jefe.derived("what do ya want for nothing?");
        assert_eq!(derived.reveal(), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_eq!(Token::parse(derived.reveal()).unwrap(), derived);
    }
}
