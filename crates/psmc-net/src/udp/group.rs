//! Several sockets on one address, and which of them gets a datagram.

use std::io;
use std::os::fd::AsRawFd;

use nix::libc::{
    self, BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_K, BPF_LD, BPF_MOD, BPF_RET, sock_filter, sock_fprog,
};
use socket2::Socket;

/// Sockets that share an address (`SO_REUSEPORT`, socket(7)).
///
/// The kernel gives a datagram to the socket whose number is the chosen byte of its payload modulo the size of the group.
/// Where datagrams of one peer arrive joined (generic receive offload) the first of them decides for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many sockets there are. Not 0.
    pub size: u8,
    /// Which byte of a datagram decides. One that is shorter goes to the first socket.
    pub byte: u16,
}

impl Group {
    /// Makes the kernel choose among all sockets that share this one's address, now and later.
    #[expect(unsafe_code, reason = "no crate of ours wraps this option")]
    pub(super) fn steer(self, socket: &Socket) -> io::Result<()> {
        // Offsets count from the first byte behind the UDP header; a load beyond the end ends the program with 0.
        let mut program = [
            instruction(BPF_LD | BPF_B | BPF_ABS, self.byte.into()),
            instruction(BPF_ALU | BPF_MOD | BPF_K, self.size.max(1).into()),
            instruction(BPF_RET | BPF_A, 0),
        ];
        let attached = sock_fprog { len: 3, filter: program.as_mut_ptr() };
        let length = libc::socklen_t::try_from(size_of::<sock_fprog>()).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: `attached` is a `sock_fprog` of that length, and points to three instructions, which the kernel copies
        // before the call returns; both outlive it. The descriptor is open, for `socket` is borrowed.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const attached).cast(),
                length,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn instruction(code: u32, k: u32) -> sock_filter {
    // The codes of classic BPF have eight bits.
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::UdpSocket;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;
    use crate::udp::{RecvBatch, UdpBind, UdpPort};

    /// The third bytes of what has arrived at `port` until `count` have.
    async fn third_bytes(port: &UdpPort, count: usize) -> Vec<u8> {
        let (mut batch, mut bytes) = (RecvBatch::new(), Vec::new());
        poll_fn(|cx| {
            while bytes.len() < count {
                match port.poll_recv(cx, &mut batch) {
                    Poll::Ready(received) => received.unwrap(),
                    Poll::Pending => return Poll::Pending,
                };
                bytes.extend(batch.datagrams().map(|(_, datagram)| datagram[2]));
            }
            Poll::Ready(())
        })
        .await;
        bytes
    }

    #[tokio::test]
    async fn a_byte_decides_who_gets_a_datagram() {
        let group = Group { size: 3, byte: 2 };
        let bind = |address| UdpBind { address, interface: None };
        let first = UdpPort::bind_in_group(&bind("127.0.0.1:0".parse().unwrap()), group, 0).unwrap();
        let address = first.local_addr();
        let mut ports = vec![first];
        for number in 1..3 {
            ports.push(UdpPort::bind_in_group(&bind(address), group, number).unwrap());
        }
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for byte in 0..30 {
            sender.send_to(&[0, 0, byte, 0], address).unwrap();
        }
        for (number, port) in (0..).zip(&ports) {
            let heard = tokio::time::timeout(Duration::from_secs(5), third_bytes(port, 10)).await.unwrap();
            let expected: Vec<u8> = (0..30).filter(|byte| byte % 3 == number).collect();
            assert_eq!(heard, expected);
        }
    }
}
