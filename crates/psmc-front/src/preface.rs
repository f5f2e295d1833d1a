//! The PROXY protocol (proxy-protocol.txt): what a proxy in front of this one says first of who its client is.

use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxyHeader};

/// How long version 1 is at least, and version 2 with its first two fields.
const START: usize = 13;

/// The longest of version 1 (section 2.1).
const V1_MOST: usize = 107;

/// What version 2 begins with (section 2.2).
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The fixed part of version 2 (section 2.2).
const V2_FIXED: usize = 16;

/// The longest of version 2 that is taken: addresses, and fields that are not read here.
const V2_MOST: usize = 4096;

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    /// So many more bytes are surely of it; whatever follows is not read with them.
    More(usize),
    /// That is all of it: the client has this address, or the proxy speaks for itself.
    Whole(Option<SocketAddr>),
}

/// A connection does not begin so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not begin with the PROXY protocol")]
pub struct NoPreface;

impl Preface {
    /// Looks at what has been read so far.
    ///
    /// # Errors
    /// [`NoPreface`] if nothing that could follow makes it one.
    pub fn read(bytes: &[u8]) -> Result<Self, NoPreface> {
        if bytes.len() < START {
            return Ok(Self::More(START - bytes.len()));
        }
        let end = if bytes.starts_with(b"PROXY ") { v1_end(bytes) } else { v2_end(bytes) }?;
        if bytes.len() < end {
            return Ok(Self::More(end - bytes.len()));
        }
        match ProxyHeader::parse(bytes, ParseConfig::default()) {
            Ok((parsed, read)) if read == bytes.len() => {
                Ok(Self::Whole(parsed.proxied_address().map(|address| address.source)))
            }
            Ok(_) | Err(_) => Err(NoPreface),
        }
    }
}

/// Where version 1 ends, or one byte further on if its end has not come.
fn v1_end(bytes: &[u8]) -> Result<usize, NoPreface> {
    match bytes.len() {
        end if bytes.ends_with(b"\r\n") => Ok(end),
        V1_MOST.. => Err(NoPreface),
        so_far => Ok(so_far + 1),
    }
}

/// Where version 2 ends, or its fixed part if that has not come.
fn v2_end(bytes: &[u8]) -> Result<usize, NoPreface> {
    if !bytes.starts_with(V2_SIGNATURE) {
        return Err(NoPreface);
    }
    let Some(&[high, low]) = bytes.get(V2_FIXED - 2..V2_FIXED) else { return Ok(V2_FIXED) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > V2_MOST { Err(NoPreface) } else { Ok(V2_FIXED + length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as a connection does, and yields how much that was.
    fn read(bytes: &[u8]) -> Result<(Option<SocketAddr>, usize), NoPreface> {
        let mut read = 0;
        loop {
            match Preface::read(&bytes[..read])? {
                Preface::Whole(client) => return Ok((client, read)),
                Preface::More(more) => read = (read + more).min(bytes.len()),
            }
            assert!(read < bytes.len() + 1);
        }
    }

    #[test]
    fn no_byte_of_what_follows_is_read() {
        let v1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 4242 80\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(read(v1), Ok((Some("192.0.2.7:4242".parse().unwrap()), 40)));
        assert_eq!(read(b"PROXY UNKNOWN\r\nGET /"), Ok((None, 15)));
        assert_eq!(read(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET /"), Ok((None, 16)));
    }

    #[test]
    fn what_is_none_is_refused() {
        let mut long = b"PROXY TCP4 ".to_vec();
        long.resize(200, b'1');
        let large = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff";
        for bytes in [b"GET / HTTP/1.1\r\n".as_slice(), &long, large, b"PROXY TCP4 a b c d\r\n"] {
            assert_eq!(read(bytes), Err(NoPreface), "{bytes:?}");
        }
    }
}
