//! The name servers, all of them BIND as it comes; what resolvers are asked, and what comes back when.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, UdpSocket as StdUdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use psmc_testbed::netns::Namespace;
use tokio::net::UdpSocket;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::{RESOLVERS, WWW};
use crate::DemoError;
use crate::launch::{POLL, UP_WITHIN, end, log_tail, write_private};

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
        let deadline = Instant::now() + UP_WITHIN;
        let mut tries = FIRST_TRY;
        while !Questions::new(name, host)?.is_answered(&name_asked(name, tries)).await? {
            self.check()?;
            if Instant::now() > deadline {
                let logs = self.0.iter().map(|server| log_tail(&server.log, server.name)).collect::<Vec<_>>();
                let state = format!("the resolver {name} has no answer from the root");
                return Err(DemoError::NotUp { waited: UP_WITHIN, state, logs: logs.join("\n") });
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
        let child = spawn_bind(host, &file, &log).map_err(|source| DemoError::Bind { of: name, source })?;
        Ok(Self { name, child, log })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Those who ask a resolver.
pub(super) struct Questions {
    resolver: &'static str,
    socket: UdpSocket,
    asked: Vec<Asked>,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// When it was asked, since the first one.
    pub(super) at: Duration,
    /// How long the answer took; `None` if there is none, or none that helps.
    pub(super) took: Option<Duration>,
}

impl Questions {
    /// For the resolver of a host, from that host.
    pub(super) fn new(resolver: &'static str, host: &Namespace) -> Result<Self, DemoError> {
        let open = || {
            let socket = StdUdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect((LISTEN, DNS_PORT))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = host.run(open).and_then(UdpSocket::from_std).map_err(question_failed(resolver))?;
        Ok(Self { resolver, socket, asked: Vec::new() })
    }

    /// Whether one question is answered soon.
    pub(super) async fn is_answered(&mut self, name: &str) -> Result<bool, DemoError> {
        let asked = async {
            self.socket.send(&question(0, name)?).await?;
            let mut room = [0; MOST];
            let length = self.socket.recv(&mut room).await?;
            Ok::<_, io::Error>(answered(&room[..length]).is_some())
        };
        match timeout(WAITS / 8, asked).await {
            // While nobody listens the system says so.
            Ok(Err(error)) if error.kind() != io::ErrorKind::ConnectionRefused => {
                Err(question_failed(self.resolver)(error))
            }
            Ok(result) => Ok(result.unwrap_or(false)),
            Err(_) => Ok(false),
        }
    }

    /// Asks at a steady pace from `started` until it is over, each time for another name.
    pub(super) async fn run(
        &mut self,
        started: Instant,
        is_over: impl Fn() -> bool,
    ) -> Result<(), DemoError> {
        let mut ticks = pace();
        let mut room = [0; MOST];
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if is_over() {
                        return Ok(());
                    }
                    self.ask(started.elapsed()).await.map_err(question_failed(self.resolver))?;
                }
                received = self.socket.recv(&mut room) => {
                    let length = received.map_err(question_failed(self.resolver))?;
                    self.note(&room[..length], started.elapsed());
                }
            }
        }
    }

    /// All that was asked, and what came of it.
    pub(super) fn into_asked(self) -> Vec<Asked> {
        self.asked
    }

    async fn ask(&mut self, at: Duration) -> io::Result<()> {
        let number = self.asked.len();
        let id = u16::try_from(number).unwrap_or(u16::MAX);
        self.asked.push(Asked { at, took: None });
        self.socket.send(&question(id, &name_asked(self.resolver, number))?).await?;
        Ok(())
    }

    fn note(&mut self, answer: &[u8], now: Duration) {
        let Some(asked) = answered(answer).and_then(|id| self.asked.get_mut(usize::from(id))) else { return };
        asked.took = Some(now - asked.at).filter(|took| *took <= WAITS);
    }
}

fn spawn_bind(host: &Namespace, file: &Path, log: &Path) -> io::Result<Child> {
    let mut spawned = Err(io::Error::from(io::ErrorKind::NotFound));
    for program in PROGRAMS {
        let mut command = Command::new(program);
        // In the foreground, one thread, and what it has to say goes to standard error.
        command.args(["-g", "-n", "1", "-c"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        spawned = host.spawn(&mut command);
        if !matches!(&spawned, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    spawned
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

/// A name that nobody else asks for.
fn name_asked(resolver: &str, number: usize) -> String {
    format!("{resolver}-{number}.test.")
}

fn question(id: u16, name: &str) -> io::Result<Vec<u8>> {
    let mut question = Message::query();
    question.metadata.id = id;
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(Name::from_ascii(name).map_err(io::Error::other)?, RecordType::A));
    question.to_vec().map_err(io::Error::other)
}

/// The number of the question that a message answers; `None` if it does not help.
fn answered(message: &[u8]) -> Option<u16> {
    let answer = Message::from_vec(message).ok()?;
    let helps = answer.metadata.response_code == ResponseCode::NoError && !answer.answers.is_empty();
    helps.then_some(answer.metadata.id)
}

/// On a busy machine questions that are late are made up for at once: as many are asked as the report says.
fn pace() -> Interval {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

fn question_failed(resolver: &str) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Dns { of: format!("the resolver {resolver}"), source }
}

/// What BIND's program is called, where it is looked for: where ordinary users have no /usr/sbin, too.
const PROGRAMS: [&str; 2] = ["named", "/usr/sbin/named"];

/// Numbers of names before the demonstration are higher than those in it.
const FIRST_TRY: usize = 1_000_000;

/// What resolvers listen at.
const LISTEN: &str = "127.0.0.1";

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// How often a resolver is asked.
pub(super) const EVERY: Duration = Duration::from_millis(20);

/// Who asks waits for so long: what comes later is no answer.
pub(super) const WAITS: Duration = Duration::from_secs(2);

/// The longest message without EDNS.
const MOST: usize = 512;
