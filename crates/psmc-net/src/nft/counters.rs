//! Named counters, asked of the kernel itself: they are read twice a second, and a start of the program costs more than all else.
//!
//! A dump of `NFT_MSG_GETOBJ` (linux/netfilter/nf_tables.h); numbers of netlink are in the machine's order, those of nftables are big-endian.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use rtnetlink::packet_core::{
    DefaultNla, Emitable as _, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_ALIGNTO, NLMSG_DONE,
    NLMSG_ERROR, NetlinkBuffer, NetlinkHeader, NlasIterator,
};

/// Bytes of packets that each named counter of the table `name` of family `inet` has counted; none, if there is no such table.
///
/// # Errors
/// What the kernel says: most often, that CAP_NET_ADMIN is needed.
pub fn counters(name: &str) -> io::Result<BTreeMap<String, u64>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    for _ in 0..TRIES {
        sendto(socket.as_raw_fd(), &question(name), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut counters = BTreeMap::new();
        let mut buffer = vec![0; ROOM];
        let mut dump = Dump::default();
        while !dump.is_over {
            let len = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            dump.read(&buffer[..len], &mut counters)?;
        }
        if !dump.is_interrupted {
            return Ok(counters);
        }
    }
    Err(io::Error::new(io::ErrorKind::Interrupted, "the table changes all the time"))
}

/// A dump during which the table changes is begun anew, so many times at most.
const TRIES: u32 = 8;

/// A part of a dump has a page or two (netlink(7)); the kernel never sends more than this at a time.
const ROOM: usize = 32 * 1024;

/// Bytes of the header of netfilter behind that of a message.
const NETFILTER: usize = 4;

const GET_COUNTERS: u16 = SUBSYSTEM | 19;
const COUNTER: u16 = SUBSYSTEM | 18;
const SUBSYSTEM: u16 = 10 << 8;

const FAMILY_INET: u8 = 1;
const TYPE_COUNTER: u32 = 1;

/// Attributes of an object, and of a counter.
mod attribute {
    pub(super) const TABLE: u16 = 1;
    pub(super) const NAME: u16 = 2;
    pub(super) const TYPE: u16 = 3;
    pub(super) const DATA: u16 = 4;
    pub(super) const BYTES: u16 = 1;
}

fn question(table: &str) -> Vec<u8> {
    let of_table = DefaultNla::new(attribute::TABLE, [table.as_bytes(), &[0]].concat());
    let of_type = DefaultNla::new(attribute::TYPE, TYPE_COUNTER.to_be_bytes().to_vec());
    let attributes = [of_table, of_type];
    let mut header = NetlinkHeader::default();
    let head = header.buffer_len() + NETFILTER;
    let mut message = vec![0; head + attributes.as_slice().buffer_len()];
    header.length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    header.message_type = GET_COUNTERS;
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    header.emit(&mut message);
    message[header.buffer_len()] = FAMILY_INET;
    attributes.as_slice().emit(&mut message[head..]);
    message
}

/// What has come of a dump.
#[derive(Debug, Default)]
struct Dump {
    is_over: bool,
    is_interrupted: bool,
}

impl Dump {
    fn read(&mut self, mut bytes: &[u8], counters: &mut BTreeMap<String, u64>) -> io::Result<()> {
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while !bytes.is_empty() {
            let message = NetlinkBuffer::new_checked(bytes).map_err(malformed)?;
            self.is_interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                NLMSG_DONE => self.is_over = true,
                NLMSG_ERROR => {
                    self.is_over = true;
                    let code = message.payload().first_chunk().copied().map(i32::from_ne_bytes);
                    match code {
                        // The table is not there.
                        Some(0) | None => {}
                        Some(code) if code == -(Errno::ENOENT as i32) => {}
                        Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    }
                }
                COUNTER => counters.extend(message.payload().get(NETFILTER..).and_then(counter)),
                _ => {}
            }
            let len = message.length() as usize;
            bytes = bytes.get(len.next_multiple_of(NLMSG_ALIGNTO as usize)..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The name of a counter, and its bytes.
fn counter(attributes: &[u8]) -> Option<(String, u64)> {
    let name = find(attributes, attribute::NAME)?;
    let name = std::str::from_utf8(name.strip_suffix(&[0]).unwrap_or(&name)).ok()?;
    let bytes = find(&find(attributes, attribute::DATA)?, attribute::BYTES)?;
    Some((name.to_owned(), u64::from_be_bytes(*bytes.first_chunk()?)))
}

/// The value of an attribute.
fn find(attributes: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    all.find(|attribute| attribute.kind() == wanted).map(|attribute| attribute.value().to_vec())
}

#[cfg(test)]
mod tests {
    use psmc_testbed::netns::Namespace;

    use super::*;
    use crate::nft::nft;

    #[test]
    fn the_kernel_says_what_nft_says() {
        let host = Namespace::new().expect("this test needs root");
        host.run(|| {
            assert_eq!(counters("nowhere").unwrap(), BTreeMap::new());
            let mut script = "add table inet some\nadd table inet other\nadd counter inet other odd { packets 1 bytes 9 }\n".to_owned();
            for number in 0..500 {
                script += &format!("add counter inet some c{number} {{ packets 1 bytes {} }}\n", number * 5_000_000_000_u64);
            }
            nft(&["-f", "-"], &script).unwrap();
            let counted = counters("some").unwrap();
            assert_eq!(counted.len(), 500);
            assert!((0..500).all(|number| counted[&format!("c{number}")] == number * 5_000_000_000));
        });
    }

    #[test]
    fn no_bytes_are_a_panic() {
        for bytes in
            [&[] as &[u8], &[0; 3], &[16, 0, 0, 0], &[4, 0, 0, 0], &[255; 64], &[20, 0, 0, 0, 2, 0, 0, 0]]
        {
            let mut counters = BTreeMap::new();
            let _ = Dump::default().read(bytes, &mut counters);
            assert!(counters.is_empty() && counter(bytes).is_none());
        }
    }
}
