//! Sending many frames with one system call.

use std::array;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::AsRawFd;

use nix::libc::{self, MSG_DONTWAIT, mmsghdr};

use super::PacketPort;

/// How many frames one system call sends at most. The last of them waits for the others, each of which takes up to two
/// microseconds.
pub const SEND_BATCH: usize = 32;

impl PacketPort {
    /// Sends these frames through the interface, in order, and returns how many it took.
    ///
    /// A frame that is refused is skipped: all of them are while the interface is down or its peer is, single ones when
    /// they are longer than its MTU.
    #[must_use]
    pub fn send(&self, frames: &[IoSlice<'_>]) -> usize {
        frames.chunks(SEND_BATCH).map(|batch| self.send_batch(batch)).sum()
    }

    fn send_batch(&self, frames: &[IoSlice<'_>]) -> usize {
        let (mut done, mut taken, mut tried) = (0, 0, false);
        while done < frames.len() {
            if let Ok(count) = self.send_some(&frames[done..]) {
                (done, taken, tried) = (done + count, taken + count, false);
                continue;
            }
            // The error is about the first frame that was not sent; or it was left on the socket by an interface that
            // went down earlier, or it is an interruption: then the next try says otherwise.
            done += usize::from(tried);
            tried = !tried;
        }
        taken
    }

    /// Returns how many of the first [`SEND_BATCH`] frames were sent, at least one.
    fn send_some(&self, frames: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut messages: [mmsghdr; SEND_BATCH] = array::from_fn(|_| empty_message());
        for (message, frame) in messages.iter_mut().zip(frames) {
            message.msg_hdr.msg_iov = (&raw const *frame).cast_mut().cast();
            message.msg_hdr.msg_iovlen = 1;
        }
        let count = u32::try_from(frames.len().min(SEND_BATCH)).unwrap_or(0);
        let fd = self.socket.as_raw_fd();
        // SAFETY: the first `count` messages have one buffer each, whose description is an IoSlice (which has the layout
        // of an iovec) that outlives the call and that the kernel only reads.
        #[expect(unsafe_code, reason = "sendmmsg wants pointers")]
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

fn empty_message() -> mmsghdr {
    // SAFETY: null pointers, zero lengths and no flags are a message without anything.
    #[expect(unsafe_code, reason = "it has private padding, and so no literal that fills it")]
    unsafe {
        mem::zeroed()
    }
}
