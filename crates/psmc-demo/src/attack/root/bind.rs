//! The name servers, all of them BIND as it comes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use psmc_testbed::netns::Namespace;
use tokio::time::sleep;

use super::questions::{Questions, name as question_name};
use super::{RESOLVERS, WWW};
use crate::DemoError;
use crate::sites::{PATIENCE, POLL, end, log_tail, write_private};

/// What BIND's program is called, where it is looked for: where ordinary users have no /usr/sbin, too.
const PROGRAMS: [&str; 2] = ["named", "/usr/sbin/named"];

/// Numbers of names before the demonstration are higher than those in it.
const FIRST_TRY: usize = 1_000_000;

/// What resolvers listen at.
pub(super) const LISTEN: &str = "127.0.0.1";

/// The root name server and the resolvers, running.
pub(super) struct Servers(Vec<Server>);

/// One name server; it is killed on drop.
struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Servers {
    /// Starts all, and waits until each resolver answers with what it has from the root.
    pub(super) async fn start(
        root: &Namespace,
        resolvers: [&Namespace; RESOLVERS.len()],
        directory: &Path,
    ) -> Result<Self, DemoError> {
        write_private(&directory.join("root.zone"), &zone())?;
        write_private(&directory.join("root.hints"), &hints())?;
        let mut servers = vec![Server::start("root", root, directory, &authority(directory))?];
        for (name, host) in RESOLVERS.into_iter().zip(resolvers) {
            servers.push(Server::start(name, host, directory, &resolver(directory))?);
        }
        let mut servers = Self(servers);
        for (name, host) in RESOLVERS.into_iter().zip(resolvers) {
            servers.wait_for(name, host).await?;
        }
        Ok(servers)
    }

    /// Fails if one has ended.
    pub(super) fn check(&mut self) -> Result<(), DemoError> {
        for Server { name, child, log } in &mut self.0 {
            let how = match child.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let site = format!("BIND of {name}");
            return Err(DemoError::Ended { log: log_tail(log, name), site, how });
        }
        Ok(())
    }

    async fn wait_for(&mut self, name: &'static str, host: &Namespace) -> Result<(), DemoError> {
        let deadline = Instant::now() + PATIENCE;
        let mut tries = FIRST_TRY;
        while !Questions::new(name, host)?.is_answered(&question_name(name, tries)).await? {
            self.check()?;
            if Instant::now() > deadline {
                let logs = self.0.iter().map(|server| log_tail(&server.log, server.name)).collect::<Vec<_>>();
                let state = format!("the resolver {name} has no answer from the root");
                return Err(DemoError::NotUp { waited: PATIENCE, state, logs: logs.join("\n") });
            }
            // A name that could not be resolved is not looked for again at once.
            tries += 1;
            sleep(POLL).await;
        }
        Ok(())
    }
}

impl Server {
    fn start(
        name: &'static str,
        host: &Namespace,
        directory: &Path,
        options: &str,
    ) -> Result<Self, DemoError> {
        let path = directory.join(format!("{name}-bind"));
        let (file, log) = (path.with_extension("conf"), path.with_extension("log"));
        write_private(&file, options)?;
        let child = spawn(host, &file, &log).map_err(|source| DemoError::Bind { of: name, source })?;
        Ok(Self { name, child, log })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn spawn(host: &Namespace, file: &Path, log: &Path) -> io::Result<Child> {
    let mut outcome = Err(io::Error::from(io::ErrorKind::NotFound));
    for program in PROGRAMS {
        let mut command = Command::new(program);
        // In the foreground, one thread, and what it has to say goes to standard error.
        command.args(["-g", "-n", "1", "-c"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        outcome = host.spawn(&mut command);
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    outcome
}

/// What every configuration begins with: it keeps to its directory, and leaves the machine's own BIND alone.
fn options(directory: &Path, others: &str) -> String {
    format!(
        "controls {{ }};\noptions {{ directory \"{}\"; pid-file none; lock-file none; session-keyfile none; \
         listen-on-v6 {{ none; }}; dnssec-validation no; max-cache-size 16m; {others} }};\n",
        directory.display()
    )
}

fn authority(directory: &Path) -> String {
    options(directory, &format!("listen-on {{ {WWW}; }}; recursion no;"))
        + "zone \".\" { type primary; file \"root.zone\"; };\n"
}

fn resolver(directory: &Path) -> String {
    options(directory, &format!("listen-on {{ {LISTEN}; }}; recursion yes; empty-zones-enable no;"))
        + "zone \".\" { type hint; file \"root.hints\"; };\n"
}

/// A root zone that knows all names below test., so that nobody else has to be asked.
fn zone() -> String {
    format!(
        "$ORIGIN .\n$TTL 86400\n@ IN SOA a.root. hostmaster.root. 1 1800 900 604800 86400\n@ IN NS a.root.\n\
         a.root. IN A {WWW}\n*.test. IN A 192.0.2.1\n"
    )
}

fn hints() -> String {
    format!(". 3600000 IN NS a.root.\na.root. 3600000 IN A {WWW}\n")
}
