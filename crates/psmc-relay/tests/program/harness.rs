//! A relay that runs, sites that talk to it, and sockets that stand for their paths.

mod site;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::connect_tcp;
use psmc_relay::status::{Status, ask};
use psmc_testbed::netns::Namespace;
use psmc_wire::PacketNumber;
use psmc_wire::datagram::Marks;
use psmc_wire::hop::{HOP_CHALLENGE_LEN, HOP_HEADER_LEN, Hop, HopResponse, write_hop_header};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Message, SignedGrant, Welcome};
use tempfile::TempDir;

pub(crate) use site::{PATIENCE, Site};

/// How long a socket waits for what must not come, after all that was sent before it has been counted.
const SILENCE: Duration = Duration::from_millis(50);

/// A relay that runs; it ends on drop.
pub(crate) struct Relay {
    pub(crate) key: PrivateKey,
    pub(crate) address: SocketAddr,
    directory: TempDir,
    process: Child,
}

impl Relay {
    /// Starts a relay for these sites. `settings` are further lines of `[relay]`; of a site, of its `[[allow]]`.
    pub(crate) fn start(settings: &str, sites: &[(&PrivateKey, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = PrivateKey::generate();
        write_key(&directory, &key);
        // Free for both protocols just now; nobody else on this machine draws ports for both.
        let address = free_address();
        let text = file(&directory, address, settings, sites);
        fs::write(directory.path().join("relay.toml"), text).unwrap();
        let process = spawn(&directory);
        Self { key, address, directory, process }
    }

    /// Starts a relay on a host of its own, at an address there, with these lines of `[relay]`, for these sites, and with
    /// these `[[tunnel]]` sections.
    pub(crate) fn start_on(
        host: &Namespace,
        address: SocketAddr,
        settings: &str,
        sites: &[(&PrivateKey, &str)],
        tunnels: &str,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = PrivateKey::generate();
        write_key(&directory, &key);
        let text = file(&directory, address, settings, sites) + tunnels;
        fs::write(directory.path().join("relay.toml"), text).unwrap();
        let process = host.run(|| spawn(&directory));
        Self { key, address, directory, process }
    }

    /// Tells the relay to serve other sites.
    pub(crate) fn reload(&self, settings: &str, sites: &[(&PrivateKey, &str)]) {
        self.reload_with(settings, sites, "");
    }

    /// Tells the relay to serve other sites, and by these `[[tunnel]]` sections.
    pub(crate) fn reload_with(&self, settings: &str, sites: &[(&PrivateKey, &str)], tunnels: &str) {
        let text = file(&self.directory, self.address, settings, sites) + tunnels;
        fs::write(self.directory.path().join("relay.toml"), text).unwrap();
        let told = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// Kills the relay, without a word, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(&self.directory);
    }

    /// What it says about itself.
    pub(crate) fn status(&self) -> Status {
        ask(&self.socket()).unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("fra1.relay")
    }

    /// Waits until the status is as `is_so` says.
    pub(crate) fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Status) -> bool) -> Status {
        let started = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The status once nothing comes any more.
    pub(crate) fn settled(&self) -> Status {
        let mut before = None;
        self.wait_for("silence", |status| {
            before.replace(status.datagrams.received) == Some(status.datagrams.received)
        })
    }

    /// The CPU time that it has used, in ticks of the kernel: the 14th and 15th field (proc(5)).
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let (_, fields) = text.rsplit_once(')').unwrap();
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }

