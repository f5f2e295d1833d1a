//! Two clients, each behind a router of its own, and a server behind both routers.
//!
//! ```text
//!  client 1 ── router 1 ──┐
//!                         server, 203.0.113.10
//!  client 2 ── router 2 ──┘
//! ```

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_shed::status::{Status, ask};
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::poll::wait_for;
use tempfile::TempDir;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_psmc-shed");

/// The server's address.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// The port of the class that is limited, and of another one.
pub(crate) const LIMITED: u16 = 9;
pub(crate) const OTHER: u16 = 7;

/// Bytes of an IP packet of a flood.
pub(crate) const PACKET: usize = 1000;

/// For what takes no time to speak of.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The port on which routers listen.
pub(crate) const CONTROL: u16 = 5118;

/// A host, and the agent on it.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) key: PrivateKey,
    name: &'static str,
    directory: Arc<TempDir>,
    agent: Option<Child>,
}

impl Host {
    pub(crate) fn new(name: &'static str, directory: &Arc<TempDir>) -> Self {
        let namespace = Namespace::new().expect("this test needs root");
        Self { namespace, key: PrivateKey::generate(), name, directory: directory.clone(), agent: None }
    }

    /// Starts the agent, whose file has these lines after those that all have.
    pub(crate) fn start(&mut self, sections: &str) {
        let key_file = self.file("key");
        fs::write(&key_file, self.key.to_base64().as_bytes()).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("--config").arg(self.write(sections));
        self.agent = Some(self.namespace.spawn(&mut command).unwrap());
        wait_for("the agent to answer", PATIENCE, || ask(&self.file("sock")).ok());
    }

    /// Has the agent read a file with these lines.
    pub(crate) fn reload(&self, sections: &str) {
        self.write(sections);
        let agent = self.agent.as_ref().expect("it was started");
        let kill = Command::new("kill").args(["-HUP", &agent.id().to_string()]).status().unwrap();
        assert!(kill.success());
    }

    fn write(&self, sections: &str) -> PathBuf {
        let key_file = self.file("key");
        let text = format!(
            "[shed]\nname = \"{}\"\nprivate_key_file = '{}'\ncontrol_socket = '{}'\nstate_file = '{}'\n{sections}",
            self.name,
            key_file.display(),
            self.file("sock").display(),
            self.file("json").display()
        );
        let file = self.file("toml");
        fs::write(&file, text).unwrap();
        file
    }

    /// Ends the agent: as systemd does, or at once.
    pub(crate) fn end(&mut self, signal: &str) {
        let mut agent = self.agent.take().expect("it was started");
        let kill = Command::new("kill").args([signal, &agent.id().to_string()]).status().unwrap();
        assert!(kill.success());
        agent.wait().unwrap();
    }

    /// The agent's process.
    pub(crate) fn pid(&self) -> u32 {
        self.agent.as_ref().expect("it was started").id()
    }

    pub(crate) fn status(&self) -> Status {
        ask(&self.file("sock")).unwrap()
    }

    /// What `psmc-shed explain` says.
    pub(crate) fn explain(&self, rule: &str) -> String {
        let mut explain = Command::new(PROGRAM);
        let output = explain.args(["explain", rule, "--socket"]).arg(self.file("sock")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn ruleset(&self) -> String {
        let output = self.namespace.run(|| Command::new("nft").args(["list", "ruleset"]).output()).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn file(&self, extension: &str) -> PathBuf {
        self.directory.path().join(format!("{}.{extension}", self.name))
    }
}

pub(crate) struct World {
    pub(crate) clients: [Namespace; 2],
    pub(crate) routers: [Host; 2],
    pub(crate) server: Host,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let clients = [(); 2].map(|()| Namespace::new().expect("this test needs root"));
        let routers = ["r1", "r2"].map(|name| Host::new(name, &directory));
        let server = Host::new("hq", &directory);
        server.namespace.add_address("lo", format!("{SERVER}/32").parse().unwrap()).unwrap();
        for (number, (client, router)) in clients.iter().zip(&routers).enumerate() {
            let router = &router.namespace;
            let line = format!("line{}", number + 1);
            link_pair(client, "eth0", router, "eth0").unwrap();
            link_pair(router, "eth1", &server.namespace, &line).unwrap();
            let number = number + 1;
            for (host, interface, address) in [
                (client, "eth0", format!("10.1.{number}.2/24")),
                (router, "eth0", format!("10.1.{number}.1/24")),
                (router, "eth1", format!("10.2.{number}.1/24")),
                (&server.namespace, &line, format!("10.2.{number}.2/24")),
            ] {
                host.add_address(interface, address.parse().unwrap()).unwrap();
            }
            let via = |net: String, gateway: String| (net.parse().unwrap(), gateway.parse().unwrap());
            for (host, (net, gateway)) in [
                (client, via("0.0.0.0/0".to_owned(), format!("10.1.{number}.1"))),
                (router, via(format!("{SERVER}/32"), format!("10.2.{number}.2"))),
                (&server.namespace, via(format!("10.1.{number}.0/24"), format!("10.2.{number}.1"))),
            ] {
                host.add_route(net, gateway).unwrap();
            }
            router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        }
        Self { clients, routers, server }
    }

    /// Starts the agents of both routers, which listen to the server; `more` stands in their `[router]`.
    pub(crate) fn start_routers(&mut self, more: &str) {
        let sections = self.of_router(more);
        self.routers.iter_mut().for_each(|router| router.start(&sections));
    }

    /// The file of a router.
    pub(crate) fn of_router(&self, more: &str) -> String {
        let key = self.server.key.public();
        format!(
            "[router]\nlisten = {CONTROL}\n{more}\n[[server]]\nname = \"hq\"\npublic_key = \"{key}\"\nprefixes = [\"{SERVER}\"]\n"
        )
    }

    /// The agent's address of a router.
    pub(crate) fn address(number: usize) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::new(10, 2, u8::try_from(number).unwrap() + 1, 1).into(), CONTROL)
    }

