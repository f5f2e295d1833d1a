//! Figure 18 of DRAIN with real packets: a flood to one of two web servers, behind a line of 2 Mb/s.
//!
//! ```text
//!  client ── R0 ──┐                       ┌── S0, nginx and psmc-shed
//!                 R2, psmc-shed ── R3 ────┤
//!  client ── R1 ──┘         2 Mb/s        └── S1, nginx
//! ```

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use psmc_testbed::netns::{Namespace, Queue, link_pair};
use psmc_testbed::poll::wait_for;
use psmc_testbed::steadily::{Measured, steadily, turn};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::world::{CONTROL, Flood, Host, LIMITED, PATIENCE};

/// How long crowds have come before what is accepted counts, and for how long it does.
const BEFORE: Duration = Duration::from_secs(5);
const COUNTED: Duration = Duration::from_secs(10);

/// How long a client waits for a page.
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(3);

/// The line between R2 and R3, in bits per second, and its queue: 50 packets of 1 KB.
const LINE: u64 = 2_000_000;
const QUEUE: u32 = 50_000;

/// A host with nginx.
struct Web {
    _directory: TempDir,
    process: Child,
}

impl Web {
    fn start(host: &Namespace) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr crit;\nevents { worker_connections 4096; }\n\
                    http { access_log off; keepalive_timeout 0; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;\n\
                    uwsgi_temp_path t; scgi_temp_path t; server { listen 80 backlog=4096; location / { return 200 ok; } } }\n";
        let file = directory.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(file);
        let process = host.spawn(&mut command).unwrap();
        wait_for("nginx", PATIENCE, || fs::exists(directory.path().join("nginx.pid")).ok()?.then_some(()));
        Self { _directory: directory, process }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It is one process: a worker would outlive it, and keep what the test has open.
        drop(Command::new("kill").arg(self.process.id().to_string()).status());
        drop(self.process.wait());
    }
}

fn server(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 4, u8::try_from(number).unwrap(), 2)
}

struct Network {
    clients: [Namespace; 2],
    routers: [Namespace; 3],
    r2: Host,
    s0: Host,
    s1: Namespace,
    _webs: [Web; 2],
}

