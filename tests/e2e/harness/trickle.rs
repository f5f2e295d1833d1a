//! A TCP connection that carries little, steadily: what is lost or out of order on the way, its kernel has to send again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use super::Site;
use super::plan::Family;

/// Where the receiver listens.
const PORT: u16 = 9001;

/// Bytes written at once: less than fits into a packet.
const BLOCK: usize = 600;

/// How long a segment may go without an acknowledgement, whatever the round trip.
const RTO_MIN: &str = "10s";

/// A transfer that is running.
pub(crate) struct Trickle {
    stop: Arc<AtomicBool>,
    sending: JoinHandle<(TcpStream, usize)>,
    receiving: JoinHandle<usize>,
}

impl Trickle {
    /// Connects through the tunnel, and sends a block every `interval` until [`finish`](Self::finish).
    pub(crate) fn start(from: &Site, to: &Site, interval: Duration) -> Self {
        let address = SocketAddr::new(to.inner(Family::V4), PORT);
        // Nothing is sent again for the mere reason that a busy machine is late: neither as a probe (RFC 8985 §7), nor because
        // a timer of a fifth of a second has ended (RFC 6298).
        from.namespace.sysctl("net/ipv4/tcp_early_retrans", "0").unwrap();
        // Routes into the tunnel are in a table of the site's own.
        let routes = from.run(&["ip", "route", "show", "table", "all", "match", &address.ip().to_string()]);
        let route = routes.lines().rfind(|route| route.contains("dev psmc")).expect("there is a route");
        let change = ["ip", "route", "change"].into_iter().chain(route.split_whitespace());
        from.run(&change.chain(["rto_min", RTO_MIN]).collect::<Vec<_>>());
        let listener = to.namespace.run(|| TcpListener::bind(address)).unwrap();
        let sending = from.namespace.run(|| TcpStream::connect(address)).unwrap();
        sending.set_nodelay(true).unwrap();
        let (mut receiving, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        Self {
            stop,
            sending: spawn(move || write_on(sending, interval, &until)),
            receiving: spawn(move || {
                let mut bytes = Vec::new();
                receiving.read_to_end(&mut bytes).unwrap();
                bytes.len()
            }),
        }
    }

    /// Ends the transfer, and says how many segments the kernel of its sender, on site `from`, has sent again.
    pub(crate) fn finish(self, from: &Site) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let (stream, sent) = self.sending.join().unwrap();
        let port = stream.local_addr().unwrap().port().to_string();
        let of_it = ["ss", "-tinH", "sport", "=", &port];
        // It knows of all of them as soon as the last block is acknowledged.
        super::wait_for("the last acknowledgement", Duration::from_secs(10), || {
            (!from.run(&of_it).contains("unacked:")).then_some(())
        });
        let said = from.run(&of_it);
        assert!(said.contains("bytes_acked:"), "{said}");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(self.receiving.join().unwrap(), sent);
        retransmissions(&said)
    }
}

/// What `ss` says as `retrans:` UNDER WAY `/` ALL OF THEM, if there were any.
fn retransmissions(said: &str) -> u64 {
    let counts = said.split_whitespace().find_map(|word| word.strip_prefix("retrans:"));
    counts.map_or(0, |counts| counts.split('/').nth(1).unwrap().parse().unwrap())
}

fn write_on(mut stream: TcpStream, interval: Duration, stop: &AtomicBool) -> (TcpStream, usize) {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&[0x5a; BLOCK]).unwrap();
        sent += BLOCK;
        sleep(interval);
    }
    (stream, sent)
}
