//! Files that others than keys are in.

use std::path::PathBuf;
use std::str::FromStr;

use super::{Form, Setting, ValueError};

/// The path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(pub PathBuf);

impl FromStr for FilePath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() {
            return Err(ValueError::new("the path is empty", "name a file"));
        }
        Ok(Self(text.into()))
    }
}

impl Setting for FilePath {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"/etc/psmc/up.key\"";
}
