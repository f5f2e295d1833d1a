//! Where grants are kept.

use std::path::PathBuf;
use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError};

/// The path of a file of grants.
pub(in crate::config) struct GrantsFile(pub(in crate::config) PathBuf);

impl FromStr for GrantsFile {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "" => Err(ValueError::new("the path of the grants is empty", "name the file that holds them")),
            _ => Ok(Self(text.into())),
        }
    }
}

impl Setting for GrantsFile {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"/etc/psmc/van.grants\"";
}
