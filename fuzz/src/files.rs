//! Files that people write.

use std::path::Path;

use psmc_lab::scenario::Scenario;
use psmcd::config::{Complaint, Config, ConfigError};

/// A configuration file. One that keeps its key in another file is passed over: a fuzzer must not open what it names.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("private_key_file") {
        return;
    }
    if let Err(error) = Config::parse(text, Path::new("site.toml")) {
        can_be_shown(&error, text);
    }
}

/// A scenario of the lab. One that names files of rates or delays is passed over: a fuzzer must not open them.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("trace") || text.contains("file") {
        return;
    }
    match Scenario::parse(text, Path::new("scenario.toml")) {
        Ok(scenario) => assert!(!scenario.summary().to_string().is_empty()),
        Err(error) => can_be_shown(&error, text),
    }
}

/// Asserts that an error says something, about places that are in the text.
fn can_be_shown(error: &ConfigError, text: &str) {
    assert!(!error.complaints().is_empty(), "refused without a complaint");
    for place in error.complaints().iter().filter_map(Complaint::span) {
        assert!(text.get(place.clone()).is_some(), "{place:?} is not in the text");
    }
    assert!(!error.render(false).is_empty());
}
