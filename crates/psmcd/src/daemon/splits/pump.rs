//! Bytes between sockets and streams.

use std::array;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use psmc_core::Site;
use psmc_net::poller::{Poller, Wants};
use psmc_net::stack;
use psmc_wire::PacketBuf;
use psmc_wire::buf::HEADROOM;
use psmc_wire::frame::StreamOutcome;

use super::connection::{Connection, Stage};
use super::{AFTER_RESET, Key, LINGERING, Splits, answer, outcome_of, reset, stream_of};

/// Buffers that one call reads into, and pieces that one call writes.
const READ_AT_ONCE: usize = 32;
const WRITTEN_AT_ONCE: usize = 64;

/// Calls in a row for one socket, so that others have their turn.
const TURNS: usize = 8;

/// What has become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pumped {
    /// It goes on.
    On,
    /// Both directions have ended.
    Ended,
    /// Its host has reset it, or is gone.
    Broken,
}

impl Splits {
    /// Does what a connection's socket or stream has to do.
    pub(super) fn serve(&mut self, token: u64, site: &mut Site, poller: &Poller, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.is_due = false;
        let key = (connection.peer, connection.stream);
        if let Stage::Called(socket) = &connection.stage {
            match stack::finish(socket) {
                Ok(false) => return,
                Ok(true) => {
                    connection.stand();
                    answer(site, key, StreamOutcome::Open, now);
                }
                Err(error) => {
                    self.remove(token, AFTER_RESET, now);
                    return answer(site, key, outcome_of(&error), now);
                }
            }
        }
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let pumped = connection.pump(&mut self.buffers, site, now);
        match pumped.and_then(|pumped| connection.register(token, poller).map(|()| pumped)) {
            Ok(Pumped::On) => {
                if connection.is_due {
                    self.due.push(token);
                }
            }
            Ok(Pumped::Ended) => drop(self.remove(token, LINGERING, now)),
            Ok(Pumped::Broken) | Err(_) => {
                self.remove(token, AFTER_RESET, now);
                reset(site, key, now);
            }
        }
    }
}

impl Connection {
    /// The server has answered.
    fn stand(&mut self) {
        if let Stage::Called(socket) = mem::replace(&mut self.stage, Stage::Over) {
            self.stage = Stage::Stands(socket);
        }
    }

    /// Has the poller tell what is wanted of the socket now.
    fn register(&mut self, token: u64, poller: &Poller) -> io::Result<()> {
        // Once both sides have shut a connection, the poller tells of that for ever (EPOLLHUP), even to who wants nothing.
        let is_watched = self.wanted.data || self.wanted.room || !self.is_written;
        if (self.wants, self.is_watched) == (self.wanted, is_watched) {
            return Ok(());
        }
        self.wants = self.wanted;
        let was_watched = mem::replace(&mut self.is_watched, is_watched);
        let Some(socket) = self.stage.socket() else { return Ok(()) };
        if !is_watched {
            return poller.remove(socket.as_fd());
        }
        if !was_watched {
            poller.add(socket.as_fd(), token)?;
        }
        poller.set_wants(socket.as_fd(), token, self.wants)
    }

    /// Moves what can be moved, in both directions.
    fn pump(&mut self, buffers: &mut Vec<PacketBuf>, site: &mut Site, now: Instant) -> io::Result<Pumped> {
        let Stage::Stands(socket) = &self.stage else { return Ok(Pumped::On) };
        // Who does not want to read is told of an error all the same, again and again.
        if !self.wants.data && socket.take_error()?.is_some() {
            return Ok(Pumped::Broken);
        }
        let key = (self.peer, self.stream);
        self.wanted = Wants { data: false, room: false };
        if !self.is_written {
            match write(socket, site, key, now)? {
                Moved::All => {}
                Moved::Some => self.is_due = true,
                Moved::Waits => self.wanted.room = true,
                Moved::End => {
                    socket.shutdown(Shutdown::Write)?;
                    self.is_written = true;
                }
                Moved::Gone => return Ok(Pumped::On),
            }
        }
        if !self.is_read {
            match read(socket, buffers, site, key, now)? {
                Moved::All | Moved::Some => self.wanted.data = true,
                // The stream tells when it has room again.
                Moved::Waits => {}
                Moved::End => self.is_read = true,
                Moved::Gone => return Ok(Pumped::On),
            }
        }
        Ok(if self.is_read && self.is_written { Pumped::Ended } else { Pumped::On })
    }
}

/// How much was moved in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// All there was.
    All,
    /// There is more.
    Some,
    /// The other side has no room.
    Waits,
    /// Everything that there will ever be.
    End,
    /// There is no such stream any more, and an event says why.
    Gone,
}

/// Gives a host what has come for it.
fn write(mut socket: &TcpStream, site: &mut Site, key: Key, now: Instant) -> io::Result<Moved> {
    for _ in 0..TURNS {
        let Some(mut stream) = stream_of(site, key) else { return Ok(Moved::Gone) };
        let mut pieces = [IoSlice::new(&[]); WRITTEN_AT_ONCE];
        let mut offered = 0;
        for (piece, bytes) in pieces.iter_mut().zip(stream.chunks()) {
            *piece = IoSlice::new(bytes);
            offered += bytes.len();
        }
        if offered == 0 {
            return Ok(if stream.take_end() { Moved::End } else { Moved::All });
        }
        match socket.write_vectored(&pieces) {
            Ok(taken) => {
                stream.consume(taken, now);
                if taken < offered {
                    return Ok(Moved::Waits);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Moved::Waits),
            Err(error) => return Err(error),
        }
    }
    Ok(Moved::Some)
}

/// Takes what a host has sent.
fn read(
    mut socket: &TcpStream,
    buffers: &mut Vec<PacketBuf>,
    site: &mut Site,
    key: Key,
    now: Instant,
) -> io::Result<Moved> {
    for _ in 0..TURNS {
        let Some(mut stream) = stream_of(site, key) else { return Ok(Moved::Gone) };
        let (room, chunk) = (stream.room(), stream.chunk());
        if room == 0 {
            return Ok(Moved::Waits);
        }
        let wanted = (room / chunk).clamp(1, READ_AT_ONCE);
        while buffers.len() < wanted {
            buffers.push(stream.pool().take());
        }
        let mut spaces = buffers.iter_mut().take(wanted).map(|buffer| {
            buffer.reserve(chunk);
            IoSliceMut::new(&mut buffer.storage_mut()[HEADROOM..HEADROOM + chunk])
        });
        let mut spaces: [IoSliceMut<'_>; READ_AT_ONCE] =
            array::from_fn(|_| spaces.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let mut left = match socket.read_vectored(&mut spaces[..wanted]) {
            Ok(0) => {
                stream.finish(now);
                return Ok(Moved::End);
            }
            Ok(taken) => taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Moved::All),
            Err(error) => return Err(error),
        };
        let is_all = left < wanted * chunk;
        for mut buffer in buffers.drain(..left.div_ceil(chunk)) {
            buffer.set_len(left.min(chunk));
            left -= buffer.len();
            stream.write(buffer, now);
        }
        if is_all {
            return Ok(Moved::All);
        }
    }
    Ok(Moved::Some)
}
