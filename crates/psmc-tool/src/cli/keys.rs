//! `psmc genkey`, `psmc pubkey`, and `psmc grant`: keys, and what a key signs.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Args;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_service::clock::unix_seconds;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Grant, SignedGrant};

use super::args::Life;
use super::{CliError, output};
use psmcd::config::{Rate, grant_text};

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

#[derive(Debug, Args)]
pub(super) struct GrantArgs {
    /// The file with the coordinator's private key, whose public key the relay's configuration names
    #[arg(long, value_name = "FILE")]
    coordinator: PathBuf,
    /// The public key of the relay
    #[arg(long, value_name = "KEY")]
    relay: PublicKey,
    /// The public key of the site that may use it
    #[arg(long, value_name = "KEY")]
    holder: PublicKey,
    /// Validity, such as 12h or 7d
    #[arg(long = "for", default_value = "24h", value_name = "TIME")]
    life: Life,
    /// How many sessions the site may have at a time: a path needs one at each relay
    #[arg(long, default_value_t = SESSIONS, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    sessions: u16,
    /// Rate limit over all its sessions, in each direction, such as 20mbit
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// The site may be a gateway
    #[arg(long)]
    gateway: bool,
}

/// Prints a grant.
pub(super) fn grant(args: &GrantArgs) -> Result<(), CliError> {
    let coordinator = psmc_toml::read_key_file(&args.coordinator).map_err(CliError::CoordinatorKey)?;
    let grant = sign(args, &coordinator, unix_seconds());
    Ok(output::print(&format!("{}\n", grant_text(&grant)))?)
}

fn sign(args: &GrantArgs, coordinator: &PrivateKey, now_s: u64) -> SignedGrant {
    let grant = Grant {
        relay: KeyBytes(*args.relay.as_bytes()),
        site: KeyBytes(*args.holder.as_bytes()),
        expires_s: now_s + args.life.0.as_secs(),
        sessions: args.sessions,
        max_rate: args.max_rate.map(Rate::bits_per_second),
        gateway: args.gateway,
    };
    let signature = coordinator.sign(&grant.signed_bytes());
    SignedGrant { grant, signature }
}

/// More than a private key and its line end ever have; more is something else, however long.
const MAX_INPUT: u64 = 256;

/// Sessions that a site needs for a few peers and paths, as an `[[allow]]` gives it.
const SESSIONS: u16 = 64;

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

    #[test]
    fn a_grant_says_what_was_asked_for_and_bears_the_coordinators_signature() {
        let [coordinator, relay, site] = [(); 3].map(|()| PrivateKey::generate());
        let args = GrantArgs {
            coordinator: PathBuf::new(),
            relay: relay.public(),
            holder: site.public(),
            life: "2h".parse().unwrap(),
            sessions: 3,
            max_rate: Some("20mbit".parse().unwrap()),
            gateway: true,
        };
        let SignedGrant { grant, signature } = sign(&args, &coordinator, 1000);
        assert!(coordinator.public().has_signed(&grant.signed_bytes(), &signature));
        assert_eq!((grant.relay.0, grant.site.0), (*relay.public().as_bytes(), *site.public().as_bytes()));
        assert_eq!((grant.expires_s, grant.sessions), (8200, 3));
        assert_eq!((grant.max_rate, grant.gateway), (Some(20_000_000), true));
    }
}
