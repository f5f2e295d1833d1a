//! Our sender and reflector beside those of others: the library's own, as its program runs them, on a link that drops some packets
//! in each direction, which nft counts; and scapy, which reads our packets. Needs root, nft and scapy, and fails without.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its ends has failed")]

mod lossy;
mod scapy;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use psmc_stamp::Key;
use tempfile::NamedTempFile;

/// A key that our side and the library's read from the same file.
fn key_file() -> (NamedTempFile, Key) {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "000102030405060708090a0b0c0d0e0f").unwrap();
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    let key = Key::read(file.path()).unwrap();
    (file, key)
}
