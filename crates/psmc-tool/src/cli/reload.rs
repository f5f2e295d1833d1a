//! `psmc reload`

mod edit;
mod save;

use super::{CliError, output};
use psmc_api::{Client, ReloadReport};
pub(super) use save::SaveError;

pub(super) fn run(client: &mut Client, saves: bool) -> Result<(), CliError> {
    if saves {
        let saved = save::save(&client.additions()?)?;
        output::print(&saved.to_string())?;
    }
    let report = client.reload()?;
    Ok(output::print(&text(&report))?)
}

fn text(report: &ReloadReport) -> String {
    let ReloadReport { changes, restart, kept } = report;
    let mut text = if changes.is_empty() {
        "The configuration has been read again: there is nothing new in it to be applied.\n".to_owned()
    } else {
        "The configuration has been read again. Applied:\n".to_owned()
    };
    text.extend(changes.iter().map(|change| format!("  {change}\n")));
    if !kept.is_empty() {
        text += "Kept, though the file does not say so:\n";
        text.extend(kept.iter().map(|kept| format!("  {kept}\n")));
    }
    if !restart.is_empty() {
        text += &format!("As before, until psmcd is restarted:\n  {}\n", restart.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_otherwise_and_what_is_not() {
        assert!(text(&ReloadReport::default()).ends_with("nothing new in it to be applied.\n"));
        let report = ReloadReport {
            changes: vec!["path lte of hq".to_owned()],
            restart: vec!["listen".to_owned(), "mtu".to_owned()],
            kept: vec!["path dsl of hq, which was added by hand".to_owned()],
        };
        assert_eq!(
            text(&report),
            "The configuration has been read again. Applied:\n  path lte of hq\n\
             Kept, though the file does not say so:\n  path dsl of hq, which was added by hand\n\
             As before, until psmcd is restarted:\n  listen, mtu\n"
        );
    }
}
