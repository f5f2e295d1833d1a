//! `psmc reload`, and what was added while the daemon ran, written into its configuration.

use std::fmt;
use std::path::PathBuf;

use super::{CliError, output};
use psmc_api::{Additions, Client, ReloadReport};
use psmcd::config::{Files, SaveError};

/// What was saved.
#[derive(Debug, Default)]
struct Saved {
    /// Into which files what was written.
    written: Vec<(PathBuf, String)>,
    /// What could not be written, and why.
    left: Vec<String>,
}

pub(super) fn run(client: &mut Client, saves: bool) -> Result<(), CliError> {
    if saves {
        let saved = save(&client.additions()?)?;
        output::print(&saved.to_string())?;
    }
    let report = client.reload()?;
    Ok(output::print(&text(&report))?)
}

fn text(report: &ReloadReport) -> String {
    let ReloadReport { changes, restart, kept } = report;
    let mut text = if changes.is_empty() {
        "Configuration reloaded: no changes.\n".to_owned()
    } else {
        "Configuration reloaded. Applied:\n".to_owned()
    };
    text.extend(changes.iter().map(|change| format!("  {change}\n")));
    if !kept.is_empty() {
        text += "Changes made at run time that remain in force:\n";
        text.extend(kept.iter().map(|kept| format!("  {kept}\n")));
    }
    if !restart.is_empty() {
        text += &format!("Needs a restart of psmcd:\n  {}\n", restart.join(", "));
    }
    text
}

/// Writes what was added into the configuration.
fn save(additions: &Additions) -> Result<Saved, SaveError> {
    if additions.peers.is_empty() && additions.paths.is_empty() {
        return Ok(Saved::default());
    }
    let mut files = Files::open(&additions.file)?;
    let saved = edit(&mut files, additions)?;
    files.save()?;
    Ok(saved)
}

fn edit(files: &mut Files, additions: &Additions) -> Result<Saved, SaveError> {
    let mut saved = Saved::default();
    for peer in &additions.peers {
        let what = format!("peer {}", peer.name);
        if files.add_peer(peer)? {
            saved.written.push((additions.file.clone(), what));
        } else {
            saved.left.push(format!("{what}: the file has its peers in brackets, write it there by hand"));
        }
    }
    for added in &additions.paths {
        let what = format!("path {} of {}", added.path.name, added.peer);
        if !added.is_among_others {
            saved.left.push(format!(
                "{what}: the file lists no paths of {}, so that there is one over every uplink, and a listed one would be the only \
                 one",
                added.peer
            ));
            continue;
        }
        match files.add_path(&added.peer, &added.path)? {
            Some(file) => saved.written.push((file, what)),
            None => {
                saved.left.push(format!("{what}: the file has its paths in brackets, write it there by hand"))
            }
        }
    }
    Ok(saved)
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, left } = self;
        if written.is_empty() && left.is_empty() {
            writeln!(f, "Nothing to save: the configuration already contains everything.")?;
        }
        let mut before = None;
        for (file, what) in written {
            if before.replace(file) != Some(file) {
                writeln!(f, "Written into {}:", file.display())?;
            }
            writeln!(f, "  {what}")?;
        }
        if !left.is_empty() {
            writeln!(f, "Not written:")?;
        }
        left.iter().try_for_each(|left| writeln!(f, "  {left}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_otherwise_and_what_is_not() {
        assert!(text(&ReloadReport::default()).ends_with("no changes.\n"));
        let report = ReloadReport {
            changes: vec!["path lte of hq".to_owned()],
            restart: vec!["listen".to_owned(), "mtu".to_owned()],
            kept: vec!["path dsl of hq, added at run time".to_owned()],
        };
        assert_eq!(
            text(&report),
            "Configuration reloaded. Applied:\n  path lte of hq\n\
             Changes made at run time that remain in force:\n  path dsl of hq, added at run time\n\
             Needs a restart of psmcd:\n  listen, mtu\n"
        );
    }
}
