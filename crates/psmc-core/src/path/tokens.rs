//! The tokens of a path's challenges.

use siphasher::sip::SipHasher24;

/// Tokens that nobody can guess who has not received them, whatever others he has seen: the numbers from zero under a keyed hash.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    secret: [u64; 2],
    drawn: u64,
}

impl Tokens {
    /// Those of a secret that is used for nothing else.
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        Self { secret, drawn: 0 }
    }

    /// How many were drawn.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// The next one.
    pub(crate) fn next(&self) -> [u8; 8] {
        let [key0, key1] = self.secret;
        SipHasher24::new_with_keys(key0, key1).hash(&self.drawn.to_be_bytes()).to_be_bytes()
    }

    /// The next one was sent.
    pub(crate) fn draw(&mut self) {
        self.drawn += 1;
    }
}
