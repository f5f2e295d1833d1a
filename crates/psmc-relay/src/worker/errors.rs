//! ICMP errors about what the relay has sent.

use std::task::{Context, Poll};
use std::time::Instant;

use psmc_net::icmp::{IcmpPort, MAX_ERROR};
use psmc_wire::ip::{is_too_big_v4, is_too_big_v6};

use super::{READS_PER_TURN, Worker};

/// The sockets at which they arrive.
#[derive(Debug)]
pub(crate) struct Errors {
    v4: IcmpPort,
    /// Not where there is no IPv6.
    v6: Option<IcmpPort>,
    buffer: [u8; MAX_ERROR],
}

impl Errors {
    /// Opens the sockets; `None` if the relay may not have them.
    pub(crate) fn open() -> Option<Self> {
        Some(Self { v4: IcmpPort::open_v4().ok()?, v6: IcmpPort::open_v6().ok(), buffer: [0; MAX_ERROR] })
    }
}

impl Worker {
    /// Whether the relay hears ICMP errors.
    pub(crate) fn hears_errors(&self) -> bool {
        self.network.errors.is_some()
    }

    /// Handles errors that have come; says whether there were any.
    pub(super) fn poll_errors(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..READS_PER_TURN {
            let mut heard = false;
            heard |= self.poll_error_v4(cx);
            heard |= self.poll_error_v6(cx);
            if !heard {
                break;
            }
            progress = true;
        }
        progress
    }

    fn poll_error_v4(&mut self, cx: &mut Context<'_>) -> bool {
        let own_port = self.network.port.local_addr().port();
        let Some(errors) = &mut self.network.errors else { return false };
        // A socket that fails says nothing any more; what is sent does not depend on it.
        let Poll::Ready(Ok(length)) = errors.v4.poll_recv(cx, &mut errors.buffer) else { return false };
        let message = &errors.buffer[..length];
        self.moved.heard_too_big += u64::from(is_too_big_v4(message, own_port));
        if let Some(tunnels) = &mut self.network.tunnels {
            tunnels.handle_error(message, Instant::now(), &mut self.moved);
        }
        true
    }

    fn poll_error_v6(&mut self, cx: &mut Context<'_>) -> bool {
        let own_port = self.network.port.local_addr().port();
        let Some(Errors { v6: Some(port), buffer, .. }) = &mut self.network.errors else { return false };
        let Poll::Ready(Ok(length)) = port.poll_recv(cx, buffer) else { return false };
        self.moved.heard_too_big += u64::from(is_too_big_v6(&buffer[..length], own_port));
        true
    }
}
