//! What is accepted, where the file is not what says it: limits of rules in nftables, listen queues, HAProxy, and pressure.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use psmc_shed::status::ClassStatus;
use psmc_testbed::netns::Namespace;
use psmc_testbed::poll::wait_for;
use socket2::{Domain, Socket, Type};

use crate::world::{Flood, Host, LIMITED, PATIENCE, SERVER};

/// The port of what is served.
const WEB: u16 = 8080;

/// How long a finder may take for some decreases.
const LONG: Duration = Duration::from_secs(60);

/// A server alone, whose agent finds out by `from` what it accepts of a class. Its upstream is a BGP daemon that is not there.
fn host(from: &str, protocol: &str, port: u16) -> Host {
    let mut host = Host::new("hq", &Arc::new(tempfile::tempdir().unwrap()));
    host.namespace.add_address("lo", format!("{SERVER}/32").parse().unwrap()).unwrap();
    host.start(&format!(
        "[[accept]]\nname = \"web\"\ndestination = \"{SERVER}\"\nprotocol = \"{protocol}\"\nports = {port}\nrate = \"64kbit\"\n\
         {from}\n[[upstream]]\nname = \"bgp\"\nkind = \"gobgp\"\n"
    ));
    host
}

fn class(host: &Host) -> ClassStatus {
    wait_for("the server's first words", PATIENCE, || Some(host.status().server?.classes.swap_remove(0)))
}

/// Waits until what is accepted is this, in bytes per second.
fn accepts(host: &Host, rate: f64) -> ClassStatus {
    wait_for(&format!("{rate} to be accepted"), PATIENCE, || {
        let class = class(host);
        #[expect(clippy::float_cmp, reason = "it is a whole number")]
        let is_it = class.accepted_bytes_per_s == rate;
        is_it.then_some(class)
    })
}

/// Does something in threads again and again until this is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(threads: usize, work: impl Fn() + Send + Clone + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let (stop, work) = (stop.clone(), work.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            })
        };
        Self { threads: (0..threads).map(start).collect(), stop }
    }

    /// The same in a namespace: what sockets are made there stays there.
    fn start_in(
        namespace: &Namespace,
        threads: usize,
        work: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Self {
        namespace.run(|| Self::start(threads, work))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}

fn nft(host: &Host, script: &str) {
    let file = host.file("nft");
    fs::write(&file, script).unwrap();
    let status = host.namespace.run(|| Command::new("nft").arg("-f").arg(&file).status()).unwrap();
    assert!(status.success());
}

#[test]
fn limits_of_nftables_are_followed() {
    let host = host("from = \"nft\"\nchain = \"inet filter input\"", "udp", LIMITED);
    let missing = wait_for("the trouble", PATIENCE, || class(&host).trouble);
    assert!(missing.contains("No such file"), "{missing}");
    let class = accepts(&host, 8_000.0);
    assert_eq!(class.accepted_by, "the file, for want of the limits of inet filter input");

    let table = "table inet filter { \n chain input {\n type filter hook input priority 0\n }\n }\n";
    nft(
        &host,
        &format!(
            "{table}add rule inet filter input udp dport {LIMITED} limit rate over 70000 bytes/second drop\n"
        ),
    );
    let class = accepts(&host, 70_000.0);
    assert_eq!((class.accepted_by.as_str(), class.trouble), ("the limits of inet filter input", None));
    nft(
        &host,
        &format!(
            "flush chain inet filter input\nadd rule inet filter input udp dport {LIMITED} limit rate 30 kbytes/second accept\n"
        ),
    );
    accepts(&host, 30_720.0);

    nft(
        &host,
        "flush chain inet filter input\nadd rule inet filter input meta mark 7 limit rate over 1 bytes/second drop\n",
    );
    let class = accepts(&host, 8_000.0);
    let trouble = class.trouble.unwrap();
    assert!(
        trouble.contains("has no limit of 203.0.113.10/32 udp 9; not understood are handle"),
        "{trouble}"
    );
    assert!(host.explain("web").contains(&trouble));
}

/// Connects without waiting for an answer.
fn knock() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    // It is under way.
    let _ = socket.connect(&SocketAddr::from((SERVER, WEB)).into());
    sleep(Duration::from_millis(2));
}

