//! Reading one section of the file: its keys, their form, their values; and what several sections have twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Complaint, Form, Kind, ValueError, nearest};

/// A section, such as `[site]` or one `[[peer]]`.
pub struct Section<'a> {
    title: &'static str,
    place: Range<usize>,
    table: &'a DeTable<'a>,
    /// Known keys that an unknown one most likely stands for: they are not missing, but misspelt.
    misspelt: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Opens a section that can have the given keys, and complains about all others. `place` is its header.
    pub fn open(
        title: &'static str,
        place: Range<usize>,
        table: &'a DeTable<'a>,
        keys: &'static [&'static str],
        out: &mut Vec<Complaint>,
    ) -> Self {
        Self::open_with_hints(title, place, table, keys, |_| None, out)
    }

    /// Like `open`, with a remedy of its own for some of the keys that do not belong here.
    pub fn open_with_hints(
        title: &'static str,
        place: Range<usize>,
        table: &'a DeTable<'a>,
        keys: &'static [&'static str],
        hint: fn(&str) -> Option<String>,
        out: &mut Vec<Complaint>,
    ) -> Self {
        let mut misspelt = Vec::new();
        for key in table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let near = nearest(key.get_ref(), keys);
            misspelt.extend(near);
            let remedy = hint(key.get_ref()).unwrap_or_else(|| match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("remove it; the keys here are {}", keys.join(", ")),
            });
            let reason = format!("{title} has no key {:?}", key.get_ref());
            out.push(Complaint::new(reason, remedy).at(key.span()));
        }
        Self { title, place, table, misspelt }
    }

    /// Where the section begins.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Whether a key is there, right or wrong.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key) || self.misspelt.contains(&key)
    }

    /// Where a key stands.
    pub fn key_place(&self, key: &str) -> Option<Range<usize>> {
        self.table.get_key_value(key).map(|(key, _)| key.span())
    }

    /// A value that may be left out.
    pub fn optional<T>(&self, key: &str, kind: Kind<T>, out: &mut Vec<Complaint>) -> Option<T> {
        self.optional_at(key, kind, out).map(Spanned::into_inner)
    }

    /// The same, with its place.
    pub fn optional_at<T>(&self, key: &str, kind: Kind<T>, out: &mut Vec<Complaint>) -> Option<Spanned<T>> {
        read(key, self.table.get(key)?, kind, out)
    }

    /// A value that must be there. `remedy` says how to come by one.
    pub fn required<T>(&self, key: &str, kind: Kind<T>, remedy: &str, out: &mut Vec<Complaint>) -> Option<T> {
        self.required_at(key, kind, remedy, out).map(Spanned::into_inner)
    }

    /// The same, with its place.
    pub fn required_at<T>(
        &self,
        key: &str,
        kind: Kind<T>,
        remedy: &str,
        out: &mut Vec<Complaint>,
    ) -> Option<Spanned<T>> {
        if !self.has(key) {
            out.push(self.missing(key, &format!("add {key} = {}, {remedy}", kind.example)));
        }
        self.optional_at(key, kind, out)
    }

    /// A list of values, which may be left out. Faulty values are left out of the result.
    pub fn list<T>(&self, key: &str, kind: Kind<T>, out: &mut Vec<Complaint>) -> Option<Vec<T>> {
        let list = self.list_at(key, kind, out)?.into_inner();
        Some(list.into_iter().map(Spanned::into_inner).collect())
    }

    /// The same, with the places of the list and of each value.
    pub fn list_at<T>(
        &self,
        key: &str,
        kind: Kind<T>,
        out: &mut Vec<Complaint>,
    ) -> Option<Spanned<Vec<Spanned<T>>>> {
        let value = self.table.get(key)?;
        let Some(elements) = value.get_ref().as_array() else {
            let remedy = format!("put it in brackets: {key} = [{}]", kind.example);
            out.push(Complaint::new(format!("`{key}` is a list"), remedy).at(value.span()));
            return None;
        };
        let values = elements.iter().filter_map(|element| read(key, element, kind, out)).collect();
        Some(Spanned::new(value.span(), values))
    }

    /// A list of values, of which there must be one at least. `remedy` says how to come by one.
    pub fn some_of<T>(
        &self,
        key: &str,
        kind: Kind<T>,
        remedy: &str,
        out: &mut Vec<Complaint>,
    ) -> Option<Vec<T>> {
        if !self.has(key) || self.empty_list(key).is_some() {
            out.push(self.missing(key, remedy));
        }
        self.list(key, kind, out)
    }

    /// Where a list stands that has no values at all, not even wrong ones.
    pub fn empty_list(&self, key: &str) -> Option<Range<usize>> {
        let list = self.table.get(key)?;
        list.get_ref().as_array()?.is_empty().then(|| list.span())
    }

    /// The sections of a kind below this one, such as `[[peer.path]]`, opened: `header` is how the file writes theirs.
    pub fn sections(
        &self,
        key: &str,
        header: &'static str,
        keys: &'static [&'static str],
        out: &mut Vec<Complaint>,
    ) -> Vec<Section<'a>> {
        let tables = self.tables(key, header, out);
        tables.into_iter().map(|(place, table)| Section::open(header, place, table, keys, out)).collect()
    }

    /// The section below this one, or the table in braces after `key =`, opened: `title` is what complaints call it.
    pub fn section(
        &self,
        key: &str,
        title: &'static str,
        keys: &'static [&'static str],
        out: &mut Vec<Complaint>,
    ) -> Option<Section<'a>> {
        let (place, table) = self.table(key, out)?;
        Some(Section::open(title, place, table, keys, out))
    }

    /// The section of which a file has one, opened. `reason` says so to whoever gives it double brackets.
    pub fn only_section(
        &self,
        key: &str,
        header: &'static str,
        keys: &'static [&'static str],
        reason: &str,
        out: &mut Vec<Complaint>,
    ) -> Option<Section<'a>> {
        let (name, value) = self.table.get_key_value(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            let remedy = format!("write {header}, with single brackets");
            out.push(Complaint::new(reason, remedy).at(name.span()));
            return None;
        };
        Some(Section::open(header, value.span(), table, keys, out))
    }

    /// The sections of a kind, `[[key]]`, below this one. `header` is how the file writes their header.
    pub fn tables(
        &self,
        key: &str,
        header: &str,
        out: &mut Vec<Complaint>,
    ) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
        let Some((name, value)) = self.table.get_key_value(key) else {
            return Vec::new();
        };
        let elements = value.get_ref().as_array().map(|array| array.iter().collect()).unwrap_or(vec![value]);
        let mut tables = Vec::new();
        for element in elements {
            match (value.get_ref(), element.get_ref()) {
                (DeValue::Array(_), DeValue::Table(table)) => tables.push((element.span(), table)),
                _ => {
                    let reason =
                        format!("there can be several of `{key}`, so its header has double brackets");
                    out.push(Complaint::new(reason, format!("write {header}")).at(name.span()));
                }
            }
        }
        tables
    }

    /// The section `[key]`, or the table in braces after `key =`, below this one.
    pub fn table(&self, key: &str, out: &mut Vec<Complaint>) -> Option<(Range<usize>, &'a DeTable<'a>)> {
        let value = self.table.get(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            let reason = format!("`{key}` takes a section, not {}", kind_of(value.get_ref()));
            let remedy = format!("write keys and values in braces: {key} = {{ … }}");
            out.push(Complaint::new(reason, remedy).at(value.span()));
            return None;
        };
        Some((value.span(), table))
    }

    /// The value of a key, whatever it is.
    pub fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// A complaint about a key that is not there.
    pub fn missing(&self, key: &str, remedy: &str) -> Complaint {
        Complaint::new(format!("{} has no `{key}`", self.title), remedy).at(self.place())
    }
}

