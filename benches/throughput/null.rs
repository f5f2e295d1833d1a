//! One end of the null tunnel, the limit that tunnels are compared with.
//!
//! It reads a packet of up to 64 KiB from the TUN device straight into the places of its datagrams, seals these in place
//! if it is told to, and sends them with one system call; the far end opens them in place and writes them from where
//! they are. No byte is copied in user space, nothing is scheduled, measured, ordered or repaired, and a packet of which
//! a datagram is lost is lost. It is no tunnel for anybody to use: the key is known, and peers are not checked.

mod receiver;
mod sender;

use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use clap::{Parser, ValueEnum};
use ipnet::IpNet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use tun_rs::{DeviceBuilder, SyncDevice};

use receiver::Receiver;
use sender::Sender;

use crate::tunnels::{MTU, SOCKET_BUFFER};

/// The most that an Ethernet frame of usual size has room for behind the headers of IPv4 and UDP.
const DATAGRAM: usize = 1472;

/// Number of the packet (32 bits), number of the datagram in it, how many it has, and two bytes of nothing.
const HEADER: usize = 8;

/// Of AES-GCM.
const TAG: usize = 16;

/// The largest packet, with what the kernel says of it in front.
const MAX_PACKET: usize = 65_535 + 10;

/// Reads of either side before the other's turn.
const READS: usize = 8;

/// What protects the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cipher {
    None,
    Aes256Gcm,
}

/// One end: runs until it is killed.
#[derive(Parser)]
pub(crate) struct NullEnd {
    /// Of the device.
    address: IpNet,
    /// Where to listen.
    local: SocketAddr,
    /// The far end.
    remote: SocketAddr,
    cipher: Cipher,
}

/// Seals and opens, or does nothing.
struct Sealer(Option<LessSafeKey>);

impl Sealer {
    fn new(cipher: Cipher) -> Result<Self, Box<dyn Error>> {
        let key = || UnboundKey::new(&AES_256_GCM, &[7; 32]).map(LessSafeKey::new);
        Ok(Self(match cipher {
            Cipher::None => None,
            Cipher::Aes256Gcm => Some(key().map_err(|_| "no key")?),
        }))
    }

    /// Bytes that a datagram is longer for it.
    fn overhead(&self) -> usize {
        if self.0.is_some() { TAG } else { 0 }
    }

    /// Seals a datagram, at whose end there is room for the tag.
    fn seal(&self, datagram: &mut [u8]) {
        let Some(key) = &self.0 else { return };
        let (header, rest) = datagram.split_at_mut(HEADER);
        let (bytes, tag) = rest.split_at_mut(rest.len() - TAG);
        if let Ok(sealed) = key.seal_in_place_separate_tag(nonce(header), Aad::from(&*header), bytes) {
            tag.copy_from_slice(sealed.as_ref());
        }
    }

    /// Opens a datagram; says whether it is authentic.
    fn open(&self, datagram: &mut [u8]) -> bool {
        let Some(key) = &self.0 else { return true };
        let (header, rest) = datagram.split_at_mut(HEADER);
        key.open_in_place(nonce(header), Aad::from(&*header), rest).is_ok()
    }
}

/// Never the same for two datagrams of a run, and that is all that the cost depends on.
fn nonce(header: &[u8]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..HEADER].copy_from_slice(header);
    Nonce::assume_unique_for_key(nonce)
}

impl NullEnd {
    /// Carries packets.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let address = self.address.addr();
        let device = DeviceBuilder::new().name("null0").offload(true).mtu(MTU);
        let device = device.ipv4(address.to_string(), self.address.prefix_len(), None).build_sync()?;
        device.set_nonblocking(true)?;
        let socket = UdpSocket::bind(self.local)?;
        socket.connect(self.remote)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
        setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER)?;
        setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER)?;
        let mut sender = Sender::new(Sealer::new(self.cipher)?);
        let mut receiver = Receiver::new(Sealer::new(self.cipher)?);
        loop {
            wait(&device, &socket)?;
            for _ in 0..READS {
                if !sender.carry(&device, &socket)? {
                    break;
                }
            }
            for _ in 0..READS {
                if !receiver.carry(&socket, &device)? {
                    break;
                }
            }
        }
    }
}

fn wait(device: &SyncDevice, socket: &UdpSocket) -> Result<(), Box<dyn Error>> {
    let fds = [device.as_fd(), socket.as_fd()];
    poll(&mut fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)), PollTimeout::NONE)?;
    Ok(())
}

/// Whether there was something; nothing to be read is no error, nor is a far end that does not listen yet.
fn is_some<T>(outcome: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
