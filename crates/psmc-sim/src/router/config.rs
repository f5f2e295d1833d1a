//! What a router is like.

use std::time::Duration;

use crate::link::{Discipline, Nanos};

/// A router: ports, servers that all ports share, and what a packet of each length takes of them.
///
/// Lengths count from the IP header on, as those of links do; a port adds its framing where it transmits.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    ports: Vec<PortConfig>,
    servers: Amount,
    tables: Tables,
    cpu: Option<CpuConfig>,
}

/// What a packet takes, by its length in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// How long it is served, transmission not included: the seed's `DelayTbl`.
    pub delay: Table<Duration>,
    /// How many servers it takes meanwhile: the seed's `ServReq`.
    pub servers: Table<Amount>,
    /// How many slots of a queue it takes: the seed's `QueueReq`.
    pub slots: Table<Amount>,
}

/// A port of a router: where packets leave it. (How fast they come is a matter of the link before it.)
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Bits per second that it transmits, framing included: the seed's `TX_Capacity`.
    pub rate: u64,
    /// Bytes that it transmits besides a packet: 18 for the header and checksum of Ethernet, 38 with preamble and gap.
    pub framing: usize,
    /// Slots of its queue: the seed's Q. A packet gives its slots back when servers take it.
    pub slots: Amount,
    /// What the queue drops or marks before it is full.
    pub discipline: Discipline,
    /// How much longer packets take that leave by this port, none of which keeps a server or the line busy.
    pub extra: Duration,
}

/// A processor that every packet needs before it is queued, whichever way it goes, and even if it is dropped then.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuConfig {
    /// How long a packet takes it, by its length in bytes.
    pub time: Table<Duration>,
    /// How long a packet takes it that is for the router itself: routing, ARP, ICMP.
    pub control: Duration,
    /// Packets that each port can hold for it, or all together.
    pub ring: usize,
    /// Whether all ports have one ring together, as the backlog of an operating system is, so that a flood by one port takes the
    /// room of what comes by others.
    pub is_shared: bool,
}

/// A number of servers or slots, in millionths: above zero, and up to a billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(u64);

/// Values by length, interpolated linearly between its points; beyond them those of the first and the last one hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T> {
    points: Vec<(usize, T)>,
}

/// The most ports: more than any device has, and few enough to be asked one after the other.
pub const MAX_PORTS: usize = 1024;

/// The longest packet of a table, in bytes: that of IP.
pub const MAX_BYTES: usize = 65_535;

/// The longest time in a table: more than any device takes, and its products with amounts stay exact.
pub const MAX_TIME: Duration = Duration::from_secs(10);

/// Why a router can't be like that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RouterConfigError {
    /// It has no ports, or more than [`MAX_PORTS`].
    #[error("a router has from 1 to {MAX_PORTS} ports, not {0}")]
    Ports(usize),
    /// A port never transmits.
    #[error("port {port} has a rate of zero")]
    NoRate {
        /// Which one, from 0.
        port: usize,
    },
    /// A packet needs more servers than there are.
    #[error("packets of {bytes} bytes need {need} servers, and there are {servers}")]
    Servers {
        /// How long the packet is.
        bytes: usize,
        /// What it needs.
        need: Amount,
        /// What there is.
        servers: Amount,
    },
    /// A packet needs more slots than a queue has.
    #[error("packets of {bytes} bytes need {need} slots, and the queue of port {port} has {slots}")]
    Slots {
        /// How long the packet is.
        bytes: usize,
        /// Which port, from 0.
        port: usize,
        /// What it needs.
        need: Amount,
        /// What there is.
        slots: Amount,
    },
    /// The processor's rings hold nothing.
    #[error("the processor's rings hold no packet")]
    NoRing,
}

/// Why points make no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There are none.
    #[error("a table has at least one point")]
    Empty,
    /// Lengths don't grow from point to point; the number of the first that doesn't, from 0.
    #[error("lengths have to grow from point to point")]
    NotSorted(usize),
    /// A length is beyond [`MAX_BYTES`]; the number of the point, from 0.
    #[error("no packet is longer than {MAX_BYTES} bytes")]
    TooLong(usize),
    /// A time is beyond [`MAX_TIME`]; the number of the point, from 0.
    #[error("no time is longer than {} s", MAX_TIME.as_secs())]
    TooSlow(usize),
}

