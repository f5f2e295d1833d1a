//! Values chosen from a list.

use super::{ValueError, nearest};

/// The value among `all` that is spelt `text`; `what` names the kind in the complaint about another text.
pub fn choose<T: Copy, const N: usize>(
    what: &str,
    all: [T; N],
    as_str: fn(T) -> &'static str,
    text: &str,
) -> Result<T, ValueError> {
    if let Some(value) = all.into_iter().find(|value| as_str(*value) == text) {
        return Ok(value);
    }
    let spellings = all.map(as_str);
    let remedy = match nearest(text, &spellings) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("choose one of \"{}\"", spellings.join("\", \"")),
    };
    Err(ValueError::new(format!("there is no {what} {text:?}"), remedy))
}
