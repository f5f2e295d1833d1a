//! Names, titles, arguments and paths.

use std::path::PathBuf;

use psmc_toml::{Kind, MAX_INTERFACE_LEN, Name, ValueError};

/// What the kernel has in every namespace, or in every directory of settings of interfaces.
const TAKEN: [&str; 3] = ["lo", "all", "default"];

/// So long that a title still fits into the heading of a table.
const MAX_TITLE_LEN: usize = 64;

/// Longest name of a congestion control: `TCP_CA_NAME_MAX` of the kernel, less the zero at the end.
const MAX_CONTROLLER_LEN: usize = 15;

/// The name of a link or a tunnel, which is that of its interfaces.
pub(in crate::scenario) const LINK_NAME: Kind<Name> = Kind::text("\"dsl\"", |text| {
    let name: Name = text.parse()?;
    if text.len() > MAX_INTERFACE_LEN {
        let reason = format!(
            "{text:?} is {} characters long, and the name of an interface can have {MAX_INTERFACE_LEN}",
            text.len()
        );
        return Err(ValueError::new(reason, "choose a shorter one: interfaces are called like their link"));
    }
    if TAKEN.contains(&text) {
        let reason = format!("no interface can be called {text:?}: Linux uses that name itself");
        return Err(ValueError::new(reason, "choose another one, such as \"dsl\""));
    }
    Ok(name)
});

/// The name of something that another section describes. Whether there is such a thing is seen later.
pub(in crate::scenario) const REFERENCE: Kind<String> = Kind::text("\"…\"", |text| match text {
    "" => Err(ValueError::new("the name is empty", "put in the name of what is meant")),
    _ => Ok(text.to_owned()),
});

/// What a scenario is called: a line for people.
pub(in crate::scenario) const TITLE: Kind<String> = Kind::text("\"two-uplinks\"", |text| {
    let fits = (1..=MAX_TITLE_LEN).contains(&text.chars().count()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = format!("choose a line of 1 to {MAX_TITLE_LEN} characters");
        ValueError::new("this is no name for a scenario", remedy)
    })
});

/// A word of a command.
pub(in crate::scenario) const ARGUMENT: Kind<String> = Kind::text("\"iperf3\", \"-s\"", |text| {
    if text.contains('\0') {
        return Err(ValueError::new("no argument has a zero byte in it", "remove it"));
    }
    Ok(text.to_owned())
});

/// The path of a file.
pub(in crate::scenario) const FILE: Kind<PathBuf> = Kind::text("\"lte.trace\"", |text| {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        return Err(ValueError::new(format!("{text:?} is not the path of a file"), "name a file"));
    }
    Ok(text.into())
});

/// The congestion control of TCP, as the kernel calls it. Whether it has it turns out when the scenario runs.
pub(in crate::scenario) const CONTROLLER: Kind<String> = Kind::text("\"cubic\"", |text| {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    let is_name = (1..=MAX_CONTROLLER_LEN).contains(&text.len()) && text.bytes().all(allowed);
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = "write \"cubic\", \"reno\", \"bbr\" or what else /proc/sys/net/ipv4/tcp_available_congestion_control lists";
        ValueError::new(format!("{text:?} is no congestion control"), remedy)
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_called_like_interfaces() {
        assert!(LINK_NAME.read("dsl").is_ok() && LINK_NAME.read("exactly-15-long").is_ok());
        for bad in ["", "lo", "all", "sixteen-letters-", "a/b"] {
            assert!(LINK_NAME.read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!(TITLE.read("").is_err() && TITLE.read("a\nb").is_err());
        assert!(CONTROLLER.read("Cubic").is_err() && CONTROLLER.read("bbr").is_ok());
        assert!(FILE.read("").is_err() && FILE.read("a/").is_err());
    }
}
