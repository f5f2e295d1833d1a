//! Sending, with the kernel's generic segmentation offload.
//!
//! `quinn-udp` can send too, but gives up offload and congestion marks for good after one `EINVAL`, which is what
//! a source address that has left its interface yields: everyday life for a socket of many paths.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};

use nix::libc::{
    EADDRNOTAVAIL, EHOSTDOWN, EHOSTUNREACH, EINVAL, EIO, EMSGSIZE, ENETDOWN, ENETUNREACH, ENODEV, EPERM,
};
use socket2::{MsgHdr, SockAddr};

use super::control::Control;
use super::control::mapped;
use super::{Ecn, UdpPort};

/// How many segments one offloaded write may have (`UDP_MAX_SEGMENTS`, 64 until Linux 6.7).
const MAX_SEGMENTS: usize = 64;

/// How many bytes one write may have: the largest IP packet less the headers of IPv6 and UDP.
const MAX_WRITE: usize = 65535 - 40 - 8;

/// Datagrams to be sent to one peer.
#[derive(Debug, Clone)]
pub struct Transmit<'a> {
    /// To whom.
    pub remote: SocketAddr,
    /// The address of ours from which; `None` leaves it to the routes.
    pub local_ip: Option<IpAddr>,
    /// The congestion mark.
    pub ecn: Ecn,
    /// Cut `contents` into datagrams of this many bytes, of which the last may be shorter; `None` is one datagram.
    pub segment_size: Option<usize>,
    /// Whether each datagram is given to the kernel by itself.
    pub apart: bool,
    /// The bytes. Nothing is sent when there are none.
    pub contents: &'a [u8],
}

/// What was not sent of a [`Transmit`], and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot send beyond byte {sent}: {failure}")]
pub struct SendError {
    /// So many bytes of the contents, whole segments, had been sent before.
    pub sent: usize,
    /// Why no more.
    #[source]
    pub failure: SendFailure,
}

/// Why a datagram was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendFailure {
    /// The socket's buffer is full: see [`UdpPort::poll_writable`].
    #[error("the socket's buffer is full")]
    WouldBlock,
    /// The datagram is larger than the interface takes. We never let the kernel fragment.
    #[error("the datagram is larger than the interface's MTU")]
    TooBig,
    /// There is no way to the peer just now: no route, the link is down, a firewall forbids it, or the local
    /// address is gone. A hint that the path is down.
    #[error("no route to the peer")]
    Unreachable(#[source] io::Error),
    /// Any other error of the kernel.
    #[error("the kernel refused the datagram")]
    Other(#[source] io::Error),
}

impl UdpPort {
    /// Sends, without waiting.
    ///
    /// # Errors
    /// [`SendError`]. Its `sent` says with which byte to go on; skipping one segment from there is right after
    /// everything but [`SendFailure::WouldBlock`].
    pub fn try_send(&self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        let remote = if self.is_v6() { mapped(transmit.remote) } else { transmit.remote };
        let to_v4 = transmit.remote.ip().to_canonical().is_ipv4();
        let envelope = Envelope {
            port: self,
            remote: SockAddr::from(remote),
            control: Control::new(to_v4, transmit.ecn, transmit.local_ip),
        };
        let segment_size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let most = if transmit.apart { 1 } else { MAX_SEGMENTS };
        let segments_per_write = (MAX_WRITE / segment_size).clamp(1, most);
        let in_chunks_of = segment_size * segments_per_write;
        in_turn(transmit.contents, in_chunks_of, |chunk| envelope.send_segments(chunk, segment_size))
    }
}

/// All that the datagrams of a [`Transmit`] have in common.
struct Envelope<'a> {
    port: &'a UdpPort,
    remote: SockAddr,
    control: Control,
}

impl Envelope<'_> {
    fn send_segments(&self, chunk: &[u8], segment_size: usize) -> Result<(), SendError> {
        let offload = u16::try_from(segment_size).ok().filter(|_| chunk.len() > segment_size);
        let Some(offload) = offload else {
            return self.send_one(chunk);
        };
        match self.write(chunk, &self.control.with_segment_size(offload)) {
            // Some devices cannot compute the checksums that offload needs. Asking again each time costs one system
            // call in a batch, and leaves the other devices their offload.
            Err(error) if matches!(error.raw_os_error(), Some(EIO | EINVAL)) => {
                in_turn(chunk, segment_size, |datagram| self.send_one(datagram))
            }
            outcome => outcome.map_err(SendError::from),
        }
    }

    fn send_one(&self, datagram: &[u8]) -> Result<(), SendError> {
        Ok(self.write(datagram, &self.control)?)
    }

    fn write(&self, bytes: &[u8], control: &Control) -> io::Result<()> {
        let buffers = [IoSlice::new(bytes)];
        let mut message = MsgHdr::new().with_addr(&self.remote).with_buffers(&buffers);
        if !control.as_bytes().is_empty() {
            message = message.with_control(control.as_bytes());
        }
        // A datagram is sent as a whole or not at all, so its length says nothing new.
        self.port.socket.get().sendmsg(&message, 0).map(drop)
    }
}

impl SendFailure {
    /// Whether the reason may be that the address to send from is not, or no longer, one of ours.
    #[must_use]
    pub fn may_be_of_source(&self) -> bool {
        let Self::Unreachable(error) = self else { return false };
        matches!(error.raw_os_error(), Some(EINVAL | EADDRNOTAVAIL))
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self { sent: 0, failure: SendFailure::from(error) }
    }
}

impl From<io::Error> for SendFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::WouldBlock {
            return Self::WouldBlock;
        }
        match error.raw_os_error() {
            Some(EMSGSIZE) => Self::TooBig,
            // EINVAL is how the kernel says that the source address is not, or no longer, ours; EPERM is netfilter.
            Some(
                ENETUNREACH | EHOSTUNREACH | ENETDOWN | EHOSTDOWN | ENODEV | EADDRNOTAVAIL | EINVAL | EPERM,
            ) => Self::Unreachable(error),
            _ => Self::Other(error),
        }
    }
}

/// Sends `contents` by pieces of `size` bytes, counting what was sent before an error.
fn in_turn(
    contents: &[u8],
    size: usize,
    send: impl Fn(&[u8]) -> Result<(), SendError>,
) -> Result<(), SendError> {
    let mut before = 0;
    for piece in contents.chunks(size) {
        send(piece).map_err(|error| SendError { sent: before + error.sent, ..error })?;
        before += piece.len();
    }
    Ok(())
}