#[test]
fn less_is_accepted_while_a_listen_queue_is_full() {
    let host = host("from = \"listen-queue\"\nmin_rate = \"16kbit\"\nmax_rate = \"640kbit\"", "tcp", WEB);
    let listener = host.namespace.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((SERVER, WEB)).into()).unwrap();
        socket.listen(1).unwrap();
        socket
    });
    let knocking = Busy::start_in(&host.namespace, 1, knock);
    let class = wait_for("less to be accepted", LONG, || {
        Some(class(&host)).filter(|class| class.accepted_bytes_per_s < 5_000.0)
    });
    assert!(class.accepted_bytes_per_s >= 2_000.0, "{class:?}");
    assert_eq!(
        (class.trouble, class.accepted_by.as_str()),
        (None, "full listen queues, from 16kbit to 640kbit")
    );
    drop((knocking, listener));
}

const HAPROXY: &str = "
global
  stats socket SOCKET mode 600 level user
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout queue 30s
frontend web
  bind 203.0.113.10:8080
  default_backend app
backend app
  server s1 127.0.0.1:8081 maxconn 1
";

fn haproxy(host: &Host, socket: &Path) -> Child {
    let file = host.file("haproxy");
    fs::write(&file, HAPROXY.replace("SOCKET", socket.to_str().unwrap())).unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    host.namespace.spawn(&mut command).expect("haproxy is installed")
}

/// Serves one request, slowly.
fn serve(listener: &TcpListener) {
    let Ok((mut stream, _)) = listener.accept() else {
        sleep(Duration::from_millis(5));
        return;
    };
    let _ = stream.set_nonblocking(false);
    let _ = stream.read(&mut [0; 2000]);
    sleep(Duration::from_millis(50));
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

fn request() {
    let Ok(mut stream) = TcpStream::connect((SERVER, WEB)) else {
        sleep(Duration::from_millis(20));
        return;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n");
    let _ = stream.read(&mut [0; 2000]);
}

#[test]
fn less_is_accepted_while_requests_wait_in_haproxy() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("stats.sock");
    let from = format!(
        "from = \"haproxy\"\nsocket = '{}'\nbackend = \"app\"\nmin_rate = \"16kbit\"\nmax_rate = \"640kbit\"",
        socket.display()
    );
    let host = host(&from, "tcp", WEB);
    let trouble = wait_for("HAProxy to be missed", PATIENCE, || class(&host).trouble);
    assert!(trouble.starts_with("cannot ask HAProxy at "), "{trouble}");
    let listener = host.namespace.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 8081))).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = Arc::new(listener);
    let _serving = Busy::start(1, move || serve(&listener));
    let mut running = haproxy(&host, &socket);
    let _asking = Busy::start_in(&host.namespace, 40, request);
    let found = wait_for("less to be accepted", LONG, || {
        Some(class(&host)).filter(|class| class.accepted_bytes_per_s < 8_000.0)
    });
    assert_eq!(found.trouble, None);
    assert!(found.accepted_by.starts_with("more than 10 requests that wait in HAProxy for app"), "{found:?}");
    running.kill().unwrap();
    running.wait().unwrap();
    let fallen = accepts(&host, 8_000.0);
    assert!(
        fallen.trouble.is_some() && fallen.accepted_by.starts_with("the file, for want of"),
        "{fallen:?}"
    );
}

#[test]
fn less_is_accepted_while_processors_are_short() {
    let from = "from = \"cpu-pressure\"\nabove = 20\nmin_rate = \"16kbit\"\nmax_rate = \"640kbit\"";
    let host = host(from, "udp", LIMITED);
    if !Path::new("/proc/pressure/cpu").exists() {
        let trouble = wait_for("the trouble", PATIENCE, || class(&host).trouble);
        assert!(trouble.contains("CONFIG_PSI"), "{trouble}");
        return;
    }
    let _flood = Flood::start(&host.namespace, LIMITED, 20_000);
    let threads = 2 * thread::available_parallelism().unwrap().get() + 1;
    let _busy = Busy::start(threads, || {
        std::hint::black_box((0..10_000_u64).sum::<u64>());
    });
    let class = wait_for("less to be accepted", LONG, || {
        Some(class(&host)).filter(|class| class.accepted_bytes_per_s < 6_000.0)
    });
    assert_eq!(
        (class.trouble, class.accepted_by.as_str()),
        (None, "stalls for cpu above 20 %, from 16kbit to 640kbit")
    );
}
