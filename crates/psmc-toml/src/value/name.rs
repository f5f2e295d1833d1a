//! Names of sites, peers, paths and relays, of network interfaces, and of files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Kind, ValueError};

/// Longest name: it must fit, with a directory and a suffix, into the 107 bytes of a socket's path.
const MAX_NAME_LEN: usize = 32;

/// Longest name of an interface: `IFNAMSIZ` of the kernel, less the zero at the end.
pub const MAX_INTERFACE_LEN: usize = 15;

/// A [`Name`].
pub const NAME: Kind<Name> = Kind::text("\"van\"", str::parse);

/// An [`InterfaceName`].
pub const INTERFACE: Kind<InterfaceName> = Kind::text("\"wlan0\"", str::parse);

/// The name of a site, a peer, a path or a relay: 1 to 32 letters, digits, `_`, `.` and `-`, of which the first is a
/// letter or a digit. It is safe as a file name and as an argument on a command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = format!("use 1 to {MAX_NAME_LEN} letters, digits, `_`, `.` or `-`, such as \"van-2\"");
        if text.is_empty() {
            return Err(ValueError::new("the name is empty", remedy));
        }
        if let Some(bad) = text.chars().find(|c| !is_name_char(*c)) {
            return Err(ValueError::new(format!("the name {text:?} has a {bad:?} in it"), remedy));
        }
        if text.len() > MAX_NAME_LEN {
            let reason = format!("the name is {} characters long, {MAX_NAME_LEN} is the most", text.len());
            return Err(ValueError::new(reason, "choose a shorter one"));
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let reason = format!("the name {text:?} begins with a sign");
            return Err(ValueError::new(reason, "begin it with a letter or a digit"));
        }
        Ok(Self(text.to_owned()))
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// The name of a network interface, as the kernel would accept it. The interface need not exist (yet).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for InterfaceName {
    type Err = ValueError;

    /// Refuses what `dev_valid_name()` of the kernel refuses, and patterns (`%d`).
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const REMEDY: &str = "name an interface as `ip link` shows it, such as \"wlan0\"";
        if matches!(text, "" | "." | "..") {
            return Err(ValueError::new(format!("{text:?} cannot be the name of an interface"), REMEDY));
        }
        if text.len() > MAX_INTERFACE_LEN {
            let reason = format!(
                "the interface name {text:?} is {} bytes long, Linux allows {MAX_INTERFACE_LEN}",
                text.len()
            );
            return Err(ValueError::new(reason, REMEDY));
        }
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%');
        if let Some(bad) = text.chars().find(|c| forbidden(*c)) {
            return Err(ValueError::new(format!("the interface name {text:?} has a {bad:?} in it"), REMEDY));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The path of a file.
pub const FILE: Kind<PathBuf> = Kind::text("\"/etc/psmc/up.key\"", |text| match text {
    "" => Err(ValueError::new("the path is empty", "name a file")),
    _ => Ok(text.into()),
});

/// Most bytes in the path of a socket: `sun_path` of `struct sockaddr_un`, less the zero at the end.
const MAX_SOCKET_LEN: usize = 107;

/// The directory of the control sockets of sites that have no place of their own.
pub const RUN_DIR: &str = "/run/psmc";

/// The same for relays, which run as a user of their own.
pub const RELAY_RUN_DIR: &str = "/run/psmc-relay";

/// A [`SocketPath`].
pub const SOCKET: Kind<SocketPath> = Kind::text("\"/run/psmc/van.sock\"", str::parse);

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
        socket_path(text, "/run/psmc/van.sock")
    }
}

/// A [`SocketPath`] that is refused with this example.
///
/// # Errors
/// If the text is no absolute path, or too long.
pub fn socket_path(text: &str, example: &str) -> Result<SocketPath, ValueError> {
    if !text.starts_with('/') || text.ends_with('/') || text.contains('\0') {
        let remedy = format!("write where the socket shall be, from the root, such as {example:?}");
        return Err(ValueError::new(format!("{text:?} is not the absolute path of a file"), remedy));
    }
    if text.len() > MAX_SOCKET_LEN {
        let reason = format!("the path is {} bytes long, a socket's can have {MAX_SOCKET_LEN}", text.len());
        return Err(ValueError::new(reason, "choose a shorter one"));
    }
    Ok(SocketPath(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_file_names() {
        for good in ["a", "van", "hq.2", "A_b-c", &"x".repeat(32)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "ü", "a\n", &"x".repeat(33)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn interface_names_are_what_the_kernel_takes() {
        for good in ["wlan0", "enp0s31f6.4094", "abcdefghijklmno"] {
            assert_eq!(good.parse::<InterfaceName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "eth0:1", "psmc%d", "abcdefghijklmnop"] {
            assert!(bad.parse::<InterfaceName>().is_err(), "{bad:?}");
        }
    }
}
