//! The servers that all ports share.

use super::config::Amount;
use super::timetable::Timetable;
use crate::link::Nanos;

/// Servers: which are busy until when. Amounts are in millionths.
///
/// Of the packets that are being served, at most one has fewer servers than it needs: the one that began last. It is
/// served at the share of the speed that it has servers for, and gets those that become free before any other packet
/// does. So no server is ever idle while a packet may be served, and a fraction of a server does a fraction of the work.
#[derive(Debug)]
pub(super) struct Servers {
    free: u64,
    busy: Timetable<u64>,
    short: Option<Short>,
}

/// What the packet has, and lacks.
#[derive(Clone, Copy, Debug)]
struct Short {
    need: u64,
    given: u64,
    /// How long it has yet to be served, with all servers that it needs.
    left: Nanos,
    /// Since when it has what it is given.
    since: Nanos,
}

/// How a service begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It will be done then.
    DoneAt(Nanos),
    /// With too few servers; [`Servers::release`] says when it is done.
    Short,
}

impl Servers {
    /// All are free.
    pub(super) fn new(servers: Amount) -> Self {
        Self { free: servers.millionths(), busy: Timetable::default(), short: None }
    }

    /// Whether a packet can be served, with all servers that it needs or not.
    pub(super) fn any_free(&self) -> bool {
        self.free > 0
    }

    /// A packet that needs so many servers for so long is served, if [any are free](Self::any_free).
    pub(super) fn begin(&mut self, need: u64, delay: Nanos, now: Nanos) -> Begun {
        if need <= self.free {
            let end = now.after(delay);
            self.free -= need;
            self.busy.insert(end, need);
            return Begun::DoneAt(end);
        }
        let given = std::mem::take(&mut self.free);
        self.short = Some(Short { need, given, left: delay, since: now });
        Begun::Short
    }

    /// When servers become free next.
    pub(super) fn next(&self) -> Option<Nanos> {
        let short = self.short.map(|short| short.end());
        self.busy.next().into_iter().chain(short).min()
    }

    /// Servers become free that do so by `now`, to be called at the time of [`next`](Self::next). If that settles when the
    /// packet is done that was short of servers, says when.
    pub(super) fn release(&mut self, now: Nanos) -> Option<Nanos> {
        if let Some(short) = self.short.take_if(|short| short.end() <= now) {
            self.free += short.given;
            return Some(short.end());
        }
        let mut settled = None;
        while let Some((at, servers)) = self.busy.pop(now) {
            self.free += servers;
            settled = settled.or(self.give_to_short(at));
        }
        settled
    }

    /// The packet that is short of servers gets what is free. If that is enough, says when it will be done.
    fn give_to_short(&mut self, now: Nanos) -> Option<Nanos> {
        let mut short = self.short.take()?;
        short.left = short.left.since(short.done(now));
        short.since = short.since.max(now);
        let given = self.free.min(short.need - short.given);
        self.free -= given;
        short.given += given;
        if short.given < short.need {
            self.short = Some(short);
            return None;
        }
        let end = now.after(short.left);
        self.busy.insert(end, short.need);
        Some(end)
    }
}

impl Short {
    /// When it is done if it gets no more; it is never given nothing.
    fn end(self) -> Nanos {
        let nanos = (u128::from(self.left.0) * u128::from(self.need)).div_ceil(u128::from(self.given.max(1)));
        self.since.after(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// How much of its service it has had since the servers were last changed.
    fn done(self, now: Nanos) -> Nanos {
        let nanos =
            u128::from(now.since(self.since).0) * u128::from(self.given) / u128::from(self.need.max(1));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
