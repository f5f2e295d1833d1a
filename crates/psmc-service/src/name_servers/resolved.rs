//! systemd-resolved: the resolver becomes the server of a link, through `resolvectl`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use psmc_net::netlink::interface_index;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::NameServersError;

/// How often it is looked whether the link has come or gone: names of a link that has just come are asked for later than that.
const LOOK: Duration = Duration::from_secs(1);

/// The servers of all links, kept by systemd-resolved for programs that read such files (systemd-resolved.service(8)).
pub(super) const LIST: &str = "/run/systemd/resolve/resolv.conf";

/// What is told to systemd-resolved, whenever the link is there: of a link that goes it forgets everything.
#[derive(Debug, Clone)]
pub(super) struct Told {
    program: PathBuf,
    link: String,
    domains: Vec<String>,
    servers: Vec<String>,
}

/// A link of systemd-resolved; reverted on drop. If the program crashes, the link has its servers until the program is
/// started again or the link goes away.
#[derive(Debug)]
pub(super) struct Resolved {
    told: Told,
    /// The index of the link that was told, which another one of the same name has not.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The link that has the servers.
    index: Option<u32>,
    /// What was complained about already.
    complained: Option<u32>,
    has_ended: bool,
}

impl Resolved {
    /// Tells at once if the link is there; [`watch`](Self::watch) does whenever it comes. `index` yields that of a link.
    pub(super) fn begin(
        program: &Path,
        link: &str,
        domains: &[String],
        listen: &[SocketAddr],
        index: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, NameServersError> {
        let told = Told {
            program: program.to_owned(),
            link: link.to_owned(),
            domains: domains.to_vec(),
            servers: listen.iter().map(server).collect(),
        };
        let resolved = Self { told, state: Arc::default() };
        match index(link) {
            Some(index) => {
                resolved.told.tell_servers()?;
                // From here on it is undone whatever fails.
                lock(&resolved.state).index = Some(index);
                resolved.told.tell_domains()?;
            }
            None => {
                tracing::info!(link, "link not present; systemd-resolved will be configured when it appears")
            }
        }
        Ok(resolved)
    }

    /// Whether it still is so: whether the link is the one that was told, and systemd-resolved asks all servers that `listed`, the
    /// text of its list, can name. `None` if there is no list: then nobody knows better.
    pub(super) fn holds(&self, index: impl Fn(&str) -> Option<u32>, listed: Option<&str>) -> bool {
        let told = lock(&self.state).index;
        if told.is_none() || index(&self.told.link) != told {
            return false;
        }
        let Some(listed) = listed else { return true };
        let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("nameserver ")).collect();
        // A server with a port is not in the list, which has no ports.
        let mut named = self.told.servers.iter().filter(|server| server.parse::<IpAddr>().is_ok());
        named.all(|server| names.contains(&server.as_str()))
    }

    /// Tells each link of the name that comes, until the program ends.
    pub(super) fn watch(&self) -> impl Future<Output = ()> + use<> {
        let (told, state) = (self.told.clone(), self.state.clone());
        async move {
            loop {
                sleep(LOOK).await;
                let (told, state) = (told.clone(), state.clone());
                // It waits for another program.
                let _ = spawn_blocking(move || look(&told, &state, interface_index)).await;
            }
        }
    }
}

/// Tells the link if it is another one than the one that was told.
fn look(told: &Told, state: &Mutex<State>, index: impl Fn(&str) -> Option<u32>) {
    let mut state = lock(state);
    let found = index(&told.link);
    if state.has_ended || found == state.index {
        return;
    }
    if found.is_none() {
        state.index = None;
        return;
    }
    match told.tell() {
        Ok(()) => {
            state.index = found;
            tracing::info!(link = told.link, "systemd-resolved now queries this resolver for the link");
        }
        Err(error) if state.complained != found => {
            state.complained = found;
            tracing::warn!(%error, link = told.link, "cannot configure systemd-resolved; retrying");
        }
        Err(_) => {}
    }
}

impl Told {
    fn tell(&self) -> Result<(), NameServersError> {
        self.tell_servers()?;
        self.tell_domains()
    }

    fn tell_servers(&self) -> Result<(), NameServersError> {
        run(&self.program, "dns", &self.link, &self.servers)
    }

    fn tell_domains(&self) -> Result<(), NameServersError> {
        run(&self.program, "domain", &self.link, &self.domains)
    }
}

