//! What the network says of datagrams that it has not delivered.
//!
//! When a relay or a peer is killed its kernel says at once that nobody takes datagrams there any more (ICMP, RFC 792 and
//! 4443). The engine needs no longer wait for silence then. What is said is only a hint: the engine looks whether the quoted
//! datagram is one of its own, and probes the path.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use psmc_net::icmp::{IcmpPort, MAX_ERROR};
use psmc_wire::ip::Undelivered;
use tokio::time::sleep_until;

use super::plane::Poster;

/// How many messages are read in each [`PERIOD`]: one suffices for a path, and a flood of them may cost little. The kernel drops
/// the rest.
const READS: u32 = 128;

/// See [`READS`].
const PERIOD: Duration = Duration::from_millis(100);

/// The sockets at which such messages arrive.
pub(super) struct Hearing {
    v4: IcmpPort,
    /// Not where there is no IPv6.
    v6: Option<IcmpPort>,
    buffer: [u8; MAX_ERROR],
}

/// To whom a datagram was sent, and what is quoted of it.
type Report = (SocketAddr, Vec<u8>);

impl Hearing {
    /// Opens the sockets.
    ///
    /// # Errors
    /// Those of the system: most often, that the right CAP_NET_RAW is missing. Without these sockets silence tells the same,
    /// later.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { v4: IcmpPort::open_v4()?, v6: IcmpPort::open_v6().ok(), buffer: [0; MAX_ERROR] })
    }

    /// Tells the plane what is said, for as long as there is a daemon.
    pub(super) async fn run(mut self, plane: Poster) {
        loop {
            let end = Instant::now() + PERIOD;
            for _ in 0..READS {
                if let Some((remote, front)) = poll_fn(|cx| self.poll_next(cx)).await {
                    plane
                        .post(move |plane| {
                            plane.site.handle_undelivered(remote, &front, Instant::now());
                        })
                        .await;
                }
            }
            sleep_until(end.into()).await;
        }
    }

    /// The next message; `None` if it tells nothing.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Report>> {
        let report = |heard: Undelivered<'_>| (heard.remote, heard.front.to_vec());
        // Errors of the sockets tell nothing either.
        if let Poll::Ready(read) = self.v4.poll_recv(cx, &mut self.buffer) {
            let message = &self.buffer[..read.unwrap_or(0)];
            return Poll::Ready(Undelivered::parse_v4(message).map(report));
        }
        let Some(v6) = &self.v6 else { return Poll::Pending };
        v6.poll_recv(cx, &mut self.buffer)
            .map(|read| Undelivered::parse_v6(&self.buffer[..read.unwrap_or(0)]).map(report))
    }
}