impl RouterConfig {
    /// A router whose parts fit together.
    ///
    /// # Errors
    /// [`RouterConfigError`] says what doesn't.
    pub fn new(
        ports: Vec<PortConfig>,
        servers: Amount,
        tables: Tables,
        cpu: Option<CpuConfig>,
    ) -> Result<Self, RouterConfigError> {
        if !(1..=MAX_PORTS).contains(&ports.len()) {
            return Err(RouterConfigError::Ports(ports.len()));
        }
        if let Some(port) = ports.iter().position(|port| port.rate == 0) {
            return Err(RouterConfigError::NoRate { port });
        }
        if let Some(&(bytes, need)) = tables.servers.points.iter().find(|(_, need)| *need > servers) {
            return Err(RouterConfigError::Servers { bytes, need, servers });
        }
        for (port, slots) in ports.iter().map(|port| port.slots).enumerate() {
            if let Some(&(bytes, need)) = tables.slots.points.iter().find(|(_, need)| *need > slots) {
                return Err(RouterConfigError::Slots { bytes, port, need, slots });
            }
        }
        if cpu.as_ref().is_some_and(|cpu| cpu.ring == 0) {
            return Err(RouterConfigError::NoRing);
        }
        Ok(Self { ports, servers, tables, cpu })
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> &[PortConfig] {
        &self.ports
    }

    /// How many servers they share: the seed's M.
    #[must_use]
    pub fn servers(&self) -> Amount {
        self.servers
    }

    /// What packets take.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The processor, if packets need one.
    #[must_use]
    pub fn cpu(&self) -> Option<&CpuConfig> {
        self.cpu.as_ref()
    }
}

impl PortConfig {
    /// A port of Ethernet with this rate in bits per second, and a queue of so many slots that drops what finds it full.
    #[must_use]
    pub fn new(rate: u64, slots: Amount) -> Self {
        const ETHERNET: usize = 18;
        Self { rate, framing: ETHERNET, slots, discipline: Discipline::DropTail, extra: Duration::ZERO }
    }
}

impl Amount {
    /// One.
    pub const ONE: Self = Self(1_000_000);

    /// An amount, rounded to millionths; `None` unless it is above zero, and a billion at most.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the bounds are checked before"
    )]
    pub fn new(amount: f64) -> Option<Self> {
        let millionths = (amount * 1e6).round();
        (1.0..=1e15).contains(&millionths).then_some(Self(millionths as u64))
    }

    /// The amount.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In millionths.
    pub(super) fn millionths(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl<T> Table<T> {
    /// The points: lengths in bytes, and the value of each.
    #[must_use]
    pub fn points(&self) -> &[(usize, T)] {
        &self.points
    }

    fn check(points: &[(usize, T)]) -> Result<(), TableError> {
        if points.is_empty() {
            return Err(TableError::Empty);
        }
        if let Some(at) = points.iter().position(|(bytes, _)| *bytes > MAX_BYTES) {
            return Err(TableError::TooLong(at));
        }
        match points.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            Some(before) => Err(TableError::NotSorted(before + 1)),
            None => Ok(()),
        }
    }

    /// The value of a length, of which `number` makes a number.
    fn interpolate(&self, bytes: usize, number: impl Fn(&T) -> u64) -> u64 {
        let above = self.points.partition_point(|(length, _)| *length < bytes);
        let below = above.saturating_sub(1);
        let (from, to) = (&self.points[below], &self.points[above.min(self.points.len() - 1)]);
        let (start, end) = (number(&from.1), number(&to.1));
        if from.0 == to.0 || bytes <= from.0 {
            return start;
        }
        let (done, width) = ((bytes - from.0) as u128, (to.0 - from.0) as u128);
        let value = (u128::from(start) * (width - done) + u128::from(end) * done + width / 2) / width;
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}

impl Table<Duration> {
    /// Times by length.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn new(points: Vec<(usize, Duration)>) -> Result<Self, TableError> {
        Self::check(&points)?;
        match points.iter().position(|(_, time)| *time > MAX_TIME) {
            Some(at) => Err(TableError::TooSlow(at)),
            None => Ok(Self { points }),
        }
    }

    /// The same time for all lengths; the longest that is allowed if it is longer.
    #[must_use]
    pub fn constant(time: Duration) -> Self {
        Self { points: vec![(0, time.min(MAX_TIME))] }
    }

    /// The time of a packet of this length.
    #[must_use]
    pub fn of(&self, bytes: usize) -> Duration {
        self.nanos(bytes).into()
    }

    fn nanos(&self, bytes: usize) -> Nanos {
        Nanos(self.interpolate(bytes, |time| Nanos::from(*time).0))
    }
}

impl Table<Amount> {
    /// Amounts by length.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn new(points: Vec<(usize, Amount)>) -> Result<Self, TableError> {
        Self::check(&points)?;
        Ok(Self { points })
    }

    /// The same amount for all lengths.
    #[must_use]
    pub fn constant(amount: Amount) -> Self {
        Self { points: vec![(0, amount)] }
    }

    /// What a packet of this length takes.
    #[must_use]
    pub fn of(&self, bytes: usize) -> Amount {
        Amount(self.interpolate(bytes, |amount| amount.0))
    }
}

