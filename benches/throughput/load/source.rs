//! The program that offers datagrams.

use std::error::Error;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, sendmmsg, sendmsg, setsockopt, sockopt};
use serde_json::json;

use super::{CALL, Load, SOCKET_BUFFER};

/// Offers datagrams for some time, and prints how many of them the kernel has taken, in how many seconds.
#[derive(Parser)]
pub(crate) struct UdpSource {
    remote: SocketAddr,
    #[command(flatten)]
    load: Load,
    /// Datagrams per second; as many as possible, if there is none.
    #[arg(long)]
    rate: Option<f64>,
    #[arg(long)]
    seconds: f64,
}

/// The time from one look at the clock to the next, which is what datagrams come in bursts of.
const PAUSE: Duration = Duration::from_micros(200);

/// What should have been sent longer ago than this is not sent any more: it would come as a burst that nobody has asked for.
const MAX_LATE: Duration = Duration::from_millis(2);

impl UdpSource {
    /// Sends all of it.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(self.remote)?;
        setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER)?;
        let bytes = vec![0; self.load.payload * self.load.batch()];
        let mut pace = Pace::new(self.rate, self.load.batch());
        let mut sent = 0;
        while pace.seconds() < self.seconds {
            match pace.due() {
                // In one piece only a whole one.
                due if due == 0 || self.load.offload && due < self.load.batch() => thread::sleep(PAUSE),
                due => {
                    let taken = self.send(&socket, &bytes, due)?;
                    pace.note(taken);
                    sent += taken;
                }
            }
        }
        println!("{}", json!({ "datagrams": sent, "seconds": pace.seconds() }));
        Ok(())
    }

    /// Sends so many datagrams at once, of which there are `bytes`; says how many the kernel has taken.
    fn send(&self, socket: &UdpSocket, bytes: &[u8], count: usize) -> nix::Result<usize> {
        let outcome = if self.load.offload {
            send_piece(socket, bytes, self.load.payload).map(|()| count)
        } else {
            send_singly(socket, &bytes[..self.load.payload], count)
        };
        match outcome {
            // The far end is not there for the moment, or a queue is full.
            Err(Errno::ECONNREFUSED | Errno::ENOBUFS | Errno::EAGAIN) => Ok(0),
            outcome => outcome,
        }
    }
}

/// Sends `bytes` to be cut into datagrams of `payload` bytes.
fn send_piece(socket: &UdpSocket, bytes: &[u8], payload: usize) -> nix::Result<()> {
    let size = u16::try_from(payload).map_err(|_| Errno::EMSGSIZE)?;
    let control = [ControlMessage::UdpGsoSegments(&size)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::empty(), None).map(drop)
}

/// Sends `count` datagrams, [`CALL`] at most.
fn send_singly(socket: &UdpSocket, payload: &[u8], count: usize) -> nix::Result<usize> {
    let slices = [[IoSlice::new(payload)]; CALL];
    let (addresses, control): (_, [ControlMessage<'_>; 0]) = ([None::<()>; CALL], []);
    let mut headers = MultiHeaders::preallocate(CALL, None);
    let slices = slices[..count].iter();
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, slices, addresses, control, MsgFlags::empty())?;
    Ok(sent.count())
}

/// When how many datagrams are to be sent.
struct Pace {
    start: Instant,
    /// Per second.
    rate: Option<f64>,
    batch: usize,
    /// Datagrams of which nothing more is to be done: sent, or too late.
    done: f64,
}

impl Pace {
    fn new(rate: Option<f64>, batch: usize) -> Self {
        Self { start: Instant::now(), rate, batch, done: 0.0 }
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// How many there are to be sent at this moment, a batch at most.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from zero to a batch"
    )]
    fn due(&mut self) -> usize {
        let Some(rate) = self.rate else { return self.batch };
        let due = self.seconds() * rate;
        // A batch is always allowed, or at a low rate none would ever be whole.
        let most = (rate * MAX_LATE.as_secs_f64()).max(self.batch as f64);
        self.done = self.done.max(due - most);
        ((due - self.done) as usize).min(self.batch)
    }

    fn note(&mut self, sent: usize) {
        self.done += sent as f64;
    }
}
