//! Values that take more than one word: pairs, pairs of lists, tables in a list.

use std::ops::Range;

use psmc_toml::{Complaint, Kind, Section, kind_of, read};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A list of exactly two values, the first of which is the first host's.
pub(super) fn pair<T>(
    section: &Section<'_>,
    key: &str,
    kind: Kind<T>,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[Spanned<T>; 2]> {
    let [first, second] = two(section, key, example, out)?;
    let (first, second) = (read(key, first, kind, out), read(key, second, kind, out));
    Some([first?, second?])
}

/// The same, where each of the two is a value or a list of values. `None` also where one of them is wrong.
pub(super) fn pair_of_lists<T>(
    section: &Section<'_>,
    key: &str,
    kind: Kind<T>,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[Vec<Spanned<T>>; 2]> {
    let before = out.len();
    let lists = two(section, key, example, out)?.map(|value| match value.get_ref().as_array() {
        Some(elements) => elements.iter().filter_map(|element| read(key, element, kind, out)).collect(),
        None => read(key, value, kind, out).into_iter().collect(),
    });
    (out.len() == before).then_some(lists)
}

fn two<'a>(
    section: &Section<'a>,
    key: &str,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[&'a Spanned<DeValue<'a>>; 2]> {
    let value = section.value(key)?;
    let elements = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
    let reason = match elements.as_deref() {
        Some([first, second]) => return Some([*first, *second]),
        Some(elements) => format!("`{key}` has {} values, and takes two", elements.len()),
        None => format!("`{key}` takes a list of two values, not {}", kind_of(value.get_ref())),
    };
    out.push(Complaint::new(reason, format!("write it like {key} = {example}")).at(value.span()));
    None
}

/// The tables in a list, with their places: `key = [{ … }, { … }]`.
pub(super) fn tables_in_list<'a>(
    section: &Section<'a>,
    key: &str,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let Some(elements) = value.get_ref().as_array() else {
        out.push(in_braces(
            format!("`{key}` takes a list, not {}", kind_of(value.get_ref())),
            key,
            example,
            value,
        ));
        return Vec::new();
    };
    let tables = elements.iter().filter_map(|element| {
        let table = element.get_ref().as_table();
        if table.is_none() {
            let reason = format!("each of `{key}` is a table in braces, not {}", kind_of(element.get_ref()));
            out.push(in_braces(reason, key, example, element));
        }
        Some((element.span(), table?))
    });
    tables.collect()
}

fn in_braces(reason: String, key: &str, example: &str, value: &Spanned<DeValue<'_>>) -> Complaint {
    Complaint::new(reason, format!("write it like {key} = {example}")).at(value.span())
}
