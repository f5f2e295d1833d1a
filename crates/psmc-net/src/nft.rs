//! nftables, by its program; and its counters, by the kernel.

mod counters;

use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

pub use counters::counters;

/// Why nftables has not done what it was told.
#[derive(Debug, Error)]
pub enum NftError {
    /// The program is not there.
    #[error("cannot run `nft`: install nftables")]
    NoTool(#[source] io::Error),
    /// The kernel refuses, or the program does.
    #[error("nftables refused: {0} (CAP_NET_ADMIN is needed)")]
    Refused(String),
    /// The kernel does not say what was counted.
    #[error("cannot read the counters of nftables")]
    Counters(#[source] io::Error),
}

/// Runs `nft` with these arguments, and with `script` for its standard input. A script is one transaction: nobody sees half of it.
///
/// # Errors
/// [`NftError`]; then nothing has changed.
pub fn nft(arguments: &[&str], script: &str) -> Result<Output, NftError> {
    let mut command = Command::new("nft");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut nft = command.spawn().map_err(NftError::NoTool)?;
    if let Some(mut stdin) = nft.stdin.take() {
        // Where it has ended already, its words say why.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = nft.wait_with_output().map_err(NftError::NoTool)?;
    if output.status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(NftError::Refused(words.lines().next().unwrap_or("it does not say why").to_owned()))
}

/// The script that carries out `script`, if not `None`, in place of whatever the table `name` of family `inet` held.
#[must_use]
pub fn replacing(name: &str, script: Option<&str>) -> String {
    // One that is not there cannot be deleted.
    format!("add table inet {name}\ndelete table inet {name}\n{}", script.unwrap_or_default())
}

/// The name of a table for `of` whose first part is `prefix`: nftables knows letters, digits and a few signs.
#[must_use]
pub fn table_name(prefix: &str, of: &str) -> String {
    format!("{prefix}_{}", of.replace(['.', '-'], "_"))
}
