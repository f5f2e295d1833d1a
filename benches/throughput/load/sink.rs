//! The program that counts what arrives.

use std::error::Error;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, setsockopt, sockopt};
use serde_json::json;

use super::{CALL, Load, SOCKET_BUFFER};

/// Prints [`LISTENING`], then, when nothing comes any more, how many datagrams have come, and over how many seconds.
#[derive(Parser)]
pub(crate) struct UdpSink {
    local: SocketAddr,
    #[command(flatten)]
    load: Load,
    /// How long they are sent.
    #[arg(long)]
    seconds: f64,
}

/// What the sink says when it may be sent to.
pub(crate) const LISTENING: &str = "listening";

/// Nothing is on its way any more when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(300);

/// The first datagram is there after that, or none.
const PATIENCE: Duration = Duration::from_secs(3);

/// The largest piece that the kernel gives.
const PIECE: usize = 1 << 16;

/// Pieces of one system call.
const PIECES: usize = 8;

/// What has come.
#[derive(Default)]
struct Arrivals {
    bytes: usize,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl UdpSink {
    /// Counts until all has come.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let socket = UdpSocket::bind(self.local)?;
        socket.set_read_timeout(Some(QUIET))?;
        setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER)?;
        setsockopt(&socket, sockopt::UdpGroSegment, &self.load.offload)?;
        let mut room =
            if self.load.offload { Room::new(PIECES, PIECE) } else { Room::new(CALL, self.load.payload) };
        println!("{LISTENING}");
        let (start, mut arrivals) = (Instant::now(), Arrivals::default());
        loop {
            match room.receive(&socket) {
                Ok(bytes) => arrivals.note(bytes),
                Err(Errno::EAGAIN) if self.is_over(start, &arrivals) => break,
                Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let datagrams = arrivals.bytes / self.load.payload;
        println!("{}", json!({ "datagrams": datagrams, "seconds": arrivals.seconds() }));
        Ok(())
    }

    /// Whether nothing more is to be expected, nothing having come for a while.
    fn is_over(&self, start: Instant, arrivals: &Arrivals) -> bool {
        let sending = Duration::from_secs_f64(self.seconds);
        match arrivals.first {
            Some(first) => first.elapsed() > sending,
            None => start.elapsed() > PATIENCE + sending,
        }
    }
}

impl Arrivals {
    fn note(&mut self, bytes: usize) {
        let now = Instant::now();
        self.bytes += bytes;
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn seconds(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return 0.0 };
        last.duration_since(first).as_secs_f64()
    }
}

/// Where datagrams are received.
struct Room {
    bytes: Vec<u8>,
    piece: usize,
    headers: MultiHeaders<()>,
}

impl Room {
    fn new(pieces: usize, piece: usize) -> Self {
        Self { bytes: vec![0; pieces * piece], piece, headers: MultiHeaders::preallocate(pieces, None) }
    }

    /// Waits for datagrams and takes those that are there; says how many bytes they have.
    fn receive(&mut self, socket: &UdpSocket) -> nix::Result<usize> {
        let pieces = self.bytes.chunks_exact_mut(self.piece);
        let mut slices = pieces.map(|piece| [IoSliceMut::new(piece)]).collect::<Vec<_>>();
        let flags = MsgFlags::MSG_WAITFORONE;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None)?;
        Ok(received.map(|message| message.bytes).sum())
    }
}
