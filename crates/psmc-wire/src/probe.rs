//! Datagrams by which a site finds out what a NAT makes of its sockets: a question, and an answer that is as long.
//!
//! ```text
//! +-----------+---------------------------+-------------------------------------------------------+
//! | question  | token, of question or     | question: zeros; answer: family, address and port of  |
//! | 0x70,     | answer, 128 bits          | the question's source, hidden by its token, 152 bits  |
//! | answer    |                           |                                                       |
//! | 0x71      |                           |                                                       |
//! +-----------+---------------------------+-------------------------------------------------------+
//! ```

use std::net::SocketAddr;

use crate::fields::{self, Malformed, Reader};

/// Bytes of a token.
pub const PROBE_TOKEN_LEN: usize = 16;

/// Bytes of a question, and of an answer: nobody gains by having one sent.
pub const PROBE_LEN: usize = 1 + PROBE_TOKEN_LEN + ADDRESS_LEN;

/// A family, an address of it, and a port.
const ADDRESS_LEN: usize = 1 + 16 + 2;

/// The first byte of a question.
const QUESTION: u8 = 0x70;

/// That of an answer: another one, lest two sites answer each other's answers.
const ANSWER: u8 = 0x71;

/// The secret words of a probe, which both sites know from their control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTokens {
    /// What questions carry.
    pub question: [u8; PROBE_TOKEN_LEN],
    /// What answers carry.
    pub answer: [u8; PROBE_TOKEN_LEN],
}

impl ProbeTokens {
    /// The datagram that asks.
    #[must_use]
    pub fn write_question(&self) -> [u8; PROBE_LEN] {
        datagram(QUESTION, &self.question, [0; ADDRESS_LEN])
    }

    /// The datagram that answers a question which came from `source`.
    #[must_use]
    pub fn write_answer(&self, source: SocketAddr) -> [u8; PROBE_LEN] {
        let mut bytes = Vec::with_capacity(ADDRESS_LEN);
        fields::address(SocketAddr::new(source.ip().to_canonical(), source.port()), &mut bytes);
        let mut address = [0; ADDRESS_LEN];
        address[..bytes.len()].copy_from_slice(&bytes);
        datagram(ANSWER, &self.answer, self.hide(address))
    }

    /// The source of the question that this datagram answers.
    ///
    /// # Errors
    /// [`Malformed`] if it is no answer to it.
    pub fn read_answer(&self, datagram: &[u8]) -> Result<SocketAddr, Malformed> {
        let (token, address) = parts(ANSWER, datagram)?;
        if *token != self.answer {
            return Err(Malformed::Illegal("token"));
        }
        Reader::new(&self.hide(*address)).address()
    }

    /// Hides an address, or shows a hidden one: some NATs replace addresses of theirs wherever they find them (RFC 8489
    /// section 14.2 has the same for STUN).
    fn hide(&self, mut address: [u8; ADDRESS_LEN]) -> [u8; ADDRESS_LEN] {
        address.iter_mut().zip(self.question.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        address
    }
}

/// The token of a question.
///
/// # Errors
/// [`Malformed`] if the datagram is none.
pub fn question_token(datagram: &[u8]) -> Result<&[u8; PROBE_TOKEN_LEN], Malformed> {
    parts(QUESTION, datagram).map(|(token, _)| token)
}

/// The token of a datagram of this kind, and what follows it.
fn parts(kind: u8, datagram: &[u8]) -> Result<(&[u8; PROBE_TOKEN_LEN], &[u8; ADDRESS_LEN]), Malformed> {
    let (&first, rest) = datagram.split_first().ok_or(Malformed::Truncated)?;
    if first != kind {
        return Err(Malformed::UnknownType(first));
    }
    let (token, address) = rest.split_first_chunk().ok_or(Malformed::Truncated)?;
    let address = address.try_into().map_err(|_| Malformed::Truncated)?;
    Ok((token, address))
}

fn datagram(kind: u8, token: &[u8; PROBE_TOKEN_LEN], rest: [u8; ADDRESS_LEN]) -> [u8; PROBE_LEN] {
    let mut datagram = [kind; PROBE_LEN];
    datagram[1..=PROBE_TOKEN_LEN].copy_from_slice(token);
    datagram[1 + PROBE_TOKEN_LEN..].copy_from_slice(&rest);
    datagram
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens() -> impl Strategy<Value = ProbeTokens> {
        any::<([u8; 16], [u8; 16])>().prop_map(|(question, answer)| ProbeTokens { question, answer })
    }

    proptest! {
        #[test]
        fn whoever_asks_reads_where_the_question_came_from(tokens in tokens(), source in any::<SocketAddr>()) {
            prop_assume!(source.port() > 0);
            let question = tokens.write_question();
            prop_assert_eq!(question_token(&question), Ok(&tokens.question));
            let answer = tokens.write_answer(source);
            let read = tokens.read_answer(&answer).expect("an answer");
            prop_assert_eq!((read.ip(), read.port()), (source.ip().to_canonical(), source.port()));
            prop_assert!(question_token(&answer).is_err(), "nobody answers an answer");
        }

        #[test]
        fn an_answer_to_another_question_is_none(tokens in tokens(), other in tokens()) {
            prop_assume!(tokens.answer != other.answer);
            let answer = other.write_answer(SocketAddr::from(([192, 0, 2, 7], 5115)));
            prop_assert!(tokens.read_answer(&answer).is_err());
        }

        #[test]
        fn no_bytes_make_the_readers_panic(tokens in tokens(), bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (question_token(&bytes), tokens.read_answer(&bytes));
        }
    }
}
