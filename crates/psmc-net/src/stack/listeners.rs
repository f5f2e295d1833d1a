//! Ports at which a stack takes connections, each for as long as somebody wants it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use socket2::Socket;

use super::{Accepted, socket};
use crate::poller::{Poller, Wakeup};

/// How many connections one call takes, so that it ends while more and more come.
const MAX_ACCEPTED: usize = 256;

#[derive(Debug)]
pub(super) struct Listeners {
    /// By port, which is what the poller calls them.
    listeners: BTreeMap<u16, Listener>,
    poller: Poller,
}

#[derive(Debug)]
struct Listener {
    socket: Socket,
    /// How many want it, one or more.
    wanted: usize,
}

impl Listeners {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { listeners: BTreeMap::new(), poller: Poller::new()? })
    }

    /// Counts one more who wants this port, and opens it for the first one.
    pub(super) fn add(&mut self, port: u16, open: impl FnOnce() -> io::Result<Socket>) -> io::Result<()> {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.wanted += 1;
            return Ok(());
        }
        let socket = open()?;
        self.poller.add(socket.as_fd(), port.into())?;
        self.listeners.insert(port, Listener { socket, wanted: 1 });
        Ok(())
    }

    /// Counts one less, and closes the port after the last one.
    pub(super) fn remove(&mut self, port: u16) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.wanted -= 1;
            if listener.wanted == 0 {
                self.listeners.remove(&port);
            }
        }
    }

    pub(super) fn accept(&mut self, accepted: &mut Vec<Accepted>) -> io::Result<()> {
        let before = accepted.len();
        for wakeup in self.poller.wait(Some(Instant::now()))? {
            let Wakeup::Ready(token) = wakeup else { continue };
            let listener = u16::try_from(token).ok().and_then(|port| self.listeners.get(&port));
            let Some(Listener { socket, .. }) = listener else { continue };
            while accepted.len() < before + MAX_ACCEPTED {
                match socket::accept(socket) {
                    Ok(connection) => accepted.push(connection),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // Its client was faster: it has gone already.
                    Err(error) if has_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Listeners {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// Whether a connection ended before it was accepted, or while its ends were looked at.
fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::NotConnected)
}
