//! Numbers with bounds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use psmc_toml::{Kind, ValueError, within};

/// The share of a path in the `wrr` scheduler: 1 to 1000. That is more than any two useful links differ, and keeps a round
/// of the scheduler short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

/// A [`Weight`].
pub(in crate::config) const WEIGHT: Kind<Weight> = Kind::number("2", str::parse);

impl Weight {
    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Weight {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy =
            "weights go from 1 to 1000; a path of weight 2 gets twice the packets of one of weight 1";
        within(text, 1..=1000, format_args!("{text} is not a weight"), remedy).map(Self)
    }
}

/// Over how many flows of UDP a path is spread: networks that limit flows hardly limit a host to more than a few shares.
pub(in crate::config) const FLOWS: Kind<u8> = Kind::number("4", |text| {
    let remedy = "choose 1 to 8; each flow is a path of its own, with its own probes";
    within(text, 1..=8, format_args!("{text} is no number of flows for a path"), remedy)
});

/// The MTU of an outer link, in bytes of an IP packet: from what every path is taken to carry (RFC 8200 §5, RFC 8899
/// §5.1.2) to the largest packet that IP has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkMtu(u16);

/// A [`LinkMtu`].
pub(in crate::config) const LINK_MTU: Kind<LinkMtu> = Kind::number("1500", str::parse);

impl LinkMtu {
    /// Bytes.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl FromStr for LinkMtu {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "choose 1280 to 65535 bytes, or leave it out to take the interface's";
        within(text, 1280..=65535, format_args!("{text} is no MTU for a path"), remedy).map(Self)
    }
}

/// The MTU of the TUN interface in bytes: from what IPv6 asks of every link (RFC 8200 §5) up to a TUN's 65535 less room for
/// offload headers.
pub(in crate::config) const INNER_MTU: Kind<u16> = Kind::number("1400", |text| {
    let remedy = "choose 1280 to 65000 bytes, or leave it out to have it fitted to the paths";
    within(text, 1280..=65000, format_args!("{text} is no MTU for the tunnel"), remedy)
});

/// The MTU that an interface has at least that is fitted to its paths: a full-size packet then fits, sealed, into an
/// Ethernet frame, PPPoE's or an LTE link's, whatever the IP version of the network.
pub const FITTED_LEAST_MTU: u16 = 1400;

/// What such an interface has at most: what hosts, and the networks behind them, are used to.
pub const FITTED_MOST_MTU: u16 = 1500;

/// How often an idle path says that it is alive. "A NAT UDP mapping timer MUST NOT expire in less than two minutes" (RFC
/// 4787, REQ-5): a longer silence would lose the mapping.
pub(in crate::config) const KEEPALIVE: Kind<Duration> = Kind::text_or_number("\"10s\"", |text| {
    let digits = text.strip_suffix('s').unwrap_or(text).trim_end();
    let remedy = "choose 1 to 120 seconds, written 10 or \"10s\"; NATs forget a path that is silent longer";
    let seconds = within(digits, 1..=120, format_args!("{text:?} is no keepalive interval"), remedy);
    seconds.map(Duration::from_secs)
});

/// Within the 30 s of the strictest common NATs even when two in a row are lost.
pub const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(10);

/// Which of several peers with the same networks comes first.
pub(in crate::config) const GATEWAY_PRIORITY: Kind<u8> = Kind::number("2", |text| {
    within(text, 1..=255, format_args!("{text} is no priority of a peer"), "choose 1, the first, to 255")
});

/// For how long a peer must work again before it gets its networks back: for ever if `None`.
pub(in crate::config) const FAILBACK: Kind<Option<Duration>> = Kind::text_or_number("\"5s\"", |text| {
    if text == "never" {
        return Ok(None);
    }
    let digits = text.strip_suffix('s').unwrap_or(text).trim_end();
    let remedy = "choose 0 to 3600 seconds, written 5 or \"5s\", or \"never\"";
    let seconds =
        within(digits, 0..=3600, format_args!("{text:?} is no time after which a peer is back"), remedy);
    seconds.map(|seconds| Some(Duration::from_secs(seconds)))
});