/// What a packet takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) delay: Nanos,
    /// In millionths.
    pub(super) servers: u64,
    /// In millionths.
    pub(super) slots: u64,
    pub(super) cpu: Nanos,
}

/// The costs of all lengths up to the longest of the tables, so that no packet is interpolated for.
#[derive(Debug)]
pub(super) struct Costs {
    by_len: Vec<Cost>,
    least_delay: Nanos,
}

impl Costs {
    pub(super) fn of(config: &RouterConfig) -> Self {
        let RouterConfig { tables, cpu, .. } = config;
        let last = |points: Option<usize>| points.unwrap_or_default();
        let longest = [
            last(tables.delay.points.last().map(|point| point.0)),
            last(tables.servers.points.last().map(|point| point.0)),
            last(tables.slots.points.last().map(|point| point.0)),
            last(cpu.as_ref().and_then(|cpu| cpu.time.points.last().map(|point| point.0))),
        ];
        let longest = longest.into_iter().max().unwrap_or_default();
        let cost = |bytes| Cost {
            delay: tables.delay.nanos(bytes),
            servers: tables.servers.of(bytes).millionths(),
            slots: tables.slots.of(bytes).millionths(),
            cpu: cpu.as_ref().map_or(Nanos::default(), |cpu| cpu.time.nanos(bytes)),
        };
        let by_len: Vec<_> = (0..=longest).map(cost).collect();
        let least_delay = by_len.iter().map(|cost| cost.delay).min().unwrap_or_default();
        Self { by_len, least_delay }
    }

    /// What a packet of this length takes.
    pub(super) fn of_len(&self, bytes: usize) -> Cost {
        self.by_len[bytes.min(self.by_len.len() - 1)]
    }

    /// How long any packet is served at least.
    pub(super) fn least_delay(&self) -> Nanos {
        self.least_delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(value: f64) -> Amount {
        Amount::new(value).unwrap()
    }

    fn tables() -> Tables {
        Tables {
            delay: Table::<Duration>::constant(Duration::from_micros(10)),
            servers: Table::<Amount>::constant(Amount::ONE),
            slots: Table::<Amount>::constant(Amount::ONE),
        }
    }

    #[test]
    fn tables_are_interpolated_between_their_points() {
        let micros = Duration::from_micros;
        let table = Table::<Duration>::new(vec![(64, micros(10)), (164, micros(30))]).unwrap();
        let values = [0, 64, 114, 164, 9000].map(|bytes| table.of(bytes));
        assert_eq!(values, [10, 10, 20, 30, 30].map(micros));
        let falling = Table::<Amount>::new(vec![(100, amount(3.0)), (200, amount(1.0))]).unwrap();
        assert_eq!(falling.of(175), amount(1.5));
    }

    #[test]
    fn points_that_make_no_table_are_refused() {
        let table = |points: &[(usize, u64)]| {
            Table::<Duration>::new(points.iter().map(|(at, s)| (*at, Duration::from_secs(*s))).collect())
        };
        assert_eq!(table(&[]), Err(TableError::Empty));
        assert_eq!(table(&[(64, 1), (64, 1)]), Err(TableError::NotSorted(1)));
        assert_eq!(table(&[(64, 1), (70_000, 1)]), Err(TableError::TooLong(1)));
        assert_eq!(table(&[(64, 11)]), Err(TableError::TooSlow(0)));
    }

    #[test]
    fn amounts_are_above_zero() {
        assert_eq!([0.0, -1.0, f64::NAN, f64::INFINITY, 2e9].map(Amount::new), [None; 5]);
        assert_eq!(amount(2.786).to_string(), "2.786");
    }

    #[test]
    fn parts_have_to_fit_together() {
        let port = || PortConfig::new(100_000_000, amount(50.0));
        let new = RouterConfig::new;
        assert_eq!(new(vec![], Amount::ONE, tables(), None), Err(RouterConfigError::Ports(0)));
        let still = PortConfig { rate: 0, ..port() };
        let error = new(vec![port(), still], Amount::ONE, tables(), None);
        assert_eq!(error, Err(RouterConfigError::NoRate { port: 1 }));
        let error = new(vec![port()], amount(0.5), tables(), None).unwrap_err();
        assert_eq!(error.to_string(), "packets of 0 bytes need 1 servers, and there are 0.5");
        let small = PortConfig { slots: amount(0.5), ..port() };
        let error = new(vec![small], Amount::ONE, tables(), None).unwrap_err();
        assert!(matches!(error, RouterConfigError::Slots { port: 0, .. }), "{error}");
        let time = Table::<Duration>::constant(Duration::ZERO);
        let cpu = CpuConfig { time, control: Duration::ZERO, ring: 0, is_shared: false };
        assert_eq!(new(vec![port()], Amount::ONE, tables(), Some(cpu)), Err(RouterConfigError::NoRing));
    }
}
