//! Everything that there is: a service with a line that everybody knows and one that nobody does, its guard, a coordinator, a
//! name server, relays, and clients with resolvers.
//!
//! ```text
//!  van ─┐           ┌─ main ── hq    psmcd, guard
//!  bus ─┼── inet ───┴─ line ──┘
//!  ops ─┘    │                       ops: coordinator, name server
//!        r0 … r3
//! ```

mod files;
mod listener;

use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use psmc_api::{PathState, PeerState};
use psmc_coordinator::local::{self, Answer, BY_HAND, Request};
use psmc_coordinator::status::Status;
use psmc_net::keys::PublicKey;
use psmc_signal::{AlertKind, Measured};
use psmc_testbed::netns::{Namespace, Queue, link_pair};
use tempfile::TempDir;

use super::plan::{End, HQ, PORT, VAN};
use super::{Site, Tap, wait_for};
use files::Keys;
use psmc_testbed::programs::program;
use psmc_testbed::steadily::{Turn, turn};

/// The service's name.
pub(crate) const SERVICE: &str = "www.example.com";

/// The relays.
pub(crate) const RELAYS: [&str; 4] = ["r0", "r1", "r2", "r3"];

/// How many of them the clients are told of.
const TOLD: usize = 2;

/// The clients. The coordinator tells the first of routes; the other one knows nothing but DNS.
pub(crate) const CLIENTS: [&str; 2] = [VAN.name, BUS_END.name];

/// The second client.
const BUS_END: End = End { name: "bus", inside: 3, outside: 3, interface: 'b' };

/// The service's lines: the known one, and the other one.
const NAMES: [&str; 2] = ["main", "line"];

/// The numbers of the hosts' networks.
const KNOWN: u8 = 1;
const HIDDEN: u8 = 2;
const OPS: u8 = 4;
const CLIENT: u8 = 21;

/// How long anything may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the service's lines carry, in bits per second, and what they queue.
const RATE: u64 = 20_000_000;
const BURST: u32 = 16_000;
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// All of it. Everything vanishes on drop.
pub(crate) struct Chain {
    pub(crate) clients: [Site; CLIENTS.len()],
    pub(crate) hq: Site,
    relays: Vec<Relay>,
    ops: Namespace,
    inet: Namespace,
    programs: Vec<Program>,
    keys: Keys,
    directory: TempDir,
    _turn: Turn,
}

struct Relay {
    namespace: Namespace,
    program: Option<Program>,
}

/// A program, which is killed on drop, and the socket on which it tells that it is ready (sd_notify(3)).
struct Program(Child, UnixDatagram);

