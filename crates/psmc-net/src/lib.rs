//! The Linux edge of PSMC: keys and TLS, the TUN device, UDP, raw and packet sockets, netlink, nftables.
//!
//! Nothing here knows the protocol beyond its bytes. `unsafe` may stand here and in `psmc-testbed` only.
pub mod aead;
pub mod clock;
pub mod framing;
pub mod icmp;
pub mod inside;
pub mod ipip;
pub mod keys;
pub mod listen;
pub mod local;
pub mod mark;
pub mod netlink;
pub mod nft;
pub mod packet;
pub mod poller;
pub mod priority;
pub mod probe;
pub mod retry;
pub mod room;
pub mod sniffer;
pub mod stack;
pub mod stream;
pub mod timed;
pub mod tls;
pub mod token;
pub mod trace;
pub mod tun;
pub mod udp;
mod watched;
