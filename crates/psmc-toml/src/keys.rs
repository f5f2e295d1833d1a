//! Keys and tokens as they stand in files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use psmc_net::keys::{KeyFileError, PrivateKey, PublicKey, read_private_key};
use psmc_net::token::{MIN_TOKEN_LEN, Token};

use crate::{Complaint, Kind, Section, Source, ValueError, describe, remedy_for};

/// A public key as base64.
pub const PUBLIC_KEY: Kind<PublicKey> = Kind::text("\"…\"", |text| {
    let key: PublicKey =
        text.parse().map_err(|_| ValueError::new(why_no_key("public", text), PUBLIC_REMEDY))?;
    if key.has_private_key() { Ok(key) } else { Err(ValueError::new(NO_KEY, NO_KEY_REMEDY).about_secret()) }
});

const PUBLIC_REMEDY: &str =
    "copy what `psmc pubkey` prints on the other site: 44 characters, the last of them =";

/// A private key in the place of a public one, or a public one that was spoilt.
const NO_KEY: &str = "this is no public key: it is a private one, or was spoilt";

const NO_KEY_REMEDY: &str = "copy what `psmc pubkey` prints on the other site; if a private key stood here, others may have read it: make another one there";

/// A private key as base64.
pub const PRIVATE_KEY: Kind<PrivateKey> = Kind::text("\"…\"", |text| {
    let remedy = "put in what `psmc genkey` prints: 44 characters, the last of them =";
    PrivateKey::from_base64(text).map_err(|_| ValueError::new(why_no_key("private", text), remedy))
});

/// Tells the ways apart in which a key can be spoilt, without repeating the key, which may be secret.
fn why_no_key(kind: &str, text: &str) -> String {
    let base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    match text.chars().find(|c| !base64(*c)) {
        _ if text.is_empty() => format!("the {kind} key is empty"),
        Some(stray) => format!("a {kind} key is base64, and has no {stray:?} in it"),
        None if text.len() != ENCODED_LEN => {
            format!("a {kind} key has {ENCODED_LEN} characters, and this one {}", text.len())
        }
        None => format!("this is not a {kind} key: its characters do not decode to 32 bytes"),
    }
}

/// Characters in the base64 of 32 bytes, with padding.
const ENCODED_LEN: usize = 44;

/// The path of a private key's file.
pub const KEY_FILE: Kind<PathBuf> = Kind::text("\"/etc/psmc/van.key\"", |text| match text {
    "" => Err(ValueError::new("the path of the private key is empty", "name the file that holds it")),
    _ => Ok(text.into()),
});

impl Section<'_> {
    /// The private key in the file that must be named here. `example` is the path of one, in quotes.
    pub fn private_key(
        &self,
        key: &str,
        example: &'static str,
        source: &Source,
        out: &mut Vec<Complaint>,
    ) -> Option<PrivateKey> {
        let remedy = "and make that file with `umask 077; psmc genkey > FILE`";
        let file = self.required_at(key, KEY_FILE.like(example), remedy, out)?;
        source.read_beside(&file, read_key_file, out)
    }
}

/// Reads a private key from its file, which only its owner may be able to read.
pub fn read_key_file(path: &Path) -> Result<PrivateKey, ValueError> {
    let shown = path.display();
    read_private_key(path).map_err(|error| match &error {
        KeyFileError::Missing { .. } => ValueError::new(
            format!("there is no key file {shown}"),
            format!("correct the path, or make a key with `umask 077; psmc genkey > {shown}`"),
        ),
        KeyFileError::Unreadable { source, .. } => ValueError::new(
            format!("cannot read the key file {shown}: {}", describe(source)),
            remedy_for(source),
        ),
        KeyFileError::Exposed { mode, .. } => ValueError::new(
            format!("other users can get at the key file {shown} (its mode is {mode:04o})"),
            format!("run `chmod 600 {shown}`"),
        ),
        KeyFileError::Foreign { owner, .. } => ValueError::new(
            format!("the key file {shown} belongs to the user {owner}, who can put another key in it"),
            format!("run `chown root {shown}`, or make a key of your own with `umask 077; psmc genkey`"),
        ),
        KeyFileError::Empty { .. } => ValueError::new(
            format!("the key file {shown} is empty"),
            format!("fill it with `psmc genkey > {shown}`"),
        ),
        KeyFileError::NotAKey { .. } => ValueError::new(
            format!("the key file {shown} holds no private key"),
            "it takes the one line that `psmc genkey` prints, and nothing else",
        ),
    })
}

/// How much of a token's file is read, in bytes: more is no token.
const MAX_TOKEN_FILE: u64 = 1024;

/// Reads a token from its file, which only its owner and group may be able to read.
pub fn read_token_file(path: &Path) -> Result<Token, ValueError> {
    let shown = path.display();
    let unreadable = |error: io::Error| {
        let remedy = if error.kind() == io::ErrorKind::NotFound {
            format!("correct the path, or make it with `umask 077; openssl rand -hex 32 > {shown}`")
        } else {
            remedy_for(&error).to_owned()
        };
        ValueError::new(format!("cannot read the token {shown}: {}", describe(&error)), remedy)
    };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let reason = format!("the token file {shown} is accessible to all users (mode {mode:04o})");
        return Err(ValueError::new(reason, format!("run `chmod o= {shown}`")));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Token::parse(&text).map_err(|_| {
        ValueError::new(
            format!("the token {shown} is not one word of {MIN_TOKEN_LEN} characters or more"),
            format!("make another: `openssl rand -hex 32 > {shown}`"),
        )
    })
}