    /// Starts the server's agent, which accepts so much of the limited class.
    pub(crate) fn start_server(&mut self, rate: &str, more: &str) {
        let sections = self.of_server(rate, more);
        self.server.start(&sections);
    }

    /// The file of the server.
    pub(crate) fn of_server(&self, rate: &str, more: &str) -> String {
        let mut sections = format!(
            "lifetime = 3\n{more}\n\
             [[accept]]\nname = \"limited\"\ndestination = \"{SERVER}\"\nprotocol = \"udp\"\nports = {LIMITED}\nrate = \"{rate}\"\n"
        );
        for (number, router) in self.routers.iter().enumerate() {
            let (key, address) = (router.key.public(), Self::address(number));
            sections += &format!(
                "[[upstream]]\nname = \"r{}\"\nkind = \"nft\"\naddress = \"{address}\"\npublic_key = \"{key}\"\n",
                number + 1
            );
        }
        sections
    }

    /// Waits until both routers have the server's rules.
    pub(crate) fn wait_until_current(&self) {
        wait_for("rules on both routers", PATIENCE, || {
            let upstreams = self.server.status().server?.upstreams;
            upstreams.iter().all(|upstream| upstream.current && upstream.error.is_none()).then_some(())
        });
    }
}

/// Packets to the server at a rate, until this is dropped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    pub(crate) fn start(from: &Namespace, port: u16, bytes_per_second: u32) -> Self {
        Self::to(from, (SERVER, port).into(), bytes_per_second)
    }

    /// Packets to somebody else.
    pub(crate) fn to(from: &Namespace, to: SocketAddr, bytes_per_second: u32) -> Self {
        let socket = from.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        socket.connect(to).unwrap();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = thread::spawn({
            let (stop, sent) = (stop.clone(), sent.clone());
            move || send(&socket, f64::from(bytes_per_second), &stop, &sent)
        });
        Self { stop, sent, thread: Some(thread) }
    }

    /// Packets that were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn send(socket: &UdpSocket, rate: f64, stop: &AtomicBool, sent: &AtomicU64) {
    let (started, payload) = (Instant::now(), [7; PACKET - 28]);
    let mut number = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        let due = started.elapsed().as_secs_f64() * rate / f64::from(u32::try_from(PACKET).unwrap());
        while f64::from(number) < due {
            // Nobody may listen yet, or any more.
            let _ = socket.send(&payload);
            number += 1;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(2));
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}

/// Counts the packets that arrive at a port of the server.
pub(crate) struct Arrivals {
    stop: Arc<AtomicBool>,
    counts: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Arrivals {
    pub(crate) fn at(server: &Namespace, port: u16) -> Self {
        let socket = server.run(|| UdpSocket::bind((SERVER, port))).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
        let (stop, counts) =
            (Arc::new(AtomicBool::new(false)), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
        let thread = thread::spawn({
            let (stop, counts) = (stop.clone(), counts.clone());
            move || {
                let mut buffer = [0; 2000];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((_, from)) = socket.recv_from(&mut buffer) else { continue };
                    let SocketAddr::V4(from) = from else { continue };
                    let client = usize::from(from.ip().octets()[2]) - 1;
                    counts[client].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, counts, thread: Some(thread) }
    }

    /// Packets of each client so far.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|client: usize| self.counts[client].load(Ordering::Relaxed))
    }

    /// Bytes of IP packets per second of each client, in the time that follows.
    pub(crate) fn rates(&self, time: Duration) -> [f64; 2] {
        let (before, started) = (self.counts(), Instant::now());
        sleep(time);
        let (after, seconds) = (self.counts(), started.elapsed().as_secs_f64());
        [0, 1].map(|client: usize| {
            let packets = u32::try_from(after[client] - before[client]).unwrap();
            f64::from(packets) * f64::from(u32::try_from(PACKET).unwrap()) / seconds
        })
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}
