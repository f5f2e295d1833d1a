//! From the network to the device.

use std::error::Error;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use tun_rs::SyncDevice;

use super::{DATAGRAM, HEADER, Sealer, is_some};

/// The most that one system call brings.
const MAX_BATCH: usize = 65_535;

/// Batches that one packet may be spread over, and one more.
const BATCHES: usize = 4;

pub(super) struct Receiver {
    sealer: Sealer,
    bytes: Vec<u8>,
    /// Where the next batch goes.
    at: usize,
    packet: [u8; 4],
    /// Where the parts of the packet are that have arrived.
    parts: Vec<Range<usize>>,
}

impl Receiver {
    pub(super) fn new(sealer: Sealer) -> Self {
        Self { sealer, bytes: vec![0; BATCHES * MAX_BATCH], at: 0, packet: [0; 4], parts: Vec::new() }
    }

    /// Carries one batch of datagrams; says whether there was one.
    pub(super) fn carry(&mut self, socket: &UdpSocket, device: &SyncDevice) -> Result<bool, Box<dyn Error>> {
        if self.at + MAX_BATCH > self.bytes.len() {
            self.compact();
        }
        let batch = self.at..self.at + MAX_BATCH;
        let Some((len, size)) = is_some(receive(socket, &mut self.bytes[batch]))? else { return Ok(false) };
        for offset in (0..len).step_by(size.max(1)) {
            let start = self.at + offset;
            self.take(start..start + size.min(len - offset), device);
        }
        self.at = if self.parts.is_empty() { 0 } else { self.at + len };
        Ok(true)
    }

    /// Makes room behind the packet that is not complete.
    fn compact(&mut self) {
        let from = self.parts.first().map_or(self.at, |part| part.start);
        self.bytes.copy_within(from..self.at, 0);
        self.parts.iter_mut().for_each(|part| *part = part.start - from..part.end - from);
        self.at -= from;
    }

    fn take(&mut self, datagram: Range<usize>, device: &SyncDevice) {
        let bytes = &mut self.bytes[datagram.clone()];
        if bytes.len() < HEADER + self.sealer.overhead() || !self.sealer.open(bytes) {
            return;
        }
        let &mut [p0, p1, p2, p3, nth, count, ..] = bytes else { return };
        let packet = [p0, p1, p2, p3];
        if nth == 0 || packet != self.packet {
            self.parts.clear();
            self.packet = packet;
        }
        if usize::from(nth) != self.parts.len() {
            return self.parts.clear();
        }
        self.parts.push(datagram.start + HEADER..datagram.end - self.sealer.overhead());
        if nth + 1 == count {
            let slices: Vec<_> =
                self.parts.iter().map(|part| IoSlice::new(&self.bytes[part.clone()])).collect();
            // What the kernel refuses is lost.
            let _ = device.send_vectored(&slices);
            self.parts.clear();
        }
    }
}

/// Bytes received, and how many of them are a datagram.
fn receive(socket: &UdpSocket, room: &mut [u8]) -> io::Result<(usize, usize)> {
    let mut control = cmsg_space!(i32);
    let mut slices = [IoSliceMut::new(room)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::MSG_DONTWAIT)?;
    let size = |control| {
        let ControlMessageOwned::UdpGroSegments(size) = control else { return None };
        usize::try_from(size).ok()
    };
    let sizes = message.cmsgs()?.find_map(size);
    Ok((message.bytes, sizes.unwrap_or(message.bytes.min(DATAGRAM))))
}
