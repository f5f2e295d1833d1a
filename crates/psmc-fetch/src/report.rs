//! What is wrong with mirrors, in lines for people.

use super::mirror::Mirror;

/// What went wrong with each.
pub(super) fn problems(mirrors: &[Mirror]) -> String {
    let problem = |mirror: &Mirror| mirror.problem().unwrap_or("it did not answer in time").to_owned();
    lines(mirrors, problem)
}

/// What each has.
pub(super) fn versions(mirrors: &[Mirror]) -> String {
    let version = |mirror: &Mirror| match (mirror.version(), mirror.problem()) {
        (Some(version), _) => version.to_string(),
        (None, problem) => problem.unwrap_or("no answer yet").to_owned(),
    };
    lines(mirrors, version)
}

fn lines(mirrors: &[Mirror], what: impl Fn(&Mirror) -> String) -> String {
    let line = |mirror: &Mirror| {
        let via = mirror.via().map_or_else(String::new, |via| format!(" by {via}"));
        format!("  {}{via}: {}", mirror.url(), what(mirror))
    };
    mirrors.iter().map(line).collect::<Vec<_>>().join("\n")
}
