//! Files that the configuration includes: all of a folder, with a peer in each, as thousands of them are best kept.

use std::fs;
use std::path::{Path, PathBuf};

use psmc_toml::{Complaint, ConfigError, Source, describe, remedy_for};
use toml::de::{DeTable, DeValue};

use super::DIALECT;

/// The sections that such a file can have.
const SECTIONS: [&str; 3] = ["peer", "relay", "class"];

/// Appends to a configuration what the files say that it includes, in the order of their names.
pub(super) fn extend(source: &mut Source) -> Result<(), ConfigError> {
    // What is no TOML, or no name of a folder, is complained about when all is checked.
    let Ok(Some((folder, span))) = source.look(folder) else { return Ok(()) };
    let directory = source.directory().join(folder);
    let files = match files_in(&directory) {
        Ok(files) => files,
        Err(error) => {
            let reason = format!("cannot read the folder {}: {}", directory.display(), describe(&error));
            let complaint = Complaint::new(reason, remedy_for(&error)).at(span);
            return Err(ConfigError::new(source.clone(), vec![complaint]));
        }
    };
    for file in files {
        let included = Source::read(&DIALECT, &file)?;
        let complaints = included.look(foreign_sections)?;
        if !complaints.is_empty() {
            return Err(ConfigError::new(included, complaints));
        }
        source.append(&included);
    }
    Ok(())
}

/// The files that make up a configuration: the one at `path` first, then those that it includes.
///
/// # Errors
/// If it cannot be read, or is no TOML.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let source = Source::read(&DIALECT, path)?;
    let folder = source.look(folder)?.map(|(folder, _)| source.directory().join(folder));
    // A folder that cannot be read is complained about where its files are.
    let included = folder.and_then(|folder| files_in(&folder).ok()).unwrap_or_default();
    Ok(std::iter::once(path.to_owned()).chain(included).collect())
}

/// The folder that a file includes, and where that stands.
fn folder(root: &DeTable<'_>) -> Option<(PathBuf, std::ops::Range<usize>)> {
    let DeValue::Table(include) = root.get("include")?.get_ref() else { return None };
    let folder = include.get("folder")?;
    Some((folder.get_ref().as_str()?.into(), folder.span()))
}

fn files_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    let is_meant = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        path.extension().is_some_and(|extension| extension == "toml") && !is_hidden
    };
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).filter(is_meant).collect();
    files.sort();
    Ok(files)
}

fn foreign_sections(root: &DeTable<'_>) -> Vec<Complaint> {
    let foreign = root.keys().filter(|key| !SECTIONS.contains(&key.get_ref().as_ref()));
    let complaint = |key: &toml::Spanned<std::borrow::Cow<'_, str>>| {
        let reason = format!("a file that is included has no {:?}", key.get_ref());
        let remedy =
            "it can have [[peer]], [[relay]] and [[class]]; everything else belongs in the including file";
        Complaint::new(reason, remedy).at(key.span())
    };
    foreign.map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const MAIN: &str = "[site]\nname = \"van\"\nprivate_key = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n\
        addresses = [\"10.77.0.2/24\"]\n";

    /// The configuration with these files in its folder, or all complaints about it.
    fn load(files: &[(&str, &str)]) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        std::fs::create_dir(directory.path().join("peers")).unwrap();
        for (name, text) in files {
            write(&format!("peers/{name}"), text);
        }
        let path = write("van.toml", &format!("{MAIN}\n[include]\nfolder = \"peers\"\n"));
        Config::load(&path).map_err(|error| error.to_string())
    }

    fn peer(number: u8) -> String {
        let key = psmc_net::keys::PrivateKey::from_seed([number; 32]).public();
        format!(
            "[[peer]]\nname = \"p{number}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.9.{number}.0/24\"]\n"
        )
    }

    #[test]
    fn peers_of_a_folder_come_in_the_order_of_its_files() {
        let config =
            load(&[("b.toml", &peer(2)), ("a.toml", &peer(1)), (".c.toml", "no"), ("d.toml~", "no")])
                .unwrap();
        let names: Vec<_> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(names, ["p1", "p2"]);
    }

    #[test]
    fn complaints_name_the_file_that_they_are_about() {
        let twice = load(&[("a.toml", &peer(1)), ("b.toml", &peer(1))]).unwrap_err();
        assert!(twice.contains("peers/b.toml:2:8") && twice.contains("peers/a.toml:2:8"), "{twice}");
        let wrong = load(&[("a.toml", &peer(1)), ("b.toml", &peer(2).replace("/24", "/33"))]).unwrap_err();
        assert!(wrong.contains("peers/b.toml:4:"), "{wrong}");
        let open = load(&[("a.toml", "[[peer]]\nx = ["), ("b.toml", &peer(2))]).unwrap_err();
        assert!(open.contains("peers/a.toml:2:"), "{open}");
        let foreign = load(&[("a.toml", "[site]\nname = \"x\"")]).unwrap_err();
        assert!(foreign.contains("peers/a.toml:1:2") && foreign.contains("has no \"site\""), "{foreign}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("van.toml");
        std::fs::write(&path, format!("{MAIN}\n[include]\nfolder = \"nowhere\"\n")).unwrap();
        let error = Config::load(&path).unwrap_err().to_string();
        assert!(error.contains("nowhere") && error.contains("there is no such file"), "{error}");
    }
}
