//! One session through a forwarder: a socket at each of its ends.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use psmc_testbed::netns::Namespace;

use crate::load::Load;

/// What a forwarder wants in front of each datagram.
pub(crate) trait Envelope {
    /// Its length in bytes.
    fn len(&self) -> usize;

    /// Writes it at the head of a datagram, the rest of which is there.
    fn write(&mut self, datagram: &mut [u8]);
}

/// One session.
pub(crate) struct Lane {
    pub(crate) near: UdpSocket,
    pub(crate) far: UdpSocket,
    envelope: Box<dyn Envelope>,
    run: Vec<u8>,
}

/// The first byte of what relays hand on: the kind of a session's datagram.
const FIRST_BYTE: u8 = 0x50;

/// Where the time of sending stands, behind the header that relays look at.
const SENT_AT: std::ops::Range<usize> = 16..24;

/// More than ever waits: the kernel's own limit would drop.
const SOCKET_BUFFER: usize = 8 << 20;

impl Lane {
    /// A session between two sockets, the near one of which is connected to its forwarder.
    pub(crate) fn new(
        near: UdpSocket,
        far: UdpSocket,
        envelope: Box<dyn Envelope>,
    ) -> Result<Self, Box<dyn Error>> {
        setsockopt(&far, sockopt::UdpGroSegment, &true)?;
        setsockopt(&far, sockopt::RcvBufForce, &SOCKET_BUFFER)?;
        far.set_nonblocking(true)?;
        Ok(Self { near, far, envelope, run: Vec::new() })
    }

    /// Makes the socket ready to send runs of this load.
    pub(crate) fn prepare(&mut self, load: Load) -> Result<(), Box<dyn Error>> {
        let each = self.envelope.len() + load.size;
        self.run = vec![0; each * load.burst];
        let segment = if load.burst == 1 { 0 } else { i32::try_from(each)? };
        Ok(setsockopt(&self.near, sockopt::UdpGsoSegment, &segment)?)
    }

    /// Sends a run, stamped with a time, with one system call.
    pub(crate) fn send(&mut self, load: Load, now_ns: u64) -> Result<(), Box<dyn Error>> {
        let head = self.envelope.len();
        for datagram in self.run.chunks_exact_mut(head + load.size) {
            datagram[head] = FIRST_BYTE;
            datagram[head..][SENT_AT].copy_from_slice(&now_ns.to_be_bytes());
            self.envelope.write(datagram);
        }
        self.near.send(&self.run).map_err(|error| format!("cannot send to the forwarder: {error}"))?;
        Ok(())
    }

    /// Takes what has arrived at the far end, and has `each` see when every datagram was sent; says how many there were.
    pub(crate) fn receive(
        &self,
        load: Load,
        buffer: &mut [u8],
        mut each: impl FnMut(u64),
    ) -> Result<u64, Box<dyn Error>> {
        let mut count = 0;
        loop {
            let length = match self.far.recv(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error.into()),
            };
            for datagram in buffer[..length].chunks_exact(load.size) {
                let mut sent_at = [0; 8];
                sent_at.copy_from_slice(&datagram[SENT_AT]);
                each(u64::from_be_bytes(sent_at));
                count += 1;
            }
        }
    }
}

/// A socket of a host, connected if it is said to whom.
pub(crate) fn socket(
    host: &Namespace,
    address: Ipv4Addr,
    to: Option<SocketAddr>,
) -> Result<UdpSocket, Box<dyn Error>> {
    let made = host.run(|| {
        let socket = UdpSocket::bind((address, 0))?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        Ok::<_, std::io::Error>(socket)
    });
    Ok(made?)
}
