//! Who is served next in front of a full server, and how many at a time: the ratios of response times between classes of users.
//!
//! A request has a class. Where a server takes only so many at once, the others wait in front of it, and a class of ratio 3 takes three
//! times as long, from its arrival to its answer, as one of ratio 1. The idea is the seed's proportional differentiation (PSMC
//! chapter VI, eq. 6.1), which divides a server's processes among classes. Here requests of all classes may have any place at a
//! server, and what differs is who comes next.
//!
//! | module | what it has |
//! |---|---|
//! | [`admission`] | the whole: requests come, wait, have a place at a server, end |
//! | [`queue`] | requests that wait, by class, and who is next: by age, or by weights |
//! | [`ratios`] | a correction of each class's standing, from the response times of a sampling period |
//! | [`limit`] | how many requests a server takes at once, measured or fixed |
//! | [`plan`] | what classes would see, from what comes |
//! | [`window`] | what was measured of a class in a sampling period |
//! | [`allocate`] | the seed's allocations: fixed, by queueing theory (eq. 6.4, alg. 6.1), with feedback (eq. 6.7) |
//!
//! Times are durations since an epoch that the caller chooses; nothing here reads a clock, a file or chance.
//!
//! ```
//! use std::time::Duration;
//!
//! use psmc_shares::admission::{Admission, Arrival, ClassConfig, Config, LimitConfig, Outcome, Ready, ServerConfig};
//! use psmc_shares::ClassId;
//!
//! let class = |ratio| ClassConfig { ratio, ..ClassConfig::default() };
//! let server = ServerConfig { limit: LimitConfig::Fixed(1), ..ServerConfig::default() };
//! let config = Config { classes: vec![class(1.0), class(3.0)], servers: vec![server], ..Config::default() };
//! let ms = Duration::from_millis;
//! let mut front = Admission::new(config, ms(0)).unwrap();
//! // The server takes one at a time. It has one, and two wait: one of each class, which came at the same time.
//! let Arrival::Admitted(first) = front.arrive(ClassId(0), ms(0)) else { panic!("the server is free") };
//! let Arrival::Queued(low) = front.arrive(ClassId(1), ms(1)) else { panic!("it has a request") };
//! let Arrival::Queued(high) = front.arrive(ClassId(0), ms(1)) else { panic!("it has a request") };
//! front.finish(first, Outcome::Answered, ms(10));
//! let Some(Ready::Admitted { handle, ticket }) = front.poll_ready() else { panic!("there is room for one") };
//! assert_eq!(handle, high);
//! // The client of the other one hangs up; nothing is left to be done then.
//! assert!(front.cancel(low, ms(11)));
//! front.finish(ticket, Outcome::Answered, ms(20));
//! assert!(front.poll_ready().is_none());
//! ```

#![forbid(unsafe_code)]

pub mod admission;
pub mod allocate;
pub mod limit;
pub mod plan;
pub mod queue;
pub mod ratios;
pub mod window;

/// A class of users, by its place among those that were configured; the first one is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(pub usize);

/// Some of the classes that were configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSet(u64);

impl ClassSet {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// All that there may be.
    pub const ALL: Self = Self(u64::MAX);

    /// These; what is no class is left out.
    #[must_use]
    pub fn of(classes: impl IntoIterator<Item = ClassId>) -> Self {
        let of = |class: ClassId| if class.0 < MAX_CLASSES { 1 << class.0 } else { 0 };
        Self(classes.into_iter().fold(0, |all, class| all | of(class)))
    }

    /// Whether this class is among them.
    #[must_use]
    pub fn has(self, class: ClassId) -> bool {
        class.0 < MAX_CLASSES && self.0 >> class.0 & 1 == 1
    }

    /// These and those.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn len(self) -> u32 {
        self.0.count_ones()
    }
}

impl Default for ClassSet {
    fn default() -> Self {
        Self::ALL
    }
}

/// A server, by its place among those that were configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerId(pub usize);

/// Classes: each dispatch looks at the head of each, and nobody keeps more promises than this apart.
pub const MAX_CLASSES: usize = 64;

/// Servers: each dispatch looks at all of them.
pub const MAX_SERVERS: usize = 1024;
