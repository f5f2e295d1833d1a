//! Names of sites, peers, paths and relays, and of network interfaces.

use std::fmt;
use std::str::FromStr;

use super::{Form, Setting, ValueError};

/// Longest name: it must fit, with a directory and a suffix, into the 107 bytes of a socket's path.
const MAX_NAME_LEN: usize = 32;

/// Longest name of an interface: `IFNAMSIZ` of the kernel, less the zero at the end.
pub const MAX_INTERFACE_LEN: usize = 15;

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

impl Setting for Name {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"van\"";
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

impl Setting for InterfaceName {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"wlan0\"";
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
