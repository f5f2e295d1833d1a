//! The text of a file: reading it, and keeping secrets out of what is shown of it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeTable;

use crate::{Complaint, ConfigError, ValueError, complaint};

/// What is particular to one kind of file.
///
/// The examples are as they would stand in such a file; complaints about what is no TOML show them.
#[derive(Debug)]
pub struct Dialect {
    /// What the program calls such a file, with its article: `a configuration`.
    pub kind: &'static str,
    /// The largest file that is read, in MiB.
    pub max_mib: usize,
    /// Where to look for a file that is not there.
    pub missing_remedy: &'static str,
    /// A key whose value must never reach a terminal or a log.
    pub secret_key: Option<&'static str>,
    /// The header of a section that stands once.
    pub section: &'static str,
    /// The header of a section that stands any number of times.
    pub sections: &'static str,
    /// A key and its value.
    pub setting: &'static str,
    /// A list of values.
    pub list: &'static str,
}

/// A file's path and text, and those of files that were appended to it.
#[derive(Clone)]
pub struct Source {
    dialect: &'static Dialect,
    path: String,
    /// Where the texts of other files begin, and their paths.
    parts: Vec<(usize, String)>,
    directory: PathBuf,
    text: String,
    shown: String,
    open_to_others: bool,
}

impl Source {
    /// A source whose text is at hand.
    pub fn new(dialect: &'static Dialect, path: &Path, text: &str) -> Self {
        Self {
            dialect,
            path: path.display().to_string(),
            parts: Vec::new(),
            directory: path.parent().unwrap_or(Path::new("")).to_owned(),
            text: text.to_owned(),
            shown: dialect.secret_key.map_or_else(|| text.to_owned(), |key| without_secrets(text, key)),
            open_to_others: false,
        }
    }

