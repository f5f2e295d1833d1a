//! From the device to the network.

use std::array;
use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tun_rs::SyncDevice;

use super::{DATAGRAM, HEADER, MAX_PACKET, Sealer, is_some};

/// Enough for the largest packet.
const MAX_DATAGRAMS: usize = MAX_PACKET.div_ceil(DATAGRAM - HEADER - super::TAG);

/// As many as one system call takes: 65,507 bytes.
const BATCH: usize = 65_507 / DATAGRAM;

const SEGMENT: u16 = 1472;

pub(super) struct Sender {
    sealer: Sealer,
    packet: u32,
    datagrams: Vec<u8>,
}

impl Sender {
    pub(super) fn new(sealer: Sealer) -> Self {
        Self { sealer, packet: 0, datagrams: vec![0; MAX_DATAGRAMS * DATAGRAM] }
    }

    /// Carries one packet; says whether there was one.
    pub(super) fn carry(&mut self, device: &SyncDevice, socket: &UdpSocket) -> Result<bool, Box<dyn Error>> {
        let overhead = self.sealer.overhead();
        let room = DATAGRAM - HEADER - overhead;
        let mut rooms =
            self.datagrams.chunks_exact_mut(DATAGRAM).map(|datagram| &mut datagram[HEADER..][..room]);
        let mut slices: [IoSliceMut<'_>; MAX_DATAGRAMS] =
            array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let Some(len) = is_some(device.recv_vectored(&mut slices))? else { return Ok(false) };
        let count = len.div_ceil(room);
        self.packet = self.packet.wrapping_add(1);
        let mut rest = len;
        for (nth, datagram) in self.datagrams.chunks_exact_mut(DATAGRAM).take(count).enumerate() {
            datagram[..4].copy_from_slice(&self.packet.to_be_bytes());
            datagram[4] = u8::try_from(nth)?;
            datagram[5] = u8::try_from(count)?;
            self.sealer.seal(&mut datagram[..HEADER + rest.min(room) + overhead]);
            rest = rest.saturating_sub(room);
        }
        let end = len + count * (HEADER + overhead);
        for batch in self.datagrams[..end].chunks(BATCH * DATAGRAM) {
            let segments = ControlMessage::UdpGsoSegments(&SEGMENT);
            let control = if batch.len() > DATAGRAM { std::slice::from_ref(&segments) } else { &[] };
            // What the socket has no room for is lost.
            let _ = sendmsg::<()>(
                socket.as_raw_fd(),
                &[IoSlice::new(batch)],
                control,
                MsgFlags::MSG_DONTWAIT,
                None,
            );
        }
        Ok(true)
    }
}