/// How old keys get before the sites exchange new ones through the tunnel, if no control connection has brought any. The longest is
/// what the engine does by itself: no later, so that no keys are older than a quarter of an hour. Faster than every five seconds would
/// have old keys retire no sooner, and cost time.
pub(in crate::config) const REKEY_AFTER: Kind<Duration> = Kind::text_or_number("\"300s\"", |text| {
    let digits = text.strip_suffix('s').unwrap_or(text).trim_end();
    let remedy = "choose 5 to 870 seconds, written 300 or \"300s\"";
    let seconds = within(digits, 5..=870, format_args!("{text:?} is no age of keys"), remedy);
    seconds.map(Duration::from_secs)
});

/// How long a buffer of fixed size holds a packet. After a second a sender's retransmission timer runs out at the latest
/// (RFC 6298 §2.4).
pub(in crate::config) const BUFFER_TIMEOUT: Kind<Duration> = Kind::text_or_number("\"50ms\"", |text| {
    let digits = text.strip_suffix("ms").unwrap_or(text).trim_end();
    let remedy = "choose 1 to 1000 milliseconds, written 50 or \"50ms\"";
    let ms = within(digits, 1..=1000, format_args!("{text:?} is no time to hold a packet"), remedy);
    ms.map(Duration::from_millis)
});

/// A size of a buffer, in packets. 4096 is the most that the engine waits for in one flow.
pub(in crate::config) const BUFFER_PACKETS: Kind<u16> = Kind::number("20", |text| {
    within(text, 1..=4096, format_args!("{text} is no size for a buffer"), "choose 1 to 4096 packets")
});

/// How many times its lower limit an adaptive buffer is large at first. Below 1 it would be smaller than its lower limit;
/// beyond 16 it would never be full.
pub(in crate::config) const BUFFER_FACTOR: Kind<u16> = Kind::number("2", |text| {
    within(text, 1..=16, format_args!("{text} is no factor for a buffer"), "choose 1 to 16; usual is 2")
});

/// What a buffer of fixed size has where the file does not say: half of the shortest retransmission timeout that Linux has,
/// and the middle of the sizes that the literature found to be equally good (PSMC, fig. 4.6b).
pub(in crate::config) const FIXED_BUFFER: (Duration, u16) = (Duration::from_millis(100), 20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert!("0".parse::<Weight>().is_err() && "1001".parse::<Weight>().is_err());
        assert!(INNER_MTU.read("1279").is_err() && INNER_MTU.read("65001").is_err());
        assert!("1279".parse::<LinkMtu>().is_err() && "65536".parse::<LinkMtu>().is_err());
        assert!(BUFFER_PACKETS.read("0").is_err() && BUFFER_PACKETS.read("4097").is_err());
        assert!(BUFFER_FACTOR.read("0").is_err() && BUFFER_FACTOR.read("17").is_err());
        assert_eq!("1000".parse::<Weight>().unwrap().get(), 1000);
        assert_eq!(INNER_MTU.read("1280"), Ok(1280));
        assert_eq!(BUFFER_PACKETS.read("4096"), Ok(4096));
    }

    #[test]
    fn times_with_and_without_their_units() {
        for text in ["25", "25s", "25 s"] {
            assert_eq!(KEEPALIVE.read(text), Ok(Duration::from_secs(25)));
        }
        for bad in ["0", "121", "25m", "s", "", "-1"] {
            assert!(KEEPALIVE.read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(REKEY_AFTER.read("300s"), Ok(Duration::from_secs(300)));
        for bad in ["4", "871", "15m", ""] {
            assert!(REKEY_AFTER.read(bad).is_err(), "{bad:?}");
        }
        for text in ["50", "50ms", "50 ms"] {
            assert_eq!(BUFFER_TIMEOUT.read(text), Ok(Duration::from_millis(50)));
        }
        for bad in ["0", "1001", "50s", "ms", "", "-1"] {
            assert!(BUFFER_TIMEOUT.read(bad).is_err(), "{bad:?}");
        }
    }
}
