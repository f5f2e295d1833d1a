//! TSIG keys, as `tsig-keygen` and `keymgr` write them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::op::Message;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{Name, TSigner};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::wire::Conversation;
use psmc_service::clock::unix_seconds;

/// How far the clocks of two machines may differ, in seconds: what RFC 8945 §10 recommends.
const FUDGE_S: u16 = 300;

/// Why a text or a file is no TSIG key.
#[derive(Debug, Error)]
pub enum TsigKeyError {
    /// The file cannot be read.
    #[error("cannot read the TSIG key {path}: check the path, and that this user may read it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Every user of the machine can read the file.
    #[error("the TSIG key {path} is accessible to all users (mode {mode:04o}): run `chmod o= {path}`")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The text has another form.
    #[error(
        "not a TSIG key: expected the output of `tsig-keygen -a hmac-sha256 NAME`, or hmac-sha256:NAME:SECRET"
    )]
    Form,
    /// The name is none.
    #[error("{0:?} cannot be the name of a TSIG key")]
    Name(String),
    /// An algorithm that is too weak, or that nobody knows.
    #[error(
        "TSIG with {0:?} is not supported: make a key with hmac-sha256, hmac-sha384 or hmac-sha512, \
         such as `tsig-keygen -a hmac-sha256 NAME`"
    )]
    Algorithm(String),
    /// The secret is not base64, or so short that it can be guessed.
    #[error("the secret of a TSIG key is base64 of at least {MIN_SECRET_LEN} bytes")]
    Secret,
}

/// A secret that a name server and its updaters share.
#[derive(Clone, PartialEq, Eq)]
pub struct TsigKey {
    name: Name,
    algorithm: TsigAlgorithm,
    secret: Zeroizing<Vec<u8>>,
}

impl TsigKey {
    /// Reads a key from a file that not everyone may read.
    ///
    /// # Errors
    /// [`TsigKeyError`].
    pub fn read(path: &Path) -> Result<Self, TsigKeyError> {
        let unreadable = |source| TsigKeyError::Unreadable { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            return Err(TsigKeyError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.by_ref().take(MAX_FILE_LEN).read_to_string(&mut text).map_err(unreadable)?;
        text.parse()
    }

    /// The key's name, by which the server finds it.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What its MACs are made with.
    #[must_use]
    pub fn algorithm(&self) -> &TsigAlgorithm {
        &self.algorithm
    }

    /// The same as a library of DNS has it.
    pub fn signer(&self) -> TSigner {
        TSigner::new(self.secret.to_vec(), self.algorithm.clone(), self.name.clone(), FUDGE_S)
            .expect("the algorithm is one that is supported")
    }

    /// Signs a request at this moment; `None` if it cannot be written.
    pub fn sign(&self, request: &mut Message) -> Option<Conversation> {
        let signer = self.signer();
        request.finalize(&signer, unix_seconds()).ok()?;
        let mac = &request.signature()?.data.mac;
        Some(Conversation::new(signer, mac))
    }

    fn new(name: &str, algorithm: &str, secret: &str) -> Result<Self, TsigKeyError> {
        let wrong_name = || TsigKeyError::Name(name.to_owned());
        let mut key_name = Name::from_ascii(name).map_err(|_| wrong_name())?.to_lowercase();
        key_name.set_fqdn(true);
        if key_name.is_root() {
            return Err(wrong_name());
        }
        let algorithm_name = Name::from_ascii(algorithm.to_ascii_lowercase().trim_end_matches('.'));
        let parsed = algorithm_name.ok().map(TsigAlgorithm::from_name).filter(TsigAlgorithm::supported);
        let algorithm = parsed.ok_or_else(|| TsigKeyError::Algorithm(algorithm.to_owned()))?;
        let secret = STANDARD.decode(secret).map_err(|_| TsigKeyError::Secret)?;
        if secret.len() < MIN_SECRET_LEN {
            return Err(TsigKeyError::Secret);
        }
        Ok(Self { name: key_name, algorithm, secret: Zeroizing::new(secret) })
    }
}

impl FromStr for TsigKey {
    type Err = TsigKeyError;

    /// BIND's `key "NAME" { algorithm …; secret "…"; };`, or Knot's `ALGORITHM:NAME:SECRET`.
    fn from_str(text: &str) -> Result<Self, TsigKeyError> {
        let text = text.trim();
        if let [algorithm, name, secret] = text.split(':').collect::<Vec<_>>()[..]
            && !text.contains(char::is_whitespace)
        {
            return Self::new(name, algorithm, secret);
        }
        let spaced: String = uncommented(text).replace(['{', '}', ';', '"'], " ");
        match spaced.split_whitespace().collect::<Vec<_>>()[..] {
            ["key", name, "algorithm", algorithm, "secret", secret]
            | ["key", name, "secret", secret, "algorithm", algorithm] => Self::new(name, algorithm, secret),
            _ => Err(TsigKeyError::Form),
        }
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({} {}, ..)", self.algorithm, self.name)
    }
}

/// The text without comments to the end of a line. Base64 has slashes, two in a row among them, and stands in quotes.
fn uncommented(text: &str) -> String {
    let code = |line: &str| {
        let outside = |at: usize| line[..at].matches('"').count().is_multiple_of(2);
        let starts = line.match_indices('#').chain(line.match_indices("//")).map(|(at, _)| at);
        let end = starts.filter(|at| outside(*at)).min().unwrap_or(line.len());
        line[..end].to_owned() + "\n"
    };
    text.lines().map(code).collect()
}

/// The least secret in bytes: shorter ones can be tried out.
const MIN_SECRET_LEN: usize = 16;

/// How much of a file is read, in bytes: more is no key.
const MAX_FILE_LEN: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn reads_what_the_tools_write() {
        let bind =
            format!("# made\nkey \"Up.Example\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
        let slashes = "key k { algorithm HMAC-SHA512; secret \"//////////////////////////8=\"; }; // mine";
        for (text, shown) in [
            (bind.as_str(), "TsigKey(hmac-sha256 up.example., ..)"),
            (slashes, "TsigKey(hmac-sha512 k., ..)"),
            (&format!("hmac-sha384:k.example:{SECRET}\n"), "TsigKey(hmac-sha384 k.example., ..)"),
        ] {
            assert_eq!(format!("{:?}", text.parse::<TsigKey>().unwrap()), shown);
        }
    }

    #[test]
    fn weak_and_broken_keys_are_refused() {
        let refused = |text: &str| text.parse::<TsigKey>().unwrap_err();
        assert!(matches!(refused(&format!("hmac-md5:k:{SECRET}")), TsigKeyError::Algorithm(_)));
        assert!(matches!(refused("hmac-sha256:k:c2hvcnQ="), TsigKeyError::Secret));
        assert!(matches!(refused("hmac-sha256:k:***"), TsigKeyError::Secret));
        assert!(matches!(refused(&format!("hmac-sha256::{SECRET}")), TsigKeyError::Name(_)));
        assert!(matches!(refused("key k { algorithm hmac-sha256; };"), TsigKeyError::Form));
        assert!(matches!(refused(""), TsigKeyError::Form));
    }

    #[test]
    fn a_key_that_everyone_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("up.key");
        std::fs::write(&path, format!("hmac-sha256:k:{SECRET}")).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(matches!(TsigKey::read(&path), Err(TsigKeyError::Exposed { .. })));
        mode(0o640);
        assert!(TsigKey::read(&path).is_ok());
    }
}
