//! The Internet checksum (RFC 1071).

/// The checksum of these pieces, each of which but the last has an even number of bytes.
#[must_use]
pub fn of(pieces: &[&[u8]]) -> u16 {
    !folded(pieces.iter().map(|piece| sum(piece)).sum())
}

/// The checksum after one word under it has changed (RFC 1624 eq. 3): HC' = ~(~HC + ~m + m').
#[must_use]
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    if old == new {
        return checksum;
    }
    !folded(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// The sum of the words of 16 bits, not yet [`folded`], several at a time: 2^16 = 1 modulo 2^16 - 1, so that words of 32 bits add up to the
/// same (RFC 1071, section 2 (B)).
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// The sum with the carries added to it, until there are none.
#[must_use]
pub fn folded(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // No larger than 16 bits hold, after the loop.
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Word by word, as RFC 1071 has it.
    fn by_words(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_rfc(head in proptest::collection::vec(any::<u8>(), 0..40), tail: Vec<u8>) {
            let even = head.len() / 2 * 2;
            let all: Vec<u8> = head[..even].iter().chain(&tail).copied().collect();
            prop_assert_eq!(of(&[&head[..even], &tail]), by_words(&all));
        }

        #[test]
        fn an_update_is_as_good_as_a_sum(mut words in proptest::collection::vec(1u16.., 2..20), new in 1u16..) {
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            let before = of(&[&bytes(&words)]);
            let old = std::mem::replace(&mut words[1], new);
            prop_assert_eq!(updated(before, old, new), of(&[&bytes(&words)]));
        }
    }
}
