//! A file of grants: what the coordinator has signed, a line each.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use psmc_toml::ValueError;
use psmc_wire::relay::SignedGrant;

/// A file that is larger holds no grants: there are as many as relays, and each has 196 characters.
const MAX_FILE: u64 = 1 << 20;

/// A grant as a line of text.
#[must_use]
pub fn grant_text(grant: &SignedGrant) -> String {
    STANDARD.encode(grant.to_bytes())
}

/// Reads a file of grants. Empty lines, and those that begin with `#`, say nothing.
pub(crate) fn read_grants(path: &Path) -> Result<Vec<SignedGrant>, ValueError> {
    let shown = path.display();
    let text = read(path).map_err(|error| {
        ValueError::new(
            format!("cannot read the file of grants {shown}: {error}"),
            "correct the path, or make the file; it may be empty until there are grants",
        )
    })?;
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let grants = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = grants.map(|(number, line)| read_grant(line, &format!("line {number} of {shown}")));
    read.collect()
}

/// Reads one line that `psmc grant` prints; `what` it is called if it is none.
pub(crate) fn read_grant(line: &str, what: &str) -> Result<SignedGrant, ValueError> {
    let bytes = STANDARD.decode(line.trim()).ok();
    bytes.and_then(|bytes| SignedGrant::from_bytes(&bytes).ok()).ok_or_else(|| {
        ValueError::new(format!("{what} is no grant"), "copy the line that `psmc grant` prints, whole")
    })
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for one"));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use psmc_wire::ids::KeyBytes;
    use psmc_wire::relay::Grant;

    use super::*;

    fn grant(relay: u8) -> SignedGrant {
        let (relay, site) = (KeyBytes([relay; 32]), KeyBytes([9; 32]));
        let grant = Grant { relay, site, expires_s: 7, sessions: 3, max_rate: None, gateway: true };
        SignedGrant { grant, signature: [5; 64] }
    }

    #[test]
    fn grants_are_read_line_by_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = format!("# of Monday\n{}\n\n  {}  \n", grant_text(&grant(1)), grant_text(&grant(2)));
        fs::write(file.path(), lines).unwrap();
        assert_eq!(read_grants(file.path()).unwrap(), [grant(1), grant(2)]);
    }

    #[test]
    fn what_is_no_grant_is_named_by_its_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let whole = grant_text(&grant(1));
        for wrong in [&whole[..190], "hello", &format!("{whole}AAAA")] {
            fs::write(file.path(), format!("{whole}\n{wrong}\n")).unwrap();
            let error = read_grants(file.path()).unwrap_err();
            assert!(error.reason().starts_with("line 2 of "), "{error:?}");
        }
        assert!(read_grants(Path::new("/nowhere/grants")).is_err());
    }
}