    /// Reads a file.
    pub fn read(dialect: &'static Dialect, path: &Path) -> Result<Self, ConfigError> {
        let refuse = |reason: String, remedy: &str| {
            ConfigError::new(Self::new(dialect, path, ""), vec![Complaint::new(reason, remedy)])
        };
        let shown = path.display();
        let max_size = dialect.max_mib << 20;
        let (bytes, mode) = read_bounded(path, max_size).map_err(|error| {
            refuse(format!("cannot read {shown}: {}", describe(&error)), dialect.remedy_for(&error))
        })?;
        if bytes.len() > max_size {
            return Err(refuse(
                format!("{shown} is larger than {} MiB", dialect.max_mib),
                &format!("this is not {}; check the path", dialect.kind),
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
            let reason = format!("{shown} is not UTF-8 text: line {} has other bytes in it", line + 1);
            refuse(reason, "save it in the encoding UTF-8; if it is not a text at all, check the path")
        })?;
        Ok(Self { open_to_others: mode & 0o077 != 0, ..Self::new(dialect, path, &text) })
    }

    /// Reads what another file says as if it stood at the end of this one. It must be TOML by itself.
    pub fn append(&mut self, other: &Self) {
        for text in [&mut self.text, &mut self.shown] {
            text.push('\n');
        }
        self.parts.push((self.text.len(), other.path.clone()));
        self.text.push_str(&other.text);
        self.shown.push_str(&other.shown);
    }

    /// Passes the text to `look` before it is checked.
    ///
    /// # Errors
    /// If the text is no TOML.
    pub fn look<T>(&self, look: impl FnOnce(&DeTable<'_>) -> T) -> Result<T, ConfigError> {
        let (root, errors) = DeTable::parse_recoverable(self.text());
        if errors.is_empty() {
            Ok(look(root.get_ref()))
        } else {
            Err(ConfigError::new(self.clone(), complaint::of_syntax(self, &errors)))
        }
    }

    /// Has this stretch of the text not be shown.
    pub(crate) fn blot(&mut self, secret: Range<usize>) {
        let hidden = hidden(&self.shown[secret.clone()]);
        self.shown.replace_range(secret, &hidden);
    }

    /// The file that a place of the text is in: its path, and where its text begins and ends.
    pub(crate) fn part(&self, place: usize) -> (&str, Range<usize>) {
        let next = self.parts.partition_point(|(start, _)| *start <= place);
        let end = self.parts.get(next).map_or(self.text.len(), |(start, _)| start - 1);
        match next.checked_sub(1).and_then(|at| self.parts.get(at)) {
            Some((start, path)) => (path, *start..end),
            None => (&self.path, 0..end),
        }
    }

    /// Parses the text, and has `read` make something of it. All complaints go to `out`; `read` may return `None` only
    /// where it has complained.
    pub fn check<T>(
        self,
        read: impl FnOnce(&DeTable<'_>, &Self, &mut Vec<Complaint>) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let (root, errors) = DeTable::parse_recoverable(self.text());
        if !errors.is_empty() {
            // What the parser made of the rest is guesswork, and complaints about it would mislead.
            let complaints = complaint::of_syntax(&self, &errors);
            return Err(ConfigError::new(self, complaints));
        }
        let mut complaints = Vec::new();
        match read(root.get_ref(), &self, &mut complaints) {
            Some(value) if complaints.is_empty() => Ok(value),
            Some(_) | None => Err(ConfigError::new(self, complaints)),
        }
    }

    /// What kind of file it is.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Whether users other than its owner can read or write the file.
    pub fn is_open_to_others(&self) -> bool {
        self.open_to_others
    }

    /// The directory that the file is in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a path of the file leads: relative ones start at its directory.
    pub fn beside(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    /// What `read` makes of the file at a path that stands in this one; or a complaint, if it cannot.
    pub fn read_beside<T>(
        &self,
        path: &Spanned<PathBuf>,
        read: impl FnOnce(&Path) -> Result<T, ValueError>,
        out: &mut Vec<Complaint>,
    ) -> Option<T> {
        let read = read(&self.beside(path.get_ref()));
        read.map_err(|error| out.push(Complaint::of_value(&error, path.span()))).ok()
    }

    /// The file's path, as the user gave it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The text to parse.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text to show: as long as the other, with secrets blotted out.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The file's bytes, at most one more than is allowed, so that the caller can tell; and its permissions.
fn read_bounded(path: &Path, max_size: usize) -> io::Result<(Vec<u8>, u32)> {
    let file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(max_size as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, mode))
}

/// The common ways in which a file cannot be read, in words, and what to do.
const FAILURES: [(io::ErrorKind, &str, &str); 3] = [
    (io::ErrorKind::NotFound, "there is no such file", "check the path"),
    (io::ErrorKind::PermissionDenied, "permission denied", "run this as root, or as the owner of the file"),
    (io::ErrorKind::IsADirectory, "it is a directory", "name the file in it"),
];

/// The error in words, without the number that `io::Error` adds to the common ones.
pub fn describe(error: &io::Error) -> String {
    let known = FAILURES.iter().find(|(kind, _, _)| *kind == error.kind());
    known.map_or_else(|| error.to_string(), |(_, words, _)| (*words).to_owned())
}

/// What to do about it.
pub fn remedy_for(error: &io::Error) -> &'static str {
    let known = FAILURES.iter().find(|(kind, _, _)| *kind == error.kind());
    known.map_or("check the path and the disk", |(_, _, remedy)| remedy)
}

impl Dialect {
    fn remedy_for(&self, error: &io::Error) -> &'static str {
        if error.kind() == io::ErrorKind::NotFound { self.missing_remedy } else { remedy_for(error) }
    }
}

/// The text with every character after the key `secret` and `=` in a line replaced, of the same length in bytes.
/// It goes by the look of the line, because what has to be shown may not even be TOML.
fn without_secrets(text: &str, secret: &str) -> String {
    text.split_inclusive('\n').map(|line| blotted(line, secret)).collect()
}

fn blotted(line: &str, secret: &str) -> String {
    let Some(start) = secret_start(line, secret) else {
        return line.to_owned();
    };
    let (open, value) = line.split_at(start);
    open.to_owned() + &hidden(value)
}

/// As long as the text, with all replaced but quotes and white space.
fn hidden(text: &str) -> String {
    let hidden = text.chars().map(|c| match c {
        '"' | '\'' | ' ' | '\t' | '\r' | '\n' => c.to_string(),
        _ => "*".repeat(c.len_utf8()),
    });
    hidden.collect()
}

/// Where the value of the key `secret` starts in a line, if it has one.
fn secret_start(line: &str, secret: &str) -> Option<usize> {
    let mut ends = line.match_indices(secret).map(|(start, key)| start + key.len());
    let end = ends.find(|end| !line[*end..].starts_with('_'))?;
    let value = line[end..].trim_start_matches([' ', '\t', '=', ':', '"', '\'']);
    Some(line.len() - value.len())
}

#[cfg(test)]
mod tests {
    fn without_secrets(text: &str) -> String {
        super::without_secrets(text, "private_key")
    }

    #[test]
    fn private_keys_are_blotted_out() {
        assert_eq!(without_secrets("a = 1\nprivate_key = \"s3c=\"\n"), "a = 1\nprivate_key = \"****\"\n");
        assert_eq!(without_secrets("site = { private_key = 'ü' }"), "site = { private_key = '**' *");
        assert_eq!(without_secrets("private_key: s3c"), "private_key: ***");
        assert_eq!(without_secrets("\"private_key\"=\"s\""), "\"private_key\"=\"*\"");
        assert_eq!(without_secrets("private_key s3c"), "private_key ***");
    }

    #[test]
    fn all_else_is_shown() {
        for text in ["private_key_file = \"/etc/x\"\n", "public_key = \"abc=\"\n", "", "\n\n"] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
