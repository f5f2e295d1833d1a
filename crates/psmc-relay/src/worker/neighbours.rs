//! Datagrams that have come to the wrong worker.
//!
//! The kernel steers by the label, but joins what one peer sends in a row (generic receive offload) before it looks at
//! the first label. A relay or a site with several sessions sends them from one address, so that others may follow.

use std::task::{Context, Poll};

use psmc_core::relay::{Address, worker_of};
use psmc_wire::{BufPool, Label, PacketBuf};
use tokio::sync::mpsc;

use super::Moved;

/// Datagrams that wait for another worker: what it handles in a few milliseconds.
const MAX_WAITING: usize = 1024;

/// Buffers are as long as the datagrams of ordinary networks; those that had to grow are not kept.
const BUFFER: usize = 2048;

/// Where the lowest byte of the label is in a datagram: what [`worker_of`] goes by.
pub(crate) const LABEL_BYTE: u16 = 7;

type Stray = (Address, PacketBuf);

/// A worker's connection to its neighbours.
pub(crate) struct Exchange {
    worker: u8,
    incoming: mpsc::Receiver<Stray>,
    neighbours: Vec<mpsc::Sender<Stray>>,
    pool: BufPool,
}

/// Connects so many workers with each other.
pub(crate) fn neighbours(workers: u8) -> Vec<Exchange> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(MAX_WAITING)).unzip();
    let with = |(worker, incoming)| Exchange {
        worker,
        incoming,
        neighbours: senders.clone(),
        pool: BufPool::new(BUFFER, MAX_WAITING),
    };
    (0..).zip(receivers).map(with).collect()
}

impl Exchange {
    /// Whose a datagram is, if it is another worker's.
    pub(super) fn owner_elsewhere(&self, datagram: &[u8]) -> Option<usize> {
        let workers = u8::try_from(self.neighbours.len()).unwrap_or(u8::MAX);
        let byte = *datagram.get(usize::from(LABEL_BYTE))?;
        let owner = worker_of(Label(byte.into()), workers);
        (owner != self.worker).then_some(owner.into())
    }

    /// Gives a copy of a datagram to its owner, or counts that this has too much to do.
    pub(super) fn hand_over(&mut self, owner: usize, datagram: &[u8], from: Address, moved: &mut Moved) {
        let Ok(place) = self.neighbours[owner].try_reserve() else {
            moved.stray_drops += 1;
            return;
        };
        let mut buffer = self.pool.take();
        buffer.fill(datagram);
        place.send((from, buffer));
        moved.strayed += 1;
    }

    /// The next datagram from another worker.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stray>> {
        self.incoming.poll_recv(cx)
    }

    /// Keeps a buffer for a stray of this worker's own.
    pub(super) fn recycle(&mut self, buffer: PacketBuf) {
        self.pool.put(buffer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_stray_reaches_its_owner() {
        let mut workers = neighbours(2);
        let mut moved = Moved::default();
        let from = Address::of("192.0.2.1:9".parse().unwrap());
        let mut datagram = [0x60; 60];
        datagram[usize::from(LABEL_BYTE)] = 3;
        assert_eq!(workers[1].owner_elsewhere(&datagram), None);
        assert_eq!(workers[0].owner_elsewhere(&datagram), Some(1));
        assert_eq!(workers[0].owner_elsewhere(&datagram[..7]), None);
        workers[0].hand_over(1, &datagram, from, &mut moved);
        let (sender, stray) = poll_fn(|cx| workers[1].poll_next(cx)).await.unwrap();
        assert_eq!((sender, stray.packet()), (from, &datagram[..]));
        for _ in 0..=MAX_WAITING {
            workers[0].hand_over(1, &datagram, from, &mut moved);
        }
        assert_eq!((moved.strayed, moved.stray_drops), (1 + MAX_WAITING as u64, 1));
    }
}