impl Network {
    fn new() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let host = || Namespace::new().expect("this test needs root");
        let (clients, routers, s1) = ([host(), host()], [host(), host(), host()], host());
        let [r2, s0] = ["r2", "s0"].map(|name| Host::new(name, &directory));
        let [r0, r1, r3] = &routers;
        let links = [
            (&clients[0], "up", "10.1.0.2", r0, "down", "10.1.0.1"),
            (&clients[1], "up", "10.1.1.2", r1, "down", "10.1.1.1"),
            (r0, "up", "10.2.0.1", &r2.namespace, "north0", "10.2.0.2"),
            (r1, "up", "10.2.1.1", &r2.namespace, "north1", "10.2.1.2"),
            (&r2.namespace, "south", "10.3.0.1", r3, "north", "10.3.0.2"),
            (r3, "south0", "10.4.0.1", &s0.namespace, "up", "10.4.0.2"),
            (r3, "south1", "10.4.1.1", &s1, "up", "10.4.1.2"),
        ];
        for (here, name, address, there, far_name, far_address) in links {
            link_pair(here, name, there, far_name).unwrap();
            here.add_address(name, format!("{address}/24").parse().unwrap()).unwrap();
            there.add_address(far_name, format!("{far_address}/24").parse().unwrap()).unwrap();
        }
        for (host, net, gateway) in [
            (&clients[0], "0.0.0.0/0", "10.1.0.1"),
            (&clients[1], "0.0.0.0/0", "10.1.1.1"),
            (r0, "0.0.0.0/0", "10.2.0.2"),
            (r1, "0.0.0.0/0", "10.2.1.2"),
            (&r2.namespace, "10.1.0.0/24", "10.2.0.1"),
            (&r2.namespace, "10.1.1.0/24", "10.2.1.1"),
            (&r2.namespace, "10.4.0.0/16", "10.3.0.2"),
            (r3, "0.0.0.0/0", "10.3.0.1"),
            (&s0.namespace, "0.0.0.0/0", "10.4.0.1"),
            (&s1, "0.0.0.0/0", "10.4.1.1"),
        ] {
            host.add_route(net.parse().unwrap(), gateway.parse().unwrap()).unwrap();
        }
        for router in routers.iter().chain([&r2.namespace]) {
            router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        }
        r2.namespace.shape("south", LINE, 5_000, Queue::Bytes(QUEUE)).unwrap();
        let webs = [Web::start(&s0.namespace), Web::start(&s1)];
        Self { clients, routers, r2, s0, s1, _webs: webs }
    }

    /// What S0 polices itself, as iptables does in DRAIN.
    fn police(&self, rule: &str) {
        let chain = "chain input {\ntype filter hook input priority 0;";
        let text = format!("table inet own {{\n{chain}\n{rule} drop\n}}\n}}\n");
        let done = self.s0.namespace.run(|| Command::new("nft").arg(&text).status()).unwrap();
        assert!(done.success(), "{text}");
    }

    /// Has R2 drop what S0 does not accept.
    fn shed(&mut self, protocol: &str, port: u16, rate: &str) {
        let (router, server_key) = (self.r2.key.public(), self.s0.key.public());
        let to = server(0);
        self.r2.start(&format!(
            "[router]\nlisten = {CONTROL}\ninterfaces = [\"south\"]\n\
             [[server]]\nname = \"s0\"\npublic_key = \"{server_key}\"\nprefixes = [\"{to}\"]\n"
        ));
        self.s0.start(&format!(
            "[[accept]]\nname = \"crowd\"\ndestination = \"{to}\"\nprotocol = \"{protocol}\"\nports = {port}\nrate = \"{rate}\"\n\
             [[upstream]]\nname = \"r2\"\nkind = \"nft\"\naddress = \"10.3.0.1:{CONTROL}\"\npublic_key = \"{router}\"\n"
        ));
        wait_for("rules at R2", PATIENCE, || {
            let upstream = self.s0.status().server?.upstreams.pop()?;
            (upstream.current && upstream.error.is_none()).then_some(())
        });
    }

    /// Pages per second that each server gives to the clients, who ask for so many.
    fn accepted(&self, asked: [f64; 2]) -> [f64; 2] {
        let (stop, counts) = (AtomicBool::new(false), [(); 2].map(|()| Arc::new(AtomicU64::new(0))));
        scope(|scope| {
            for client in &self.clients {
                for (number, count) in counts.iter().enumerate() {
                    let (stop, to) = (&stop, SocketAddr::from((server(number), 80)));
                    scope.spawn(move || {
                        client
                            .block_on(|| ask_for_pages(to, asked[number] / 2.0, stop, count.clone()))
                            .unwrap()
                    });
                }
            }
            sleep(BEFORE);
            let before = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            sleep(COUNTED);
            let after = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            stop.store(true, Ordering::Relaxed);
            [0, 1].map(|number: usize| {
                let pages = u32::try_from(after[number] - before[number]).unwrap();
                f64::from(pages) / COUNTED.as_secs_f64()
            })
        })
    }

    /// All hosts are there until then.
    fn end(self) {
        drop((self.clients, self.routers, self.s1));
    }
}

/// Asks for pages at a rate, each over a connection of its own, and counts those that come.
async fn ask_for_pages(to: SocketAddr, rate: f64, stop: &AtomicBool, count: Arc<AtomicU64>) {
    let started = Instant::now();
    let mut number = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        sleep_until(started + Duration::from_secs_f64(f64::from(number) / rate)).await;
        number += 1;
        let count = count.clone();
        tokio::spawn(async move {
            if let Ok(Ok(true)) = timeout(PATIENCE_OF_CLIENTS, page(to)).await {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

async fn page(from: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(from).await?;
    stream.write_all(format!("GET / HTTP/1.0\r\nX-Padding: {}\r\n\r\n", "x".repeat(400)).as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

/// How much more both servers accept, in percent, of what they do without.
fn gain(what: &str, [without, with]: [[f64; 2]; 2]) -> f64 {
    let [alone, shed] = [without, with].map(|pages| pages.iter().sum::<f64>());
    let gain = (shed / alone - 1.0) * 100.0;
    println!(
        "| {what} | {:.0} | {:.0} | {:.0} | {:.0} | {gain:.0} |",
        without[0], without[1], with[0], with[1]
    );
    gain
}

#[test]
fn of_a_flood_of_udp_a_web_server_behind_the_same_line_notices_little() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let measure = |is_shed: bool| {
            let mut network = Network::new();
            network.police("udp dport 9 limit rate over 50 kbytes/second");
            if is_shed {
                network.shed("udp", LIMITED, "400kbit");
            }
            let to = SocketAddr::from((server(0), LIMITED));
            // 4 Mb/s in all.
            let floods = network.clients.each_ref().map(|client| Flood::to(client, to, 250_000));
            let accepted = network.accepted([100.0, 100.0]);
            drop(floods);
            network.end();
            accepted
        };
        let gain = gain("4 Mb/s of UDP", [false, true].map(measure));
        assert!(gain >= 45.0, "{gain} %");
    });
}
