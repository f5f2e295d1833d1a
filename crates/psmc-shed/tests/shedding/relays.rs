//! A relay as an upstream, beside a router: both drop the same of the same traffic.
//!
//! ```text
//!  client 1 ── router 1, psmc-shed ────────────┐
//!                                              server, 203.0.113.10
//!  client 2 ══ router 2, psmc-relay: IP-in-IP ═╛
//! ```

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;
use psmc_testbed::poll::wait_for;
use psmc_testbed::programs::program;
use psmc_testbed::steadily::{Measured, steadily, turn};
use socket2::{Domain, Protocol, Socket, Type};
use tempfile::TempDir;

use crate::world::{Arrivals, Flood, LIMITED, OTHER, PACKET, PATIENCE, SERVER, World};

/// What the server accepts: as much as each of two may have the half of.
const ACCEPTED: (&str, f64) = ("8mbit", 1_000_000.0);

/// What each client sends, in bytes per second.
const FLOOD: u32 = 4_000_000;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const RELAY: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 2, 1), Ipv4Addr::new(10, 2, 2, 1)];
const TUNNEL: &str = r#"
[[tunnel]]
name = "north"
left = "10.1.2.2"
left_inside = ["198.51.100.0/24"]
right = "10.2.2.2"
right_inside = ["203.0.113.10/32"]
right_owner = "hq"
"#;

/// A relay that runs.
struct Relay {
    key: PrivateKey,
    directory: TempDir,
    process: Option<Child>,
}

impl Relay {
    fn start(world: &World) -> Self {
        let (directory, key) = (tempfile::tempdir().unwrap(), PrivateKey::generate());
        let key_file = directory.path().join("fra1.key");
        fs::write(&key_file, key.to_base64().as_bytes()).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let mut relay = Self { key, directory, process: None };
        let text = format!(
            "[relay]\nname = \"fra1\"\nprivate_key_file = \"fra1.key\"\ncontrol_socket = '{}'\n\
             [[allow]]\nname = \"hq\"\npublic_key = \"{}\"\n{TUNNEL}",
            relay.socket().display(),
            world.server.key.public()
        );
        let file = relay.directory.path().join("fra1.toml");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program("psmc-relay"));
        let process = world.routers[1].namespace.spawn(command.arg("--config").arg(file)).unwrap();
        relay.process = Some(process);
        wait_for("the relay to answer", PATIENCE, || fs::exists(relay.socket()).ok()?.then_some(()));
        relay
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("fra1.sock")
    }

    /// What `psmc-relay status` says.
    fn status(&self) -> String {
        let mut command = Command::new(program("psmc-relay"));
        let output = command.args(["status", "--socket"]).arg(self.socket()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Both fail only for a program that has ended.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// The file of a server behind a router and a relay.
fn of_server(world: &World, relay: &Relay) -> String {
    let (router, relay) = (world.routers[0].key.public(), relay.key.public());
    format!(
        "lifetime = 3\n\
         [[accept]]\nname = \"limited\"\ndestination = \"{SERVER}\"\nprotocol = \"udp\"\nports = {LIMITED}\nrate = \"{}\"\n\
         [[upstream]]\nname = \"r1\"\nkind = \"nft\"\naddress = \"{}\"\npublic_key = \"{router}\"\n\
         [[upstream]]\nname = \"fra1\"\nkind = \"relay\"\naddress = \"{}:5115\"\npublic_key = \"{relay}\"\n",
        ACCEPTED.0,
        World::address(0),
        RELAY[1],
    )
}

/// A thread that is told to end when this is dropped.
struct Worker {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(work: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = thread::spawn({
            let (stop, count) = (stop.clone(), count.clone());
            move || work(&stop, &count)
        });
        Self { stop, count, thread: Some(thread) }
    }

    /// Bytes of inner packets so far.
    fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}

fn ipv4(length: usize, protocol: u8, from: Ipv4Addr, to: Ipv4Addr) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    (header[8], header[9]) = (64, protocol);
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&(!folded).to_be_bytes());
    header
}

/// An inner packet as [`Flood`] has them, in an outer one to the relay.
fn wrapped(port: u16) -> Vec<u8> {
    let udp = [50_000, port, u16::try_from(PACKET - 20).unwrap(), 0].map(u16::to_be_bytes).concat();
    let mut packet = ipv4(PACKET + 20, 4, CLIENT, RELAY[0]).to_vec();
    packet.extend(ipv4(PACKET, 17, Ipv4Addr::new(198, 51, 100, 9), SERVER));
    packet.extend(udp);
    packet.resize(PACKET + 20, 7);
    packet
}

