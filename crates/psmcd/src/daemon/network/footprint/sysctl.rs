//! Settings of the kernel.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::FootprintError;
use super::record::{Saved, Setting};
use crate::config::{Exclusion, Site};

/// A setting, and what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its file, below `/proc/sys`.
    file: String,
    value: &'static str,
    /// Only where it has this value now.
    instead_of: Option<&'static str>,
}

fn file_of(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name)
}

/// Its value; `None` where the kernel has no such setting.
fn read(name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(file_of(name)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a site with these uplinks needs, in this order.
pub(super) fn wanted(site: &Site, uplinks: &[&str]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut want = |file: String, value, instead_of| wanted.push(Wanted { file, value, instead_of });
    if site.internet.is_offered {
        want("net/ipv4/ip_forward".to_owned(), "1", None);
        if site.addresses.iter().any(|address| address.addr().is_ipv6()) {
            // A machine that forwards is no host, and learns no routes from routers unless told that it shall (RFC 4861, section
            // 6.3.4; 2 in the kernel's ip-sysctl).
            for uplink in uplinks {
                want(format!("net/ipv6/conf/{uplink}/accept_ra"), "2", Some("1"));
            }
            want("net/ipv6/conf/all/forwarding".to_owned(), "1", None);
        }
    }
    let by_mark = |excluded: &Exclusion| matches!(excluded, Exclusion::User(_) | Exclusion::Cgroup(_));
    if site.internet.exclude.iter().any(by_mark) {
        // A strict rp_filter asks for the way of answers by their mark.
        want("net/ipv4/conf/all/src_valid_mark".to_owned(), "1", None);
    }
    wanted
}

/// Has these settings as they are wanted, and those that are not wanted any more as they were.
pub(super) fn match_settings(saved: &mut Saved, wanted: &[Wanted]) -> Result<(), FootprintError> {
    let mut failed = Ok(());
    let is_wanted = |setting: &Setting| wanted.iter().any(|wanted| wanted.file == setting.file);
    let over: Vec<_> = saved.record.settings.iter().filter(|setting| !is_wanted(setting)).cloned().collect();
    for setting in over.iter().rev() {
        failed = failed.and(undo(setting));
    }
    if !over.is_empty() {
        saved.record.settings.retain(|setting| is_wanted(setting));
        saved.save();
    }
    for wanted in wanted {
        failed = failed.and(set(saved, wanted));
    }
    failed
}

fn set(saved: &mut Saved, wanted: &Wanted) -> Result<(), FootprintError> {
    let failed = |source| FootprintError::Sysctl { name: dotted(&wanted.file), value: wanted.value, source };
    let Some(present) = read(&wanted.file).map_err(failed)? else { return Ok(()) };
    let applies = wanted.instead_of.is_none_or(|value| value == present);
    if present == wanted.value || !applies {
        return Ok(());
    }
    if !saved.record.settings.iter().any(|setting| setting.file == wanted.file) {
        let setting = Setting { file: wanted.file.clone(), before: present, set: wanted.value.to_owned() };
        saved.record.settings.push(setting);
        saved.save();
    }
    fs::write(file_of(&wanted.file), wanted.value).map_err(failed)
}

/// Has a setting as it was before, unless somebody else has changed it since, or it is gone with its interface.
pub(super) fn undo(setting: &Setting) -> Result<(), FootprintError> {
    let failed =
        |source| FootprintError::Sysctl { name: dotted(&setting.file), value: "what it was", source };
    match read(&setting.file).map_err(failed)? {
        Some(present) if present == setting.set => {
            fs::write(file_of(&setting.file), &setting.before).map_err(failed)
        }
        Some(_) | None => Ok(()),
    }
}

/// As `sysctl` writes it.
fn dotted(file: &str) -> String {
    // An interface's name may have dots, which `sysctl` takes for slashes then.
    file.split('/').map(|part| part.replace('.', "/")).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_sysctl_reads_them() {
        assert_eq!(dotted("net/ipv4/ip_forward"), "net.ipv4.ip_forward");
        assert_eq!(dotted("net/ipv6/conf/eth0.7/accept_ra"), "net.ipv6.conf.eth0/7.accept_ra");
    }
}
