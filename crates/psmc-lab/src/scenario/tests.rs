mod defaults;
mod events;
mod routes;
mod sites;
mod text;

use std::path::Path;

use super::Scenario;

/// A scenario that is right.
fn right(text: &str) -> Scenario {
    Scenario::parse(text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// The reasons why a scenario is wrong.
fn reasons(text: &str) -> Vec<String> {
    let Err(error) = Scenario::parse(text, Path::new("test.toml")) else {
        panic!("this should be wrong:\n{text}")
    };
    error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
}
