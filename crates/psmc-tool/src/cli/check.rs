//! `psmc check`

use std::path::Path;

use super::{CliError, output};
use psmcd::config::Config;

pub(super) fn run(file: &Path) -> Result<(), CliError> {
    let config = Config::load(file)?;
    let mut text = format!("{} is right. It means:\n\n{}", file.display(), config.summary());
    let notices = psmcd::machine::notices(&config);
    if !notices.is_empty() {
        text += "\non this machine\n";
        text.extend(notices.iter().map(|notice| format!("  attention    {notice}\n")));
    }
    Ok(output::print(&text)?)
}
