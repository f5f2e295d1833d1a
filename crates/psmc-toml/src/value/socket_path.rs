//! The path of the control socket.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Form, Name, Setting, ValueError};

/// Most bytes in the path of a socket: `sun_path` of `struct sockaddr_un`, less the zero at the end.
const MAX_LEN: usize = 107;

/// The directory of the control sockets of sites that have no place of their own.
pub const RUN_DIR: &str = "/run/psmc";

/// The same for relays, which run as a user of their own.
pub const RELAY_RUN_DIR: &str = "/run/psmc-relay";

/// The path of a control socket: absolute, and at most 107 bytes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath(PathBuf);

impl SocketPath {
    /// `/run/psmc/<name>.sock`.
    pub fn of_site(name: &Name) -> Self {
        Self(Path::new(RUN_DIR).join(format!("{name}.sock")))
    }

    /// `/run/psmc-relay/<name>.sock`.
    pub fn of_relay(name: &Name) -> Self {
        Self(Path::new(RELAY_RUN_DIR).join(format!("{name}.sock")))
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl FromStr for SocketPath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if !text.starts_with('/') || text.ends_with('/') || text.contains('\0') {
            let remedy = "write where the socket shall be, from the root, such as \"/run/psmc/van.sock\"";
            return Err(ValueError::new(format!("{text:?} is not the absolute path of a file"), remedy));
        }
        if text.len() > MAX_LEN {
            let reason = format!("the path is {} bytes long, a socket's can have {MAX_LEN}", text.len());
            return Err(ValueError::new(reason, "choose a shorter one"));
        }
        Ok(Self(text.into()))
    }
}

impl Setting for SocketPath {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"/run/psmc/van.sock\"";
}
