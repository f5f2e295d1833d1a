//! The fields that messages are made of: reading them from a slice without ever panicking, and appending them.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use thiserror::Error;

use crate::hop::{Hop, HopKey};
use crate::ids::Label;

/// Bytes that are not what the protocol says they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The bytes end in the middle of something.
    #[error("truncated")]
    Truncated,
    /// A type, version or flag that this version does not know.
    #[error("unknown type {0:#04x}")]
    UnknownType(u8),
    /// A field holds a value that is never legal.
    #[error("illegal {0}")]
    Illegal(&'static str),
}

/// A cursor over bytes; every method takes from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(Malformed::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// A string of at most 255 bytes behind its length.
    pub(crate) fn short_str(&mut self, what: &'static str) -> Result<&'a str, Malformed> {
        let len = usize::from(self.u8()?);
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed::Illegal(what))
    }

    /// A rate in bits per second, of which 0 means any.
    pub(crate) fn rate(&mut self) -> Result<Option<u64>, Malformed> {
        let rate = self.u64()?;
        Ok((rate > 0).then_some(rate))
    }

    /// A family, an address of it, and a port. An IPv4 address in IPv6 clothes is refused, so that each address
    /// has one spelling and no list of networks is evaded by another.
    pub(crate) fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let ip = match self.u8()? {
            4 => IpAddr::from(self.array::<4>()?),
            6 => IpAddr::from(self.array::<16>()?),
            _ => return Err(Malformed::Illegal("address family")),
        };
        if matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(Malformed::Illegal("address"));
        }
        match self.u16()? {
            0 => Err(Malformed::Illegal("port")),
            port => Ok(SocketAddr::new(ip, port)),
        }
    }

    /// A prefix of a family: its length and an address, of whose bits those behind the prefix are zero, so that each has one
    /// spelling.
    pub(crate) fn prefix(&mut self, family: u8) -> Result<IpNet, Malformed> {
        let len = self.u8()?;
        let address = match family {
            4 => IpAddr::from(self.array::<4>()?),
            6 => IpAddr::from(self.array::<16>()?),
            _ => return Err(Malformed::Illegal("address family")),
        };
        let prefix = IpNet::new(address, len).map_err(|_| Malformed::Illegal("prefix length"))?;
        if prefix == prefix.trunc() { Ok(prefix) } else { Err(Malformed::Illegal("prefix")) }
    }

    /// The label and the key of a hop.
    pub(crate) fn hop(&mut self) -> Result<Hop, Malformed> {
        Ok(Hop { label: Label(self.u32()?), key: HopKey(self.array()?) })
    }
}

/// Appends `text` behind its length; what exceeds 255 bytes is cut at a character's boundary.
pub(crate) fn short_str(text: &str, out: &mut Vec<u8>) {
    let text = &text[..text.floor_char_boundary(usize::from(u8::MAX))];
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend(text.as_bytes());
}

/// Appends the family, the address and the port. An IPv6 address loses its scope.
pub(crate) fn address(address: SocketAddr, out: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(v4) => {
            out.push(4);
            out.extend(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out.push(6);
            out.extend(v6.ip().octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// Appends the length of a prefix and its address, without bits behind the prefix.
pub(crate) fn prefix(prefix: IpNet, out: &mut Vec<u8>) {
    let prefix = prefix.trunc();
    out.push(prefix.prefix_len());
    match prefix.addr() {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

/// Appends a rate in bits per second; none is written as 0.
pub(crate) fn rate(rate: Option<u64>, out: &mut Vec<u8>) {
    out.extend(rate.unwrap_or(0).to_be_bytes());
}

/// Appends the label and the key of a hop.
pub(crate) fn hop(hop: &Hop, out: &mut Vec<u8>) {
    out.extend(hop.label.0.to_be_bytes());
    out.extend(hop.key.0);
}
