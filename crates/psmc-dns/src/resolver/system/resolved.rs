//! systemd-resolved: the resolver becomes the server of a link, through `resolvectl`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::SystemError;

/// A link of systemd-resolved; reverted on drop. If the program crashes, the link has its servers until the program is
/// started again or the link goes away.
#[derive(Debug)]
pub(super) struct Resolved {
    program: PathBuf,
    link: String,
}

impl Resolved {
    pub(super) fn begin(
        program: &Path,
        link: &str,
        domains: &[String],
        listen: &[SocketAddr],
    ) -> Result<Self, SystemError> {
        let servers: Vec<String> = listen.iter().map(server).collect();
        run(program, "dns", link, &servers)?;
        // From here on it is undone, whatever fails.
        let resolved = Self { program: program.to_owned(), link: link.to_owned() };
        run(program, "domain", link, domains)?;
        Ok(resolved)
    }
}

impl Drop for Resolved {
    fn drop(&mut self) {
        if let Err(error) = run(&self.program, "revert", &self.link, &[]) {
            let error = error.to_string();
            tracing::warn!(
                error,
                "systemd-resolved has kept this resolver; run `resolvectl revert` for the link"
            );
        }
    }
}

fn run(program: &Path, verb: &str, link: &str, rest: &[String]) -> Result<(), SystemError> {
    let failed = |reason: String| SystemError::Resolvectl {
        command: [&format!("{} {verb} {link}", program.display())]
            .into_iter()
            .chain(rest)
            .cloned()
            .collect::<Vec<_>>()
            .join(" "),
        reason,
    };
    let output = Command::new(program).args([verb, link]).args(rest).output();
    let output = output.map_err(|error| failed(format!("{error}; is systemd-resolved installed?")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!("{} ({})", String::from_utf8_lossy(&output.stderr).trim(), output.status)))
}

/// As resolvectl writes a server.
fn server(address: &SocketAddr) -> String {
    if address.port() == 53 { address.ip().to_string() } else { address.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A `resolvectl` that writes down how it is called, and fails for a link of the name `bad`.
    fn resolvectl(directory: &Path) -> PathBuf {
        let program = directory.join("resolvectl");
        let log = directory.join("log");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\nif [ \"$1 $2\" = \"domain bad\" ]; then echo no such link >&2; exit 1; fi\n",
            log.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_link_has_the_resolver_and_loses_it_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let program = resolvectl(directory.path());
        let listen = ["127.0.0.54:53".parse().unwrap(), "[::1]:5353".parse().unwrap()];
        let log = || fs::read_to_string(directory.path().join("log")).unwrap();
        let resolved = Resolved::begin(&program, "psmc0", &["~.".to_owned()], &listen).unwrap();
        assert_eq!(log(), "dns psmc0 127.0.0.54 [::1]:5353\ndomain psmc0 ~.\n");
        drop(resolved);
        assert!(log().ends_with("\nrevert psmc0\n"));

        let error = Resolved::begin(&program, "bad", &["~.".to_owned()], &listen).unwrap_err();
        assert!(error.to_string().contains("resolvectl domain bad ~.` fails: no such link"), "{error}");
        assert!(log().ends_with("\nrevert bad\n"), "half of it is undone");
    }
}
