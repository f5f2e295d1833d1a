//! The text of a configuration: reading it, and keeping secrets out of what is shown of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::complaint::{Complaint, ConfigError};

/// Largest file that is read. The largest sensible one, thousands of peers, has a tenth of it.
const MAX_SIZE: usize = 1 << 20;

/// The key whose value must never reach a terminal or a log.
const SECRET_KEY: &str = "private_key";

/// A file's path and text.
#[derive(Clone)]
pub(super) struct Source {
    path: String,
    directory: PathBuf,
    text: String,
    shown: String,
    open_to_others: bool,
}

impl Source {
    /// A source whose text is at hand.
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self {
            path: path.display().to_string(),
            directory: path.parent().unwrap_or(Path::new("")).to_owned(),
            text: text.to_owned(),
            shown: without_secrets(text),
            open_to_others: false,
        }
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let refuse = |reason: String, remedy: &str| {
            ConfigError::new(Self::new(path, ""), vec![Complaint::new(reason, remedy)])
        };
        let shown = path.display();
        let (bytes, mode) = read_bounded(path).map_err(|error| {
            refuse(format!("cannot read {shown}: {}", describe(&error)), remedy_for(&error))
        })?;
        if bytes.len() > MAX_SIZE {
            return Err(refuse(
                format!("{shown} is larger than 1 MiB"),
                "this is not a configuration; check the path",
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
            let reason = format!("{shown} is not UTF-8 text: line {} has other bytes in it", line + 1);
            refuse(reason, "save it in the encoding UTF-8; if it is not a text at all, check the path")
        })?;
        Ok(Self { open_to_others: mode & 0o077 != 0, ..Self::new(path, &text) })
    }

    /// Whether users other than its owner can read or write the file.
    pub(super) fn is_open_to_others(&self) -> bool {
        self.open_to_others
    }

    /// The directory that the file is in.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file's path, as the user gave it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The text to parse.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text to show: as long as the other, with private keys blotted out.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The file's bytes, at most one more than is allowed, so that the caller can tell; and its permissions.
fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, mode))
}

/// The common ways in which a file cannot be read, in words, and what to do.
const FAILURES: [(io::ErrorKind, &str, &str); 3] = [
    (
        io::ErrorKind::NotFound,
        "there is no such file",
        "check the path; configurations are usually kept in /etc/psmc",
    ),
    (io::ErrorKind::PermissionDenied, "permission denied", "run this as root, or as the owner of the file"),
    (io::ErrorKind::IsADirectory, "it is a directory", "name the file in it"),
];

/// The error in words, without the number that `io::Error` adds to the common ones.
pub(super) fn describe(error: &io::Error) -> String {
    let known = FAILURES.iter().find(|(kind, _, _)| *kind == error.kind());
    known.map_or_else(|| error.to_string(), |(_, words, _)| (*words).to_owned())
}

/// What to do about it.
pub(super) fn remedy_for(error: &io::Error) -> &'static str {
    let known = FAILURES.iter().find(|(kind, _, _)| *kind == error.kind());
    known.map_or("check the path and the disk", |(_, _, remedy)| remedy)
}

/// The text with every character after `private_key` and `=` in a line replaced, of the same length in bytes.
/// It goes by the look of the line, because what has to be shown may not even be TOML.
fn without_secrets(text: &str) -> String {
    text.split_inclusive('\n').map(blotted).collect()
}

fn blotted(line: &str) -> String {
    let Some(start) = secret_start(line) else {
        return line.to_owned();
    };
    let (open, secret) = line.split_at(start);
    let hidden = secret.chars().map(|c| match c {
        '"' | '\'' | ' ' | '\t' | '\r' | '\n' => c.to_string(),
        _ => "*".repeat(c.len_utf8()),
    });
    open.chars().map(String::from).chain(hidden).collect()
}

/// Where the value of a private key starts in a line, if it has one.
fn secret_start(line: &str) -> Option<usize> {
    let ends = line.match_indices(SECRET_KEY).map(|(start, key)| start + key.len());
    let end = ends.into_iter().find(|end| !line[*end..].starts_with('_'))?;
    let secret = line[end..].trim_start_matches([' ', '\t', '=', ':', '"', '\'']);
    Some(line.len() - secret.len())
}

#[cfg(test)]
mod tests {
    use super::*;

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
