//! Packets made up for the tests.

use psmc_wire::buf::PacketBuf;
use tun_rs::{checksum, checksum_no_fold};

const ACK: u8 = 0x10;
pub(super) const PUSH: u8 = 0x18;
pub(super) const FIN: u8 = 0x11;
pub(super) const MSS: usize = 1000;

/// A packet under construction: IPv4 or IPv6, TCP with a timestamp option or UDP, all checksums right.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) is_v6: bool,
    pub(super) is_tcp: bool,
    pub(super) port: u8,
    pub(super) identification: u8,
    pub(super) dont_fragment: bool,
    pub(super) sequence: u32,
    pub(super) flags: u8,
    pub(super) payload: usize,
}

pub(super) const TCP: Shape = Shape {
    is_v6: false,
    is_tcp: true,
    port: 1,
    identification: 0,
    dont_fragment: true,
    sequence: 5000,
    flags: ACK,
    payload: MSS,
};
pub(super) const UDP: Shape = Shape { is_tcp: false, ..TCP };

impl Shape {
    pub(super) fn at(self, nth: u32) -> Self {
        Self { sequence: TCP.sequence.wrapping_add(nth * MSS as u32), ..self }
    }

    pub(super) fn build(self) -> PacketBuf {
        let mut bytes = self.transport();
        let (addresses, sum_at) = (self.addresses(), if self.is_tcp { 16 } else { 6 });
        let pseudo = checksum_no_fold(&addresses, self.protocol() as u64 + bytes.len() as u64);
        let sum = !checksum(&bytes, pseudo);
        bytes[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = PacketBuf::default();
        packet.fill(&[self.ip(bytes.len()), bytes].concat());
        packet
    }

    fn protocol(self) -> u8 {
        if self.is_tcp { 6 } else { 17 }
    }

    fn addresses(self) -> Vec<u8> {
        (1..=if self.is_v6 { 32 } else { 8 }).collect()
    }

    fn ip(self, transport_len: usize) -> Vec<u8> {
        let mut ip = if self.is_v6 {
            let len = (transport_len as u16).to_be_bytes();
            vec![0x60, 0, 0, 0, len[0], len[1], self.protocol(), 64]
        } else {
            let len = (20 + transport_len as u16).to_be_bytes();
            let fragment = if self.dont_fragment { 0x40 } else { 0 };
            vec![0x45, 0, len[0], len[1], 0, self.identification, fragment, 0, 64, self.protocol(), 0, 0]
        };
        ip.extend(self.addresses());
        if !self.is_v6 {
            let sum = !checksum(&ip, 0);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        ip
    }

    fn transport(self) -> Vec<u8> {
        let mut bytes = vec![0, self.port, 0, 80];
        if self.is_tcp {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([0, 0, 0, 9, 0x80, self.flags, 1, 0, 0, 0, 0, 0]);
            bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            bytes.extend((8 + self.payload as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend((0..self.payload).map(|i| (self.sequence as usize + i) as u8));
        bytes
    }
}
