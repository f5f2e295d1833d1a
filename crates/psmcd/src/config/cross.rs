//! Whether the values of a file fit together.

mod classes;
mod gateway;
mod names;
mod paths;
mod routes;
mod treatment;
mod tunnels;

use std::collections::BTreeMap;
use std::ops::Range;

use psmc_toml::Complaint;
use toml::Spanned;

use super::draft::Draft;

/// Complains about everything that is wrong between the values of a draft.
pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    names::check(draft, out);
    routes::check(draft, out);
    treatment::check(draft, out);
    classes::check(draft, out);
    gateway::check(draft, out);
    for peer in &draft.peers {
        paths::check(peer, &draft.relays, out);
    }
}

/// Calls `complain(value, place, first place)` for each value that stood earlier among `values`.
fn for_each_repetition<'a, T: Ord + 'a>(
    values: impl IntoIterator<Item = &'a Spanned<T>>,
    mut complain: impl FnMut(&T, Range<usize>, Range<usize>),
) {
    let mut seen: BTreeMap<&T, Range<usize>> = BTreeMap::new();
    for value in values {
        match seen.get(value.get_ref()) {
            Some(first) => complain(value.get_ref(), value.span(), first.clone()),
            None => drop(seen.insert(value.get_ref(), value.span())),
        }
    }
}
