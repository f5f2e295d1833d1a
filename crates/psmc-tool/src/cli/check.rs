//! `psmc check`

use std::path::Path;

use super::{CliError, output};
use psmcd::config::Config;

pub(super) fn run(file: &Path) -> Result<(), CliError> {
    let config = Config::load(file)?;
    let text = format!("{} is right. It means:\n\n{}", file.display(), config.summary());
    Ok(output::print(&text)?)
}
