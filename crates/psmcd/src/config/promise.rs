//! What was promised to a site, `[[sla.target]]`, and how it is measured.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use psmc_stamp::Key;
use psmc_toml::{InterfaceName, Name, Rate, rate_text};

/// A promise that is watched, `[[sla.target]]`. At least one of the limits is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its name.
    pub name: Name,
    /// What it is about.
    pub measured: Measured,
    /// How long packets may take.
    pub delay: Option<DelayLimit>,
    /// The packets that may be lost, of a million.
    pub loss_ppm: Option<u32>,
    /// The least that must be carried whenever as much is there to be sent.
    pub throughput: Option<Rate>,
    /// The class of which that is; of all if `None`.
    pub class: Option<Name>,
    /// Whether idle paths are probed, so that it is always known.
    pub probe: bool,
    /// What is looked at together.
    pub window: Duration,
    /// The program that is told of a breach, and of its end.
    pub on_breach: Option<PathBuf>,
    /// How it is found that the promise is broken.
    pub method: Method,
}

/// What a promise is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The tunnel to this peer.
    Peer(Name),
    /// The way to a STAMP reflector.
    Stamp {
        /// Where it is.
        reflector: SocketAddr,
        /// The key that it has, too.
        key: Option<Key>,
        /// Through which interface; `None` follows the routes.
        uplink: Option<InterfaceName>,
        /// From one probe to the next.
        interval: Duration,
    },
}

/// A limit of a quantile of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayLimit {
    /// The quantile in per cent: 50, 95 or 99.
    pub percentile: u8,
    /// The most that the delay may be.
    pub most: Duration,
}

psmc_toml::choice! {
    /// How it is found that a promise is broken.
    pub enum Method: "method", such as "counted" {
        /// From all that was counted in a window; relays and peer are asked all the time.
        Counted = "counted",
        /// As the literature has it: relays and peer are asked only once an average of the delay is too high.
        Seed = "seed",
    }
}

impl Promise {
    /// Files and sockets that watching it takes.
    pub(super) fn open_files(&self) -> usize {
        match self.measured {
            Measured::Peer(_) => 0,
            Measured::Stamp { .. } => 1,
        }
    }

    /// The delay limit's share of packets that may be late, 0 to 1.
    pub(crate) fn may_be_late(&self) -> Option<f64> {
        self.delay.map(|delay| 1.0 - f64::from(delay.percentile) / 100.0)
    }

    /// The share of packets that may be lost, 0 to 1.
    pub(crate) fn may_be_lost(&self) -> Option<f64> {
        self.loss_ppm.map(|ppm| f64::from(ppm) / 1e6)
    }

    /// What was promised, in words.
    pub fn limits(&self) -> impl Display + '_ {
        fmt::from_fn(|f| {
            let mut gap = "";
            if let Some(DelayLimit { percentile, most }) = self.delay {
                write!(f, "delay p{percentile} ≤ {} ms", most.as_secs_f64() * 1e3)?;
                gap = ", ";
            }
            if let Some(ppm) = self.loss_ppm {
                write!(f, "{gap}loss ≤ {} %", f64::from(ppm) / 1e4)?;
                gap = ", ";
            }
            if let Some(rate) = self.throughput {
                write!(f, "{gap}throughput ≥ {}", rate_text(rate.bits_per_second()))?;
            }
            if let Some(class) = &self.class {
                write!(f, " of class {class}")?;
            }
            Ok(())
        })
    }
}

impl Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(name) => write!(f, "peer {name}"),
            Self::Stamp { reflector, .. } => write!(f, "STAMP reflector {reflector}"),
        }
    }
}