impl Program {
    /// Waits until it says so.
    fn wait_until_ready(&self, name: &str) {
        self.1.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = [0; 64];
        let length = self.1.recv(&mut text).unwrap_or_else(|error| panic!("{name} is not ready: {error}"));
        assert_eq!(&text[..length], b"READY=1", "{name}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only for one that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Chain {
    /// All hosts, their files, and no program yet.
    pub(crate) fn prepare() -> Self {
        let turn = turn();
        let directory = tempfile::Builder::new().prefix("psmc-e2e-chain-").tempdir().unwrap();
        let site = |end| Site::new(end, directory.path());
        let host = || Namespace::new().unwrap();
        let relay = |_| Relay { namespace: host(), program: None };
        let world = Self {
            clients: [site(VAN), site(BUS_END)],
            hq: site(HQ),
            relays: RELAYS.iter().map(relay).collect(),
            ops: host(),
            inet: host(),
            programs: Vec::new(),
            keys: Keys::generate(),
            directory,
            _turn: turn,
        };
        world.lay();
        world.write_files();
        world
    }

    /// Starts all programs, and waits until the clients reach the service and the coordinator knows who is there.
    pub(crate) fn start(&mut self) {
        for (place, name) in RELAYS.into_iter().enumerate() {
            let started = self.run(&self.relays[place].namespace, name, "psmc-relay", &["--config"]);
            self.relays[place].program = Some(started);
        }
        self.programs.push(self.run(&self.ops, "name-server", "psmc-dns", &["serve"]));
        self.hq.start();
        self.wait_for_sockets(&[HQ.name]);
        self.programs.push(self.run(&self.ops, "coordinator", "psmc-coordinator", &["--config"]));
        self.programs.push(self.run(&self.hq.namespace, "guard", "psmc-guard", &["--config"]));
        self.clients.iter_mut().for_each(Site::start);
        self.wait_for_sockets(&CLIENTS);
        for (place, client) in CLIENTS.into_iter().enumerate() {
            let name = format!("{client}-dns");
            let host = &self.clients[place].namespace;
            self.programs.push(self.run(host, &name, "psmc", &["dns", "resolve", "run"]));
        }
        wait_for("everybody", PATIENCE, || {
            let status = self.coordinator()?;
            let are_there = status.relays.iter().all(|relay| relay.alive);
            let connected = |site: &Site| {
                site.try_status().is_some_and(|status| status.peers[0].state == PeerState::Connected)
            };
            ((status.gateways, status.clients) == (1, 1) && are_there && self.clients.iter().all(connected))
                .then_some(())
        });
        for place in 0..CLIENTS.len() {
            // Routes are looked for where somebody has asked for the name.
            let answer = self.dig(place, &[&format!("@{}", files::RESOLVER), SERVICE, "+short"]);
            assert_eq!(answer.trim(), self.hq.inner(super::Family::V4).to_string());
        }
    }

    /// Somebody says that the service is attacked.
    pub(crate) fn alert(&self) {
        let (source, id) = (BY_HAND.to_owned(), "1".to_owned());
        let (kind, measured, service) = (AlertKind::Rate, Measured::default(), SERVICE.to_owned());
        self.order(&Request::Alert { source, id, service, kind, measured, lasts: None });
    }

    /// Somebody ends what is done about it.
    pub(crate) fn withdraw(&self) {
        self.order(&Request::Withdraw { service: SERVICE.to_owned() });
    }

    fn order(&self, request: &Request) {
        assert!(matches!(local::ask(&self.socket("coordinator"), request), Ok(Answer::Done)));
    }

    /// What the coordinator says of itself.
    pub(crate) fn coordinator(&self) -> Option<Status> {
        match local::ask(&self.socket("coordinator"), &Request::Status).ok()? {
            Answer::Status(status) => Some(*status),
            Answer::Events { .. } | Answer::Done | Answer::NotOpen | Answer::Error { .. } => None,
        }
    }

    /// What the coordinator says has happened, the latest first.
    pub(crate) fn events(&self) -> Vec<String> {
        match local::ask(&self.socket("coordinator"), &Request::Events { count: 100 }) {
            Ok(Answer::Events { events }) => events.into_iter().map(|event| event.text).collect(),
            Ok(Answer::Status(_) | Answer::Done | Answer::NotOpen | Answer::Error { .. }) | Err(_) => {
                Vec::new()
            }
        }
    }

    /// The relays that the clients are told of, by their names.
    pub(crate) fn published(&self) -> Vec<String> {
        self.coordinator().unwrap().services[0].routes.values().flatten().cloned().collect()
    }

    /// Waits until each client has a path that works over each of as many relays as it should, and none of them is one of
    /// these.
    pub(crate) fn wait_until_around(&self, without: &[&str]) {
        let without: Vec<_> = without.iter().map(|name| relay_address(name).to_string()).collect();
        for client in &self.clients {
            wait_for(&format!("{} around, without {without:?}", client.end.name), PATIENCE, || {
                let peer = client.try_status()?.peers.remove(0);
                let works = |name: &String| {
                    peer.paths.iter().any(|path| path.name == *name && path.state == PathState::Active)
                };
                let routes = &peer.routes.as_ref()?.routes;
                let is_right = routes
                    .iter()
                    .all(|route| route.paths.iter().any(works) && !without.contains(&route.address));
                (routes.len() == TOLD && is_right).then_some(())
            });
        }
    }

    /// Kills a relay, without a word.
    pub(crate) fn kill(&mut self, name: &str) {
        self.relays[place(name)].program = None;
    }

    /// Has a relay lose all datagrams, though it goes on to answer whoever asks how it is.
    pub(crate) fn swallow(&self, name: &str) {
        self.relays[place(name)].namespace.swallow_udp(PORT).unwrap();
    }

    /// Takes what a relay receives.
    pub(crate) fn tap_relay(&self, name: &str) -> Tap {
        Tap::start(&self.relays[place(name)].namespace, "wan")
    }

    /// Takes what a client receives.
    pub(crate) fn tap_client(&self, place: usize) -> Tap {
        Tap::start(&self.clients[place].namespace, "wan")
    }

    /// The public key of a relay.
    pub(crate) fn key(&self, name: &str) -> PublicKey {
        self.keys.relays[place(name)].public()
    }

    /// Asks as `dig` does on a client, and returns what it prints.
    pub(crate) fn dig(&self, client: usize, words: &[&str]) -> String {
        self.clients[client].run(&[&["dig", "+tries=2", "+time=10"], words].concat())
    }

    /// What is in the files of the clients: configurations, logs, and the routes that they keep.
    pub(crate) fn files_of_clients(&self) -> Vec<Vec<u8>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let entry = entry.unwrap();
            let is_clients =
                CLIENTS.iter().any(|client| entry.file_name().to_string_lossy().starts_with(client));
            if is_clients && entry.file_type().unwrap().is_dir() {
                files.extend(
                    fs::read_dir(entry.path()).unwrap().map(|inner| fs::read(inner.unwrap().path()).unwrap()),
                );
            } else if is_clients && entry.file_type().unwrap().is_file() {
                files.push(fs::read(entry.path()).unwrap());
            }
        }
        files
    }