    /// Its memory, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn key_bytes(&self) -> KeyBytes {
        key_bytes(&self.key)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn write_key(directory: &TempDir, key: &PrivateKey) {
    let key_file = directory.path().join("relay.key");
    fs::write(&key_file, key.to_base64().as_str()).unwrap();
    fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
}

/// What the relay is told.
fn file(directory: &TempDir, address: SocketAddr, settings: &str, sites: &[(&PrivateKey, &str)]) -> String {
    let mut text = format!(
        "[relay]\nname = \"fra1\"\nprivate_key_file = \"relay.key\"\nlisten = \"{address}\"\n\
             destinations = [\"127.0.0.0/8\"]\ncontrol_socket = '{}'\n{settings}\n",
        directory.path().join("fra1.relay").display(),
    );
    for (number, (key, more)) in sites.iter().enumerate() {
        let public = key.public();
        text += &format!("[[allow]]\nname = \"site{number}\"\npublic_key = \"{public}\"\n{more}\n");
    }
    text
}

fn spawn(directory: &TempDir) -> Child {
    let mut process = Command::new(env!("CARGO_BIN_EXE_psmc-relay"))
        .arg("--config")
        .arg(directory.path().join("relay.toml"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let first = lines.find_map(|line| line.ok().filter(|line| line.contains("relay started")));
    assert!(first.is_some(), "the relay has not started");
    // What it says later is of interest when a test fails.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| println!("relay: {line}")));
    process
}

fn free_address() -> SocketAddr {
    loop {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

pub(crate) fn key_bytes(key: &PrivateKey) -> KeyBytes {
    KeyBytes(*key.public().as_bytes())
}

impl Site {
    /// Dials, and says hello.
    pub(crate) async fn greet(
        key: &PrivateKey,
        relay: &Relay,
        grant: Option<SignedGrant>,
    ) -> Result<(Self, Message), TlsError> {
        let tcp = connect_tcp(None, None, relay.address, PATIENCE).await.unwrap();
        Self::greet_over(tcp, key, relay.key.public(), grant).await
    }

    /// Dials, and is served.
    pub(crate) async fn connect(key: &PrivateKey, relay: &Relay) -> Self {
        let (site, answer) = Self::greet(key, relay, None).await.unwrap();
        assert!(
            matches!(answer, Message::Welcome(Welcome { data_port, .. }) if data_port == relay.address.port())
        );
        site
    }
}

/// One end of a path: a socket, and what its datagrams carry towards the relay.
pub(crate) struct End {
    pub(crate) socket: UdpSocket,
    relay: SocketAddr,
    hop: Option<Hop>,
    next: PacketNumber,
}

impl End {
    pub(crate) fn new(relay: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, relay, hop: None, next: PacketNumber(0) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// To which relay it sends.
    pub(crate) fn relay(&self) -> SocketAddr {
        self.relay
    }

    /// Learns what its datagrams must carry.
    pub(crate) fn use_hop(&mut self, relay: SocketAddr, hop: &Hop) {
        (self.relay, self.hop, self.next) = (relay, Some(hop.clone()), PacketNumber(0));
    }

    /// The next datagram to the relay, of `len` bytes without its hop header, all of them `filling` but for the header.
    pub(crate) fn datagram(&mut self, len: usize, filling: u8) -> Vec<u8> {
        let mut datagram = vec![filling; HOP_HEADER_LEN + len];
        datagram[HOP_HEADER_LEN..HOP_HEADER_LEN + 12]
            .copy_from_slice(&[0x50, 0, 0, 1, 9, 9, 9, 9, 0, 0, 0, filling]);
        let hop = self.hop.as_ref().expect("it knows its hop");
        write_hop_header(&mut datagram, hop, self.next, Marks::default());
        self.next = self.next.next();
        datagram
    }

    /// What answers a challenge of the relay.
    pub(crate) fn response(&self, token: [u8; 8]) -> [u8; HOP_CHALLENGE_LEN] {
        HopResponse::encode(token, self.hop.as_ref().expect("it knows its hop"))
    }

    pub(crate) fn send_raw(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.relay).unwrap();
    }

    /// Sends a datagram, and says what its receiver should see of it.
    pub(crate) fn send(&mut self, len: usize, filling: u8) -> Vec<u8> {
        let datagram = self.datagram(len, filling);
        self.send_raw(&datagram);
        datagram[HOP_HEADER_LEN..].to_vec()
    }

    /// What arrives next, and whence.
    pub(crate) fn receive(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 65_536];
        let (length, from) = self.socket.recv_from(&mut buffer).expect("a datagram arrives");
        (buffer[..length].to_vec(), from)
    }

    /// How many datagrams have arrived and were not looked at yet.
    pub(crate) fn count_arrived(&self) -> u64 {
        self.socket.set_nonblocking(true).unwrap();
        let arrived = std::iter::from_fn(|| self.socket.recv(&mut [0; 2000]).ok()).count();
        self.socket.set_nonblocking(false).unwrap();
        arrived.try_into().unwrap()
    }

    /// Asserts that nothing has arrived.
    pub(crate) fn hears_nothing(&self) {
        self.socket.set_read_timeout(Some(SILENCE)).unwrap();
        let heard = self.socket.recv_from(&mut [0; 65_536]);
        assert!(heard.is_err(), "{heard:?}");
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}