/// Declares what a section of a file says: the keys that it can have, a type for their values, and how each is read.
///
/// A line is a key, the type of what was read, and the method of [`Section`] that reads it, less the key and the list of
/// complaints, which are put in. What needs more than that is an expression in braces, which may use the names in the head
/// of the struct, and every field above. The head begins with the section and the list of complaints. If a field is not
/// called like its one key, its keys come before it in brackets: other ones, `[..ALL]` for all of a list, or none.
///
/// The type gets a constant `KEYS` for [`Section::open`], and a function `read`, which takes what the head names, the list
/// of complaints last. `with or` behind the head adds a method `or`, by which what one draft does not say is taken from
/// another.
///
/// ```
/// use psmc_toml::{NAME, Name, SWITCH, Section, draft};
///
/// draft! {
///     /// `[[program]]`
///     struct ProgramDraft(section, out) {
///         name: Option<Name> = required(NAME, "what events call it"),
///         output: bool = optional(SWITCH).unwrap_or(false),
///         ["user", "group"] runs_as_another: bool = { section.has("user") || section.has("group") },
///         [] is_quiet: bool = { !output },
///     }
/// }
///
/// assert_eq!(ProgramDraft::KEYS, ["name", "output", "user", "group"]);
/// let file = toml::de::DeTable::parse("name = \"server\"\nport = 80").unwrap();
/// let mut out = Vec::new();
/// let section = Section::open("[[program]]", 0..0, file.get_ref(), ProgramDraft::KEYS, &mut out);
/// let draft = ProgramDraft::read(&section, &mut out);
/// assert_eq!(draft.name.unwrap().as_str(), "server");
/// assert!(draft.is_quiet && !draft.runs_as_another);
/// assert_eq!(out[0].reason(), "[[program]] has no key \"port\"");
/// ```
#[macro_export]
macro_rules! draft {
    (@keys $field:ident) => { &[stringify!($field)] };
    (@keys $field:ident [..$all:expr]) => { $all };
    (@keys $field:ident [$($key:literal),*]) => { &[$($key),*] };
    (@or [] $($rest:tt)*) => {};
    (@or [or] $vis:vis $($field:ident)*) => {
        /// This one, with what it does not say taken from `other`.
        $vis fn or(&self, other: &Self) -> Self {
            Self { $($field: self.$field.clone().or_else(|| other.$field.clone()),)* }
        }
    };
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident($section:ident, $out:ident $(, $given:ident: $given_type:ty)*) $(with $or:ident)? {
            $(
                $(#[$about_field:meta])*
                $([$($key:tt)*])? $field:ident: $type:ty =
                    $({ $by:expr })?
                    $($method:ident($($arg:expr),* $(,)?) $(.$then:ident($($then_arg:expr),*))*)?,
            )*
        }
    ) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$about_field])* $vis $field: $type,)*
        }

        impl $name {
            /// The keys that the section can have.
            $vis const KEYS: &'static [&'static str] =
                $crate::keys![$($crate::draft!(@keys $field $([$($key)*])?)),*];

            /// Reads the section, and complains about every value that is wrong by itself.
            $vis fn read(
                $section: &$crate::Section<'_>,
                $($given: $given_type,)*
                $out: &mut Vec<$crate::Complaint>,
            ) -> Self {
                $(
                    let $field: $type =
                        $($by)?
                        $($section.$method(stringify!($field), $($arg,)* $out) $(.$then($($then_arg),*))*)?;
                )*
                Self { $($field),* }
            }

            $crate::draft!(@or [$($or)?] $vis $($field)*);
        }
    };
}

