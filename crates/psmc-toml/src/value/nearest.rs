//! Did you mean …?

/// The candidate that `word` is most likely a misspelling of, if any is near.
///
/// Case, `_` and `-` do not count, so that the spelling of a WireGuard file (`AllowedIPs`) finds ours.
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = simplified(word);
    candidates
        .iter()
        .map(|candidate| (strsim::osa_distance(&word, &simplified(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

fn simplified(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// How many typing errors still leave a word recognisable: one in three letters.
fn tolerance(candidate: &str) -> usize {
    candidate.len() / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["allowed_ips", "endpoint", "name", "public_key"];

    #[test]
    fn finds_typing_errors_and_foreign_spellings() {
        assert_eq!(nearest("alowed_ips", KEYS), Some("allowed_ips"));
        assert_eq!(nearest("AllowedIPs", KEYS), Some("allowed_ips"));
        assert_eq!(nearest("enpdoint", KEYS), Some("endpoint"));
        assert_eq!(nearest("PublicKey", KEYS), Some("public_key"));
    }

    #[test]
    fn leaves_other_words_alone() {
        assert_eq!(nearest("table", KEYS), None);
        assert_eq!(nearest("", KEYS), None);
    }
}
