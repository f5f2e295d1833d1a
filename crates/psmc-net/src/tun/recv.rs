//! From the kernel: one read, many packets.

use std::array;
use std::io::{self, IoSliceMut};
use std::mem;
use std::task::{Context, Poll};

use psmc_wire::buf::{BufPool, HEADROOM, PacketBuf};
use tun_rs::SyncDevice;

use super::cut::{Cutter, Layout, MAX_HEADER, layout, settle_checksum};
use super::header::{self, Kind, Offload};
use super::{MAX_SEGMENTS, Tun};

/// The largest IP packet.
const MAX_PACKET: usize = 65535;

/// How many unusable packets one call skips, so that it ends even while there is nothing else.
const MAX_SKIPPED: usize = 16;

/// After so many packets in a row that stand for themselves alone no other is foreseen.
const MAX_SINGLE: u32 = 8;

impl Tun {
    /// Takes one packet from the kernel, cut into the packets it stands for, and appends these to `out`.
    ///
    /// Returns how many these are. Each is in a buffer of `pool`, whose capacity must not be below the MTU; some of its
    /// buffers stay with the device. Checksums that the kernel has left to its device stay partial. Zero, when the
    /// kernel had only packets that make no sense, is no end: call again. So it must be called again after every
    /// `Ready`.
    ///
    /// # Errors
    /// Those of the device, which is then of no more use: most often, that it was removed.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) -> Poll<io::Result<usize>> {
        self.device.poll_recv(cx, |device| self.reader.read_usable(device, pool, out))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and those of the device.
    pub fn try_recv(&mut self, pool: &mut BufPool, out: &mut Vec<PacketBuf>) -> io::Result<usize> {
        self.reader.read_usable(self.device.get(), pool, out)
    }
}