/// Joins lists of keys to one.
///
/// ```
/// const OF_ALL: &[&str] = &["name", "kind"];
/// const OF_PINGS: &[&str] = psmc_toml::keys![OF_ALL, &["interval"]];
/// assert_eq!(OF_PINGS, ["name", "kind", "interval"]);
/// ```
#[macro_export]
macro_rules! keys {
    ($($list:expr),* $(,)?) => {{
        const LISTS: &[&[&str]] = &[$($list),*];
        const ALL: &[&str] = &$crate::joined::<{ $crate::joined_len(LISTS) }>(LISTS);
        ALL
    }};
}

/// How many keys some lists have; for [`keys!`](crate::keys).
#[doc(hidden)]
#[must_use]
pub const fn joined_len(lists: &[&[&str]]) -> usize {
    let (mut sum, mut list) = (0, 0);
    while list < lists.len() {
        sum += lists[list].len();
        list += 1;
    }
    sum
}

/// The keys of some lists, `N` in all; for [`keys!`](crate::keys).
#[doc(hidden)]
#[must_use]
pub const fn joined<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut at, mut list, mut key) = (0, 0, 0);
    while at < N {
        if key < lists[list].len() {
            all[at] = lists[list][key];
            (at, key) = (at + 1, key + 1);
        } else {
            (list, key) = (list + 1, 0);
        }
    }
    all
}

/// A value of a kind, or a complaint. `key` is what the complaint calls it.
pub fn read<T>(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    kind: Kind<T>,
    out: &mut Vec<Complaint>,
) -> Option<Spanned<T>> {
    let read = plain_text(key, value.get_ref(), kind.form, kind.example).and_then(|text| kind.read(&text));
    read.map(|read| Spanned::new(value.span(), read))
        .map_err(|error| out.push(Complaint::of_value(&error, value.span())))
        .ok()
}

/// The text of a value, without its quotes, if it has this form.
fn plain_text(key: &str, value: &DeValue<'_>, form: Form, example: &str) -> Result<String, ValueError> {
    match (value, form) {
        (DeValue::String(text), Form::Text | Form::TextOrNumber) => Ok(text.to_string()),
        (DeValue::Integer(number), Form::Number | Form::TextOrNumber | Form::Decimal) => {
            Ok(number.to_string())
        }
        (DeValue::Float(number), Form::Decimal) => Ok(number.to_string()),
        (DeValue::Boolean(value), Form::Boolean) => Ok(value.to_string()),
        (_, form) => {
            let reason = format!("`{key}` takes {}, not {}", form.in_words(), kind_of(value));
            Err(ValueError::new(reason, format!("write it like {example}")))
        }
    }
}

impl Form {
    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "a text in quotes",
            Self::Number => "a whole number without quotes",
            Self::TextOrNumber => "a number or a text in quotes",
            Self::Decimal => "a number without quotes",
            Self::Boolean => "true or false, without quotes",
        }
    }
}

/// What TOML calls a value, in words, with the article.
pub fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// Each of `all` that has the same key as one before it, with the first that has it.
pub fn repeated<T: Copy, K: Ord>(all: impl IntoIterator<Item = T>, key: impl Fn(T) -> K) -> Vec<(T, T)> {
    let mut firsts = BTreeMap::new();
    let mut found = Vec::new();
    for this in all {
        match firsts.entry(key(this)) {
            Entry::Occupied(first) => found.push((this, *first.get())),
            Entry::Vacant(place) => drop(place.insert(this)),
        }
    }
    found
}
