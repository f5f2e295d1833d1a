//! A port for measuring: what an interface sends and what it receives, with the time at which the kernel had each.

use std::io::{self, IoSlice};

use nix::libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
use socket2::{Domain, SockFilter, Socket, Type};

use super::ring::Ring;
use super::{Frame, PacketError, bind, bind_for, lost, opened, send, widen};

/// Bytes that are kept of each frame: headers, and the first bytes of UDP.
const KEPT: usize = 64;

/// Sends frames through one Ethernet interface, and sees those that it sends and receives that are UDP over IPv4 (without
/// options) to one port: the first 64 bytes of each.
///
/// Frames that are sent pass the queue of the interface, and are seen as the driver gets them. It belongs to the namespace of
/// the thread that opens it, wherever it is used later.
#[derive(Debug)]
pub struct Meter {
    ring: Ring,
    tap: Socket,
    sender: Socket,
}

impl Meter {
    /// Opens one for what is sent to this port of UDP.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn open(interface: &str, udp_port: u16) -> Result<Self, PacketError> {
        opened(interface, |index| {
            let tap = Socket::new(Domain::PACKET, Type::RAW, None)?;
            tap.attach_filter(&filter(udp_port))?;
            let ring = Ring::map(&tap, KEPT)?;
            bind(&tap, index)?;
            // The kernel shows a socket nothing of what the socket itself has sent.
            let sender = Socket::new(Domain::PACKET, Type::RAW, None)?;
            widen(&sender)?;
            bind_for(&sender, index, 0)?;
            Ok(Self { ring, tap, sender })
        })
    }

    /// The next frame that was sent or received, in the order in which the kernel had them; `None` if there is no more.
    pub fn recv(&mut self) -> Option<Frame<'_>> {
        self.ring.take()
    }

    /// Sends these frames, in order, and returns how many the interface took; it takes none while it is down.
    #[must_use]
    pub fn send(&self, frames: &[IoSlice<'_>]) -> usize {
        send(&self.sender, frames)
    }

    /// How many frames were not seen since the last call, for nobody had read those before.
    ///
    /// # Errors
    /// Those of the socket itself.
    pub fn lost(&self) -> io::Result<u32> {
        lost(&self.tap)
    }
}

/// Offsets in a frame of UDP over IPv4 without options.
const ETHERTYPE_AT: u32 = 12;
const PROTOCOL_AT: u32 = 14 + 9;
const PORT_AT: u32 = 14 + 20 + 2;

const IPV4: u32 = 0x0800;
const UDP: u32 = 17;

/// Three fields must be as they should; the last number of a jump is how many instructions are left out if they are not.
fn filter(udp_port: u16) -> [SockFilter; 8] {
    let load = |size, at| instruction(BPF_LD | size | BPF_ABS, 0, at);
    let skip_unless = |value, skipped| instruction(BPF_JMP | BPF_JEQ | BPF_K, skipped, value);
    [
        load(BPF_H, ETHERTYPE_AT),
        skip_unless(IPV4, 5),
        load(BPF_B, PROTOCOL_AT),
        skip_unless(UDP, 3),
        load(BPF_H, PORT_AT),
        skip_unless(udp_port.into(), 1),
        instruction(BPF_RET | BPF_K, 0, u32::try_from(KEPT).unwrap_or(u32::MAX)),
        instruction(BPF_RET | BPF_K, 0, 0),
    ]
}

fn instruction(code: u32, skipped_unless: u8, value: u32) -> SockFilter {
    SockFilter::new(u16::try_from(code).unwrap_or(0), 0, skipped_unless, value)
}
