//! `psmc genkey` and `psmc pubkey`

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use psmc_net::keys::PrivateKey;

use super::{CliError, output};

/// More than a private key and its line end ever have; more is something else, however long.
const MAX_INPUT: u64 = 256;

/// Why standard input is no private key. It does not repeat the input, which may be secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyInputError {
    #[error("cannot read the private key from standard input: {0}")]
    Read(#[source] io::Error),
    #[error("standard input is empty; give the private key, as in `psmc pubkey < van.key`")]
    Empty,
    #[error(
        "standard input is not a private key; it should be the one line that `psmc genkey` prints, 44 characters"
    )]
    NotAKey,
}

/// Prints a new private key.
pub(super) fn genkey() -> Result<(), CliError> {
    if io::stdout().is_terminal() {
        output::warn("the private key goes to the screen; better `umask 077; psmc genkey > FILE`");
    } else if stdout_is_readable_by_others() {
        output::warn(
            "other users can read the file that the private key goes to; run `chmod 600` on it, or `umask 077` before",
        );
    }
    output::print(&PrivateKey::generate().to_base64())?;
    Ok(output::print("\n")?)
}

fn stdout_is_readable_by_others() -> bool {
    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let metadata = file.and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 != 0)
}

/// Prints the public key of the private key on standard input.
pub(super) fn pubkey() -> Result<(), CliError> {
    if io::stdin().is_terminal() {
        output::warn("waiting for a private key and Enter, Ctrl-D; or use `psmc pubkey < FILE`");
    }
    let key = read_key(io::stdin().lock())?;
    Ok(output::print(&format!("{}\n", key.public()))?)
}

fn read_key(input: impl Read) -> Result<PrivateKey, KeyInputError> {
    let mut text = Vec::new();
    input.take(MAX_INPUT).read_to_end(&mut text).map_err(KeyInputError::Read)?;
    let text = String::from_utf8(text).map_err(|_| KeyInputError::NotAKey)?;
    match text.trim() {
        "" => Err(KeyInputError::Empty),
        key => PrivateKey::from_base64(key).map_err(|_| KeyInputError::NotAKey),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_refused() {
        assert!(matches!(read_key(b" \n".as_slice()), Err(KeyInputError::Empty)));
        assert!(matches!(read_key(b"hello\n".as_slice()), Err(KeyInputError::NotAKey)));
        assert!(matches!(read_key(b"\xff\n".as_slice()), Err(KeyInputError::NotAKey)));
        assert!(matches!(read_key([b'A'; 1000].as_slice()), Err(KeyInputError::NotAKey)));
    }

    #[test]
    fn a_key_is_read_with_its_line_end() {
        let key = PrivateKey::generate();
        let line = format!("{}\r\n", *key.to_base64());
        assert_eq!(read_key(line.as_bytes()).unwrap().public(), key.public());
    }
}
