//! The examples of `docs/SCENARIOS.md` are right. What an example leaves out is taken from the first one.

use std::path::Path;

use psmc_lab::scenario::Scenario;

const PAGE: &str = include_str!("../../../../docs/SCENARIOS.md");

/// Sections that examples refer to and that the first one does not have.
const MORE: &str = "[[program]]\nname = \"web\"\nhost = \"hq\"\ncommand = [\"nginx\"]\n\n";

#[test]
fn every_example_is_right() {
    let examples = examples(PAGE);
    let first = format!("{}\n{MORE}", examples[0]);
    assert!(examples.len() > 7);
    for example in examples {
        let whole = completed(&example, &first);
        if let Err(error) = Scenario::parse(&whole, Path::new("../../docs/SCENARIOS.md")) {
            panic!("{error}\n\nin\n\n{whole}");
        }
    }
}

/// An example, and the sections of `base` of which it has none.
fn completed(example: &str, base: &str) -> String {
    let missing = sections(base).into_iter().filter(|section| {
        let header = section.lines().next().unwrap_or_default();
        !example.lines().any(|line| line == header)
    });
    let own_network = example.contains("[[link]]") && !example.contains("[[tunnel]]");
    // An example with links of its own has no others that the rest could refer to.
    if own_network { example.to_owned() } else { format!("{example}\n{}", missing.collect::<String>()) }
}

/// The sections of a scenario, each from its header to the next.
fn sections(text: &str) -> Vec<String> {
    let mut sections: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            sections.push(String::new());
        }
        if let Some(section) = sections.last_mut() {
            *section += &format!("{line}\n");
        }
    }
    sections
}

fn examples(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1);
    blocks.filter_map(|block| block.split_once("```")).map(|(example, _)| example.to_owned()).collect()
}

/// A key that the reader of the file knows, and the page does not name, would be a secret.
#[test]
fn every_key_is_named() {
    let everything = include_str!("check/good/everything.toml");
    for line in everything.lines().filter(|line| !line.starts_with('#')) {
        let keys = line.split(['{', ',']).filter_map(|part| part.split_once('=')).map(|(key, _)| key.trim());
        for key in keys.filter(|key| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
            assert!(PAGE.contains(&format!("`{key}")) || PAGE.contains(&format!("{{ {key}")), "{key}");
        }
    }
}
