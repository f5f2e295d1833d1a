//! A front and servers for it, each test's on an address of loopback of its own.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that must come: much more than it does on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An address that no other test has: loopback is all of 127.0.0.0/8, and processes and tests have numbers.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    (Ipv4Addr::new(127, high | 64, low, number), 8080).into()
}

/// Waits for what must come.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A front that runs.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    pub(crate) child: Child,
    directory: TempDir,
    settings: String,
}

impl Front {
    /// In front of these servers, with more in `[[upstream]]`, and more sections.
    pub(crate) fn start(servers: &[SocketAddr], upstream: &str, sections: &str) -> Self {
        Self::start_with(servers, "", upstream, sections)
    }

    /// The same, with more in `[[listener]]`.
    pub(crate) fn start_with(servers: &[SocketAddr], listener: &str, upstream: &str, sections: &str) -> Self {
        Self::start_as("", servers, listener, upstream, sections)
    }

    /// The same, with more in `[front]`.
    pub(crate) fn start_as(
        front: &str,
        servers: &[SocketAddr],
        listener: &str,
        upstream: &str,
        sections: &str,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        let settings = format!("{front}\n[[listener]]\naddress = \"{address}\"\n{listener}\n");
        let file = directory.path().join("front.toml");
        fs::write(&file, text(&directory, &settings, servers, upstream, sections)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-front"));
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = command.arg("--config").arg(&file).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let front = Self { address, child, directory, settings };
        wait_for("the front", || front.try_status());
        front
    }

    /// Writes the file anew, and has it read.
    pub(crate) fn reload(&self, servers: &[SocketAddr], upstream: &str, sections: &str) {
        let text = text(&self.directory, &self.settings, servers, upstream, sections);
        fs::write(self.directory.path().join("front.toml"), text).unwrap();
        self.signal("HUP");
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn try_status(&self) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-front"));
        command.args(["status", "--json", "--socket"]).arg(self.directory.path().join("front.sock"));
        let output = command.output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// What it tells about itself.
    pub(crate) fn status(&self) -> Value {
        self.try_status().unwrap()
    }

    /// What `psmc-front plan` says of its file, or complains.
    pub(crate) fn plan(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-front"));
        let output =
            command.arg("plan").arg(self.directory.path().join("front.toml")).args(args).output().unwrap();
        let said = if output.status.success() { Ok(output.stdout) } else { Err(output.stderr) };
        let text = |bytes| String::from_utf8(bytes).unwrap();
        said.map(text).map_err(text)
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Sends these bytes, and reads until the front closes the connection.
    pub(crate) fn ask(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        rest(&mut stream).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// What a short `GET` says, status line and all.
    pub(crate) fn get(&self, path: &str, fields: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n"))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn text(
    directory: &TempDir,
    listener: &str,
    servers: &[SocketAddr],
    upstream: &str,
    sections: &str,
) -> String {
    let socket = directory.path().join("front.sock");
    let servers: Vec<_> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "[front]\nname = \"test\"\ncontrol_socket = \"{}\"\n{listener}[[upstream]]\nservers = [{}]\n{upstream}\n{sections}",
        socket.display(),
        servers.join(", ")
    )
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes until the connection is closed.
pub(crate) fn rest(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads up to and with this text.
pub(crate) fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The head of a message, without the empty line.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    read_to(stream, "\r\n\r\n").trim_end().to_owned()
}

/// A server that does with each connection what it is told.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `talk` has one connection after the other, each in a thread of its own, and its number.
    pub(crate) fn start(talk: impl Fn(&mut TcpStream, usize) + Send + Sync + 'static) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).unwrap();
        let (connections, talk) = (Arc::new(AtomicUsize::new(0)), Arc::new(talk));
        let count = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (number, talk) = (count.fetch_add(1, Ordering::SeqCst), talk.clone());
                thread::spawn(move || talk(&mut stream, number));
            }
        });
        Self { address, connections, heads: Arc::default() }
    }

    /// Answers each request with this, and keeps its head. Bodies of requests have a `Content-Length`.
    pub(crate) fn answering(answer: &'static str) -> Self {
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = heads.clone();
        let mut server = Self::start(move |stream, _| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while let Some(head) = next_head(&mut reader) {
                let mut body = vec![0; length(&head)];
                reader.read_exact(&mut body).unwrap();
                kept.lock().unwrap().push(head);
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        server.heads = heads;
        server
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The heads of requests that have come.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn next_head(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    loop {
        match reader.read_line(&mut head) {
            Ok(0) | Err(_) => return None,
            Ok(_) if head.ends_with("\r\n\r\n") => return Some(head.to_lowercase()),
            Ok(_) => {}
        }
    }
}

fn length(head: &str) -> usize {
    let field = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    field.map_or(0, |length| length.parse().unwrap())
}

/// What curl prints.
pub(crate) fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20"]).args(args);
    let output = command.output().expect("curl is installed");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file of the tests.
pub(crate) fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/front/data").join(name);
    path.to_str().unwrap().to_owned()
}

/// An answer with a short body.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
