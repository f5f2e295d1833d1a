//! No text makes the parser panic, and every complaint can be shown.

use std::path::Path;

use proptest::prelude::*;
use psmc_toml::Complaint;

use crate::scenario::Scenario;

const RIGHT: &str = include_str!("../../../tests/lab/check/good/everything.toml");

/// Checks a text, and shows what it means or what is wrong with it. The files that it names are not there.
fn check(text: &str) {
    match Scenario::parse(text, Path::new("/nonexistent/test.toml")) {
        Ok(scenario) => assert!(scenario.summary().to_string().starts_with("scenario ")),
        Err(error) => {
            assert!(error.complaints().iter().all(|complaint| !complaint.remedy().is_empty()));
            let places = error.complaints().iter().filter_map(Complaint::span);
            places
                .for_each(|place| assert!(text.get(place.clone()).is_some(), "{place:?} is not in the text"));
            assert!(error.render(false).contains("test.toml cannot be used"));
        }
    }
}

/// Words of the format, from which random texts come that get past the first check.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(RIGHT.split_inclusive(['\n', ' ', ',', '=']).collect::<Vec<_>>());
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

/// The lines of a scenario, some of them left out or put elsewhere.
fn lines() -> impl Strategy<Value = String> {
    let lines = RIGHT.lines().collect::<Vec<_>>();
    let count = lines.len();
    prop::sample::subsequence(lines, count / 2..count).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn random_words_never_panic(text in words()) {
        check(&text);
    }

    #[test]
    fn missing_lines_never_panic(text in lines()) {
        check(&text);
    }

    #[test]
    fn damage_never_panics(at in 0..RIGHT.len(), length in 0..40_usize, new in "[a-z0-9\"\\[\\]{}=.%-]{0,3}") {
        let head: String = RIGHT.chars().take(at).collect();
        let tail: String = RIGHT.chars().skip(at + length).collect();
        check(&format!("{head}{new}{tail}"));
    }
}
