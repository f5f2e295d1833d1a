//! What stays out of the tunnel.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use psmc_toml::{Kind, ValueError};

use super::AllowedNet;

/// What stays out of the tunnel, though a peer's networks would lead it there, and what a kill switch lets pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Packets to, and answers from, a network; its host bits are zero, and it is not everything.
    Network(IpNet),
    /// Packets to the networks that this machine is in.
    Lan,
    /// What processes of a user send.
    User(u32),
    /// What processes of a control group (version 2), and of those in it, send: its path, without a slash at either end.
    Cgroup(String),
}

/// An [`Exclusion`].
pub(in crate::config) const EXCLUSION: Kind<Exclusion> = Kind::text("\"192.168.1.0/24\"", str::parse);

/// A name server.
pub(in crate::config) const NAME_SERVER: Kind<IpAddr> = Kind::text("\"10.77.0.1\"", |text| {
    let remedy = "write the address of a name server, such as \"10.77.0.1\"";
    let address: IpAddr =
        text.parse().map_err(|_| ValueError::new(format!("{text:?} is not an IP address"), remedy))?;
    if address.is_unspecified() || address.is_multicast() {
        return Err(ValueError::new(format!("{address} is not the address of a name server"), remedy));
    }
    Ok(address)
});

/// What can stand for an exclusion.
const FORMS: &str = "write a network as \"192.168.1.0/24\", \"lan\", a user as \"uid:1000\", or a control group as \"cgroup:system.slice/backup.service\"";

/// Longest path of a control group in bytes, and how deep it may lie: as nftables has it.
const MAX_CGROUP: usize = 255;

impl FromStr for Exclusion {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "lan" {
            return Ok(Self::Lan);
        }
        if let Some(user) = text.strip_prefix("uid:") {
            let remedy = "write its number, which `id -u NAME` prints, as in \"uid:1000\"";
            let user = user.parse().map_err(|_| ValueError::new(format!("{user:?} is no user"), remedy))?;
            return Ok(Self::User(user));
        }
        if let Some(path) = text.strip_prefix("cgroup:") {
            return cgroup(path);
        }
        if !text.contains(['.', ':']) {
            return Err(ValueError::new(format!("{text:?} cannot be excluded"), FORMS));
        }
        let net = text.parse::<AllowedNet>()?.net();
        if net.prefix_len() == 0 {
            let remedy = "remove it, and 0.0.0.0/0 or ::/0 from `allowed_ips`, if nothing should go through the tunnel";
            return Err(ValueError::new(format!("{net} would exclude everything"), remedy));
        }
        Ok(Self::Network(net))
    }
}

fn cgroup(path: &str) -> Result<Exclusion, ValueError> {
    let path = path.trim_matches('/');
    let is_plain = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '*');
    if path.is_empty() || path.len() > MAX_CGROUP || !path.chars().all(is_plain) {
        let remedy = "write its path below /sys/fs/cgroup, as in \"cgroup:system.slice/backup.service\"";
        return Err(ValueError::new(format!("{path:?} is no control group"), remedy));
    }
    Ok(Exclusion::Cgroup(path.to_owned()))
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(net) => net.fmt(f),
            Self::Lan => f.write_str("lan"),
            Self::User(user) => write!(f, "uid:{user}"),
            Self::Cgroup(path) => write!(f, "cgroup:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_are_read_as_they_are_written() {
        for text in
            ["192.168.1.0/24", "2001:db8::/32", "192.0.2.7/32", "lan", "uid:1000", "cgroup:a.slice/b.service"]
        {
            assert_eq!(text.parse::<Exclusion>().unwrap().to_string(), text);
        }
        assert_eq!("cgroup:/a/".parse::<Exclusion>().unwrap(), Exclusion::Cgroup("a".to_owned()));
        for wrong in [
            "",
            "printer",
            "0.0.0.0/0",
            "::/0",
            "192.168.1.7/24",
            "uid:root",
            "cgroup:",
            "cgroup:a\"b",
            "cgroup:*",
        ] {
            let error = wrong.parse::<Exclusion>().unwrap_err();
            assert!(!error.remedy().is_empty(), "{wrong}");
        }
    }
}