impl Drop for Resolved {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        // Of a link that is gone nothing is left.
        if state.index.is_none() {
            return;
        }
        if let Err(error) = run(&self.told.program, "revert", &self.told.link, &[]) {
            let error = error.to_string();
            tracing::warn!(
                error,
                "systemd-resolved has kept this resolver; run `resolvectl revert` for the link"
            );
        }
    }
}

/// Its parts agree after each statement.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(program: &Path, verb: &str, link: &str, rest: &[String]) -> Result<(), NameServersError> {
    let failed = |reason: String| NameServersError::Resolvectl {
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
    use std::fs;

    use psmc_testbed::programs::write_script;

    use super::*;

    /// A `resolvectl` that writes down how it is called, and fails for a link of the name `bad`.
    fn resolvectl(directory: &Path) -> PathBuf {
        let program = directory.join("resolvectl");
        let log = directory.join("log");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\nif [ \"$1 $2\" = \"domain bad\" ]; then echo no such link >&2; exit 1; fi\n",
            log.display()
        );
        write_script(&program, &script);
        program
    }

    #[test]
    fn a_link_has_the_resolver_and_loses_it_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let program = resolvectl(directory.path());
        let listen = ["127.0.0.54:53".parse().unwrap(), "[::1]:5353".parse().unwrap()];
        let log = || fs::read_to_string(directory.path().join("log")).unwrap();
        let domains = ["~.".to_owned()];
        let resolved = Resolved::begin(&program, "psmc0", &domains, &listen, |_| Some(7)).unwrap();
        assert_eq!(log(), "dns psmc0 127.0.0.54 [::1]:5353\ndomain psmc0 ~.\n");
        drop(resolved);
        assert!(log().ends_with("\nrevert psmc0\n"));

        let error = Resolved::begin(&program, "bad", &domains, &listen, |_| Some(7)).unwrap_err();
        assert!(error.to_string().contains("resolvectl domain bad ~.` failed: no such link"), "{error}");
        assert!(log().ends_with("\nrevert bad\n"), "half of it is undone");
    }

    #[test]
    fn it_holds_as_long_as_the_link_is_the_same_and_its_servers_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let program = resolvectl(directory.path());
        let listen =
            ["10.77.0.1:53", "[fd77::1]:53", "127.0.0.54:5353"].map(|address| address.parse().unwrap());
        let resolved = Resolved::begin(&program, "psmc0", &["~.".to_owned()], &listen, |_| Some(7)).unwrap();
        let both = "# comment\nnameserver 10.77.0.1\nnameserver fd77::1\nnameserver 192.0.2.1\nsearch .\n";
        for (index, listed, holds) in [
            (Some(7), Some(both), true),
            (Some(7), None, true),
            (Some(8), Some(both), false),
            (None, Some(both), false),
            (Some(7), Some("nameserver 10.77.0.11\nnameserver fd77::1\n"), false),
            (Some(7), Some("nameserver 10.77.0.1\n"), false),
            (Some(7), Some(""), false),
        ] {
            assert_eq!(resolved.holds(|_| index, listed), holds, "{index:?} {listed:?}");
        }
    }

    #[test]
    fn a_link_that_goes_and_comes_is_told_again() {
        let directory = tempfile::tempdir().unwrap();
        let program = resolvectl(directory.path());
        let listen = ["127.0.0.54:53".parse().unwrap()];
        let told = || {
            let log = fs::read_to_string(directory.path().join("log")).unwrap_or_default();
            log.lines().filter(|line| line.starts_with("domain")).count()
        };
        let reverted = || fs::read_to_string(directory.path().join("log")).unwrap().contains("revert");
        let resolved = Resolved::begin(&program, "psmc0", &["~.".to_owned()], &listen, |_| None).unwrap();
        let look_for = |index| look(&resolved.told, &resolved.state, move |_| index);
        // What the link's index is, and how often it was told by then.
        for (index, count) in
            [(None, 0), (Some(7), 1), (Some(7), 1), (None, 1), (Some(8), 2), (Some(9), 3), (None, 3)]
        {
            look_for(index);
            assert_eq!(told(), count, "{index:?}");
        }
        drop(resolved);
        assert!(!reverted(), "there is no link to undo anything for");
        let resolved = Resolved::begin(&program, "psmc0", &["~.".to_owned()], &listen, |_| Some(7)).unwrap();
        let (state, late) = (resolved.state.clone(), resolved.told.clone());
        drop(resolved);
        assert!(reverted());
        look(&late, &state, |_| Some(8));
        assert_eq!(told(), 4, "after the end nothing is told");
    }
}