    fn lay(&self) {
        self.inet.sysctl("net/ipv4/ip_forward", "1").unwrap();
        for (metric, (name, number)) in (1..).zip(NAMES.into_iter().zip([KNOWN, HIDDEN])) {
            self.attach(name, (&self.hq.namespace, name), number, metric);
            for host in [&self.inet, &self.hq.namespace] {
                host.shape(name, RATE, BURST, QUEUE).unwrap();
            }
        }
        self.attach("ops", (&self.ops, "wan"), OPS, 1);
        for (place, relay) in self.relays.iter().enumerate() {
            self.attach(RELAYS[place], (&relay.namespace, "wan"), relay_number(place), 1);
        }
        for (client, number) in self.clients.iter().zip(CLIENT..) {
            self.attach(client.end.name, (&client.namespace, "wan"), number, 1);
            // All that they are sent is looked at, in frames as a wire has them.
            self.inet.disable_offloads(client.end.name).unwrap();
        }
    }

    /// Joins a host to the others.
    fn attach(&self, name: &str, (host, interface): (&Namespace, &str), number: u8, metric: u32) {
        link_pair(&self.inet, name, host, interface).unwrap();
        self.inet.add_address(name, net(number, 1).into()).unwrap();
        host.add_address(interface, net(number, 2).into()).unwrap();
        host.add_route_with_metric(DEFAULT, net(number, 1).addr().into(), metric).unwrap();
    }

    fn write_files(&self) {
        let (path, keys, hq) = (self.directory.path(), &self.keys, self.hq.key.public());
        let [van, bus] = self.clients.each_ref().map(|client| client.key.public());
        for (name, key) in RELAYS.into_iter().zip(&keys.relays) {
            write(path, &format!("{name}.key"), &key.to_base64());
            write(path, &format!("{name}.toml"), &files::relay(name, keys, &bus, path));
        }
        let others = [("guard", &keys.guard), ("coordinator", &keys.coordinator), ("hq", &self.hq.key)];
        let clients = self.clients.iter().map(|client| (client.end.name, &client.key));
        for (name, key) in others.into_iter().chain(clients) {
            write(path, &format!("{name}.key"), &key.to_base64());
        }
        write(path, "up.key", &keys.update);
        write(path, "example.com.zone", &files::zone());
        write(path, "name-server.toml", &files::name_server(path));
        write(path, "coordinator.toml", &files::coordinator(keys, [&van, &bus], path));
        write(path, "guard.toml", &files::guard(keys, path));
        self.hq.configure(&files::headquarters(&self.hq.key, path));
        for client in &self.clients {
            client.configure(&files::client(client.end, &client.key, &hq, path));
            write(
                path,
                &format!("{}-dns.toml", client.end.name),
                &files::resolver(client.end, keys, &hq, path),
            );
        }
    }

    /// Starts a program with its file, which is called `name`, and waits until it is ready.
    fn run(&self, host: &Namespace, name: &str, what: &str, words: &[&str]) -> Program {
        let path = self.directory.path();
        let log = File::create(path.join(name).with_extension("log")).unwrap();
        let mut command = Command::new(program(what));
        command.args(words).arg(path.join(name).with_extension("toml")).current_dir(path);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let notified = path.join(name).with_extension("notify");
        let ready = UnixDatagram::bind(&notified).unwrap();
        command.env("NOTIFY_SOCKET", &notified);
        let program = Program(host.spawn(&mut command).unwrap(), ready);
        program.wait_until_ready(name);
        program
    }

    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name).with_extension("sock")
    }

    fn wait_for_sockets(&self, names: &[&str]) {
        for name in names {
            wait_for(name, PATIENCE, || std::os::unix::net::UnixStream::connect(self.socket(name)).ok());
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["coordinator", "guard", "hq", "van", "bus", "van-dns", "bus-dns"] {
                let log = self.directory.path().join(name).with_extension("log");
                let log = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
                eprintln!("--- the log of {name}:\n{}", tail.join("\n"));
            }
        }
    }
}

/// How much of a log a failed test shows.
const LOG_LINES: usize = 30;

/// Everywhere.
const DEFAULT: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));

/// Between `inet` and a host, the second address.
fn net(number: u8, host: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, number, host), 24)
}

fn address(number: u8) -> Ipv4Addr {
    net(number, 2).addr()
}

fn relay_number(place: usize) -> u8 {
    11 + u8::try_from(place).unwrap()
}

fn place(name: &str) -> usize {
    RELAYS.iter().position(|relay| *relay == name).unwrap()
}

/// Where a relay takes datagrams and connections.
pub(crate) fn relay_address(name: &str) -> SocketAddr {
    SocketAddr::new(address(relay_number(place(name))).into(), PORT)
}

/// The line that nobody knows: the service's address there, and its interface.
pub(crate) fn hidden_line() -> (Ipv4Addr, String) {
    (address(HIDDEN), NAMES[1].to_owned())
}

/// The line that everybody knows: the service's address there, and its interface.
pub(crate) fn known_line() -> (Ipv4Addr, String) {
    (address(KNOWN), NAMES[0].to_owned())
}

/// Where the name server and the coordinator are.
pub(crate) fn operators() -> Ipv4Addr {
    address(OPS)
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}
