//! Keys in files, by which packets are authenticated: HMAC-SHA-256, of which 16 bytes are sent (RFC 8762 section 4.4).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stamp_suite::crypto::{HmacError, HmacKey};

/// What both ends of a measurement know.
#[derive(Clone)]
pub struct Key {
    hmac: HmacKey,
    /// Tells keys apart.
    fingerprint: [u8; 16],
}

/// Why a file yields no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// There is no such file, or it may not be read.
    #[error("cannot read the STAMP key {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no ordinary file, or too long.
    #[error("the STAMP key {} is no file of {MAX_KEY_FILE} bytes or less", path.display())]
    NotAKeyFile {
        /// The file.
        path: PathBuf,
    },
    /// Others can read it.
    #[error("other users can get at the STAMP key {} (its mode is {mode:04o}); run `chmod 600` on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It has less than 16 bytes.
    #[error("the STAMP key {} is shorter than {MIN_KEY_LEN} bytes; `openssl rand -hex 32` makes one", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
    },
}

/// The longest file that is read, in bytes: a key that is longer than a block of SHA-256, 64 bytes, is no stronger.
const MAX_KEY_FILE: u64 = 1024;

/// The shortest key, in bytes: as many as are sent of the HMAC.
const MIN_KEY_LEN: usize = 16;

impl Key {
    /// Of these bytes; `None` if there are less than 16.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        HmacKey::new(bytes.to_vec()).ok().map(Self::of)
    }

    /// Reads a key: hexadecimal digits, or else the bytes of the file as they are.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let unreadable = |source| KeyFileError::Unreadable { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MAX_KEY_FILE {
            return Err(KeyFileError::NotAKeyFile { path: path.to_owned() });
        }
        HmacKey::from_file(path).map(Self::of).map_err(|error| match error {
            HmacError::Io(source) => unreadable(source),
            HmacError::InsecurePermissions { mode, .. } => {
                KeyFileError::Exposed { path: path.to_owned(), mode }
            }
            HmacError::KeyTooShort(_) | HmacError::InvalidHex(_) => {
                KeyFileError::TooShort { path: path.to_owned() }
            }
        })
    }

    fn of(hmac: HmacKey) -> Self {
        let fingerprint = hmac.compute(b"fingerprint of a key for STAMP");
        Self { hmac, fingerprint }
    }

    pub(crate) fn hmac(&self) -> &HmacKey {
        &self.hmac
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(content: &[u8], mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_key_is_digits_or_bytes() {
        let digits = file(b"000102030405060708090a0b0c0d0e0f\n", 0o600);
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(Key::read(digits.path()).unwrap(), Key::new(&bytes).unwrap());
        let text = b"what the router of the other vendor has";
        assert_eq!(Key::read(file(text, 0o400).path()).unwrap(), Key::new(text).unwrap());
        assert_ne!(Key::new(text), Key::new(&bytes));
        assert_eq!(format!("{:?}", Key::new(text)), "Some(Key(…))");
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_reason() {
        let read = |file: &tempfile::NamedTempFile| Key::read(file.path()).unwrap_err();
        assert!(matches!(read(&file(&[b'k'; 32], 0o640)), KeyFileError::Exposed { mode: 0o640, .. }));
        assert!(matches!(read(&file(b"short", 0o600)), KeyFileError::TooShort { .. }));
        assert!(matches!(read(&file(b"00010203", 0o600)), KeyFileError::TooShort { .. }));
        assert!(matches!(read(&file(&[0; 1025], 0o600)), KeyFileError::NotAKeyFile { .. }));
        assert!(matches!(Key::read(Path::new("/dev/zero")), Err(KeyFileError::NotAKeyFile { .. })));
        assert!(matches!(Key::read(Path::new("/nowhere/key")), Err(KeyFileError::Unreadable { .. })));
    }
}