/// Reads and cuts.
///
/// A bulk transfer consists of packets that are cut alike. So the kernel is told beforehand to put each piece where it
/// belongs, in a buffer of its own behind room for its headers; only when that was a mistake the bytes are moved.
pub(super) struct Reader {
    /// Buffers for pieces; each is replaced as soon as it is given away. Empty until first used.
    parts: Box<[PacketBuf; MAX_SEGMENTS]>,
    /// The headers of a packet that is cut as foreseen.
    header: Box<[u8; MAX_HEADER]>,
    /// A packet in one piece.
    whole: Box<[u8]>,
    foreseen: Option<Layout>,
    /// Packets in a row that stood for themselves alone.
    singles: u32,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            parts: Box::new(array::from_fn(|_| PacketBuf::default())),
            header: Box::new([0; MAX_HEADER]),
            whole: vec![0; MAX_PACKET].into_boxed_slice(),
            foreseen: None,
            singles: 0,
        }
    }

    /// Reads until a packet makes sense, and appends those that it stands for to `out`. Returns how many these are.
    fn read_usable(
        &mut self,
        device: &SyncDevice,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) -> io::Result<usize> {
        let before = out.len();
        for _ in 0..MAX_SKIPPED {
            self.read(device, pool, out)?;
            if out.len() > before {
                break;
            }
            tracing::trace!("unusable packet from the kernel");
        }
        Ok(out.len() - before)
    }

    /// Reads one packet and appends those that it stands for to `out`; none if it makes no sense.
    fn read(&mut self, device: &SyncDevice, pool: &mut BufPool, out: &mut Vec<PacketBuf>) -> io::Result<()> {
        let mut offload = [0; header::OFFLOAD_LEN];
        let len = match self.foreseen {
            Some(layout) => self.read_pieces(device, layout, &mut offload, pool)?,
            None => device
                .recv_vectored(&mut [IoSliceMut::new(&mut offload), IoSliceMut::new(&mut self.whole)])?,
        };
        let len = len.saturating_sub(header::OFFLOAD_LEN);
        let offload = Offload::decode(&offload);
        if offload.kind != Kind::Single {
            self.singles = 0;
            self.cut(&offload, len, pool, out);
            return Ok(());
        }
        self.take_single(&offload, len, pool, out);
        self.singles += 1;
        if self.singles >= MAX_SINGLE {
            self.foreseen = None;
        }
        Ok(())
    }

    fn read_pieces(
        &mut self,
        device: &SyncDevice,
        Layout { header_len, piece }: Layout,
        offload: &mut [u8],
        pool: &mut BufPool,
    ) -> io::Result<usize> {
        let count = (MAX_PACKET - header_len).div_ceil(piece);
        let parts = &mut self.parts[..count.min(MAX_SEGMENTS)];
        for part in parts.iter_mut().filter(|part| part.capacity() == 0) {
            *part = pool.take();
        }
        let start = HEADROOM + header_len;
        let front = [offload, &mut self.header[..header_len]];
        let pieces = parts.iter_mut().map(|part| &mut part.storage_mut()[start..start + piece]);
        let mut rooms = front.into_iter().chain(pieces).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; MAX_SEGMENTS + 2] =
            array::from_fn(|_| rooms.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        device.recv_vectored(&mut slices[..count + 2])
    }

    /// Cuts a packet of `len` bytes, which may stand in pieces already.
    fn cut(&mut self, offload: &Offload, len: usize, pool: &mut BufPool, out: &mut Vec<PacketBuf>) {
        let front = match self.foreseen {
            Some(foreseen) => &self.header[..foreseen.header_len.min(len)],
            None => &self.whole[..len],
        };
        let found = layout(offload, front);
        if self.foreseen.is_some() && found == self.foreseen {
            return self.complete_pieces(offload, len, pool, out);
        }
        self.join(len);
        self.foreseen = None;
        let Some(found) = layout(offload, &self.whole[..len]) else { return };
        self.copy_pieces(offload, found, len, pool, out);
        let is_foreseeable = found.header_len + found.piece <= pool.packet_capacity()
            && found.header_len + found.piece * MAX_SEGMENTS >= MAX_PACKET;
        self.foreseen = Some(found).filter(|_| is_foreseeable);
    }

    /// The pieces stand where they belong.
    fn complete_pieces(
        &mut self,
        offload: &Offload,
        len: usize,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) {
        let Some(layout) = self.foreseen else { return };
        let Some(cutter) = Cutter::new(self.header.as_slice(), layout, offload) else { return };
        let mut rest = len.saturating_sub(layout.header_len);
        for (nth, part) in self.parts.iter_mut().enumerate() {
            let piece = rest.min(layout.piece);
            if piece == 0 {
                break;
            }
            rest -= piece;
            let mut packet = mem::replace(part, pool.take());
            cutter.complete(nth, piece, rest == 0, &mut packet);
            out.push(packet);
        }
    }

    fn copy_pieces(
        &self,
        offload: &Offload,
        layout: Layout,
        len: usize,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) {
        let Some(cutter) = Cutter::new(&self.whole[..len], layout, offload) else { return };
        let pieces = self.whole[layout.header_len..len].chunks(layout.piece);
        let last = pieces.len().saturating_sub(1);
        for (nth, piece) in pieces.enumerate() {
            let mut packet = pool.take();
            packet.reserve(layout.header_len + piece.len());
            packet.set_len(layout.header_len + piece.len());
            packet.packet_mut()[layout.header_len..].copy_from_slice(piece);
            cutter.complete(nth, piece.len(), nth == last, &mut packet);
            out.push(packet);
        }
    }

    fn take_single(&mut self, offload: &Offload, len: usize, pool: &mut BufPool, out: &mut Vec<PacketBuf>) {
        self.join(len);
        if len == 0 {
            return;
        }
        let mut packet = pool.take();
        packet.fill(&self.whole[..len]);
        settle_checksum(offload, &mut packet);
        out.push(packet);
    }

    /// Puts a packet of `len` bytes that was read in pieces together.
    fn join(&mut self, len: usize) {
        let Some(Layout { header_len, piece }) = self.foreseen else { return };
        let Some((header, rest)) = self.whole[..len].split_at_mut_checked(header_len) else {
            return self.whole[..len].copy_from_slice(&self.header[..len]);
        };
        header.copy_from_slice(&self.header[..header_len]);
        for (room, part) in rest.chunks_mut(piece).zip(self.parts.iter_mut()) {
            room.copy_from_slice(&part.storage_mut()[HEADROOM + header_len..][..room.len()]);
        }
    }
}

#[cfg(test)]
mod tests;
