//! The name servers, each with one thread that answers, on the first CPU.

use std::error::Error;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use psmc_testbed::netns::Namespace;

use crate::programs::{self, Program, on_path};
use crate::zone::Zone;

/// How long one may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Bind,
    Knot,
}

impl Kind {
    /// Those that this machine has; ours is the first.
    pub(crate) fn found() -> impl Iterator<Item = Self> {
        [Self::Ours, Self::Bind, Self::Knot].into_iter().filter(|kind| on_path(kind.program()).is_ok())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "psmc-dns",
            Self::Bind => "BIND",
            Self::Knot => "Knot",
        }
    }

    /// Its file, or what it is on the PATH.
    fn program(self) -> &'static str {
        match self {
            Self::Ours => env!("CARGO_BIN_EXE_psmc-dns"),
            Self::Bind => "named",
            Self::Knot => "knotd",
        }
    }

    /// Where it is, and its version.
    pub(crate) fn origin(self) -> String {
        if self != Self::Bind {
            return programs::path_and_version(Path::new(self.program()));
        }
        // Its option for that is another one.
        let output = Command::new(self.program()).arg("-v").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.unwrap_or_default().trim().to_owned()
    }

    /// Starts it with a zone, and waits until it answers.
    pub(crate) fn start(
        self,
        namespace: &Namespace,
        directory: &Path,
        zone: &Zone,
    ) -> Result<Program, Box<dyn Error>> {
        fs::write(directory.join("zone"), &zone.text)?;
        fs::write(directory.join("configuration"), self.configuration(directory))?;
        let log = File::create(directory.join("log"))?;
        let mut command = Command::new("taskset");
        command.args(["-c", "0", self.program()]).args(match self {
            Self::Ours => &["serve", "configuration"][..],
            Self::Bind => &["-g", "-n", "1", "-c", "configuration"],
            Self::Knot => &["-c", "configuration"],
        });
        command.current_dir(directory).stdout(log.try_clone()?).stderr(log);
        let server = programs::start(namespace, &mut command)?;
        if namespace.run(answers)? {
            return Ok(server);
        }
        let said = fs::read_to_string(directory.join("log"))?;
        Err(format!("{} does not answer: {said}", self.name()).into())
    }

    fn configuration(self, directory: &Path) -> String {
        let path = directory.display();
        match self {
            // No limit for each network: all questions come from one.
            Self::Ours => format!(
                "[server]\nname = \"bench\"\nlisten = [\"127.0.0.1\"]\ndatabase = \"zones.db\"\n\
                 control_socket = \"{path}/sock\"\nrate_limit = 1000000\n\
                 [[zone]]\nname = \"example.com\"\nfile = \"zone\"\n"
            ),
            Self::Bind => format!(
                "options {{ directory \"{path}\"; pid-file none; lock-file none; session-keyfile none; notify no;\n\
                 listen-on port 53 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;\n\
                 dnssec-validation no; }};\ncontrols {{ }};\n\
                 zone \"example.com\" {{ type primary; file \"zone\"; }};\n"
            ),
            Self::Knot => format!(
                "server:\n  rundir: {path}\n  listen: 127.0.0.1@53\n  udp-workers: 1\n  tcp-workers: 1\n\
                 \x20 background-workers: 1\ndatabase:\n  storage: {path}\nlog:\n- target: stderr\n  any: warning\n\
                 zone:\n- domain: example.com\n  storage: {path}\n  file: zone\n"
            ),
        }
    }
}

/// Whether the server answers for the zone, sooner or later.
fn answers() -> std::io::Result<bool> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect("127.0.0.1:53")?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut question = Message::query();
    let name = Name::from_ascii("example.com.").map_err(std::io::Error::other)?;
    question.add_query(Query::query(name, RecordType::SOA));
    let question = question.to_vec().map_err(std::io::Error::other)?;
    let started = Instant::now();
    let mut answer = [0; 1500];
    while started.elapsed() < PATIENCE {
        // Refused while nobody listens yet.
        match socket.send(&question).and_then(|_| socket.recv(&mut answer)) {
            Ok(length) => {
                let answer = Message::from_vec(&answer[..length]).map_err(std::io::Error::other)?;
                if answer.response_code == ResponseCode::NoError && !answer.answers.is_empty() {
                    return Ok(true);
                }
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(false)
}