fn raw(host: &Namespace, protocol: i32) -> Socket {
    host.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol)))).unwrap()
}

/// Sends inner packets through the relay at a rate.
fn flood(client: &Namespace, port: u16, bytes_per_second: u32) -> Worker {
    let socket = raw(client, 4);
    socket.set_header_included_v4(true).unwrap();
    Worker::start(move |stop, _| {
        let (started, packet, to) = (Instant::now(), wrapped(port), SocketAddrV4::new(RELAY[0], 0).into());
        let mut sent = 0.0;
        while !stop.load(Ordering::Relaxed) {
            while sent < started.elapsed().as_secs_f64() * f64::from(bytes_per_second) {
                // What finds no room is not sent.
                let _ = socket.send_to(&packet, &to);
                sent += f64::from(u32::try_from(PACKET).unwrap());
            }
            sleep(Duration::from_millis(2));
        }
    })
}

/// Counts inner packets of the limited class that the relay passes on to the server.
fn arrivals(server: &Namespace) -> Worker {
    let mut socket = raw(server, 4);
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket.set_recv_buffer_size(4 << 20).unwrap();
    Worker::start(move |stop, count| {
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let Ok(length) = socket.read(&mut buffer) else { continue };
            if buffer[42..44] == LIMITED.to_be_bytes() {
                count.fetch_add(length as u64 - 20, Ordering::Relaxed);
            }
        }
    })
}

#[test]
fn a_router_and_a_relay_drop_the_same_of_the_same_traffic() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let mut world = World::new();
        let sections = world.of_router("");
        world.routers[0].start(&sections);
        let relay = Relay::start(&world);
        let sections = of_server(&world, &relay);
        world.server.start(&sections);
        world.wait_until_current();
        let by_router = Arrivals::at(&world.server.namespace, LIMITED);
        let by_relay = arrivals(&world.server.namespace);
        let _floods = (
            Flood::start(&world.clients[0], LIMITED, FLOOD),
            flood(&world.clients[1], LIMITED, FLOOD),
            flood(&world.clients[1], OTHER, FLOOD / 40),
        );
        let rates = |time: Duration| {
            let (before, started) = (by_relay.bytes(), Instant::now());
            let [router, _] = by_router.rates(time);
            let passed = u32::try_from(by_relay.bytes() - before).unwrap();
            [router, f64::from(passed) / started.elapsed().as_secs_f64()]
        };
        // The tests of floods show how soon.
        wait_for("what arrives to be what is accepted, in equal parts", 3 * PATIENCE, || {
            let [router, relayed] = rates(Duration::from_secs(5));
            println!("accepted {}, passed by the router {router:.0}, by the relay {relayed:.0}", ACCEPTED.1);
            let is_accepted = (0.9..1.1).contains(&((router + relayed) / ACCEPTED.1));
            (is_accepted && (0.95..1.05).contains(&(relayed / router))).then_some(())
        });
        let explained = world.server.explain("limited");
        assert!(explained.contains("at fra1: more is offered than the"), "{explained}");
        let said = relay.status();
        assert!(
            said.contains("dropped for hq") && said.contains("203.0.113.10/32 protocol 17 ports 9-9"),
            "{said}"
        );

        // An agent that is killed leaves a relay that passes everything on, once its rules have ended.
        world.server.end("-KILL");
        wait_for("everything to pass", PATIENCE, || {
            let (before, started) = (by_relay.bytes(), Instant::now());
            sleep(Duration::from_millis(500));
            let passed = u32::try_from(by_relay.bytes() - before).unwrap();
            (f64::from(passed) / started.elapsed().as_secs_f64() > 0.8 * f64::from(FLOOD)).then_some(())
        });
    });
}

#[test]
fn a_relay_that_does_not_know_the_server_is_said_to() {
    let mut world = World::new();
    let relay = Relay::start(&world);
    world.server.key = PrivateKey::generate();
    let sections = of_server(&world, &relay);
    world.server.start(&sections);
    wait_for("the refusal", PATIENCE, || {
        let upstreams = world.server.status().server?.upstreams;
        let error = upstreams.iter().find(|upstream| upstream.name == "fra1")?.error.clone()?;
        error.contains("key").then_some(())
    });
}
