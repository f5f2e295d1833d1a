//! Values chosen from a list of words.

use std::fmt;

use psmc_core::{ClampMss, Direction, Priority, RepairKind, SchedulerKind, Tier};
use psmc_toml::{Kind, choice, choose, within};

/// Which path carries a packet.
pub const SCHEDULER: Kind<SchedulerKind> =
    Kind::text("\"earliest\"", |text| choose("scheduler", SchedulerKind::ALL, SchedulerKind::name, text));

/// What a path is for.
pub const TIER: Kind<Tier> = Kind::text("\"backup\"", |text| choose("tier", Tier::ALL, Tier::name, text));

/// Which way a path carries data.
pub const DIRECTION: Kind<Direction> =
    Kind::text("\"up\"", |text| choose("direction", Direction::ALL, Direction::name, text));

/// How a site makes good what its paths lose.
pub(in crate::config) const REPAIR: Kind<RepairKind> =
    Kind::text("\"auto\"", |text| choose("kind of repair", RepairKind::ALL, RepairKind::name, text));

/// Whose turn it is first, among classes that have not used up their shares.
pub(in crate::config) const PRIORITY: Kind<Priority> = Kind::text("\"high\"", |text| {
    let words = [("high", Priority::High), ("normal", Priority::Normal), ("low", Priority::Low)];
    choose("priority", words, |(word, _)| word, text).map(|(_, priority)| priority)
});

/// What becomes of the MSS that TCP connections through the tunnel agree on: a word, or the most that it may be, from what
/// every host takes to what the largest packet of IPv4 holds (RFC 9293 §3.7.1).
pub(in crate::config) const CLAMP_MSS: Kind<ClampMss> = Kind::text_or_number("\"auto\"", |text| match text {
    "auto" => Ok(ClampMss::Auto),
    "off" => Ok(ClampMss::Off),
    _ => {
        let reason = format_args!("{text:?} is not a valid clamp_mss value");
        let remedy = "write \"auto\", \"off\", or the largest MSS, 536 to 65495 bytes";
        within(text, 536..=65495, reason, remedy).map(ClampMss::To)
    }
});

/// For people.
pub(in crate::config) fn clamp_mss_in_words(clamp_mss: ClampMss) -> String {
    match clamp_mss {
        ClampMss::Auto => "what fits the smallest path".to_owned(),
        ClampMss::Off => "left to the hosts".to_owned(),
        ClampMss::To(limit) => format!("at most {limit}"),
    }
}

choice! {
    /// How the receiver restores the order of a flow, by name.
    #[derive(Default)]
    pub(in crate::config) enum Reorder: "way to reorder", such as "deadline" {
        /// Waits for a missing packet only as long as it can still come.
        #[default]
        Deadline = "deadline",
        /// Waits for some packets, and for some time.
        Fixed = "fixed",
        /// Waits for as many packets as the paths differ by, after the literature's double buffer.
        Adaptive = "adaptive",
        /// Delivers packets as they arrive.
        Off = "off",
    }
}

choice! {
    /// How the rate of a path is found, by name.
    #[derive(Default)]
    pub enum Congestion: "congestion control", such as "cubic" {
        /// By a model of what the path delivers.
        #[default]
        Model = "model",
        /// By CUBIC, for which a loss is congestion.
        Cubic = "cubic",
        /// It is given.
        Fixed = "fixed",
    }
}

choice! {
    /// What is done about flows that heed no loss.
    #[derive(Default)]
    pub(in crate::config) enum Unresponsive: "mode", such as "police" {
        /// Nothing.
        #[default]
        Off = "off",
        /// They are held to what arrives of them.
        Police = "police",
        /// All plain UDP is, by the literature's equations.
        Seed = "seed",
    }
}

choice! {
    /// What becomes of TCP connections through the tunnel.
    #[derive(Default)]
    pub enum Tcp: "treatment of TCP", such as "split" {
        /// Their packets are forwarded.
        #[default]
        Forward = "forward",
        /// They are ended at the sites, and their bytes carried as a stream.
        Split = "split",
    }
}

choice! {
    /// What a path's datagrams are wrapped in.
    #[derive(Default)]
    pub enum Transport: "transport", such as "udp" {
        /// UDP.
        #[default]
        Udp = "udp",
        /// UDP, and that in IPv4 in IPv4 to the relay (RFC 2003).
        IpIp = "ipip",
        /// A stream of TLS over TCP.
        Tls = "tls",
        /// UDP, and beside it a stream of TLS while nothing comes by UDP.
        Auto = "auto",
    }
}

choice! {
    /// When the paths over learned routes carry data.
    #[derive(Default)]
    pub enum RoutePolicy: "use of learned routes", such as "prefer-direct" {
        /// While none of the direct paths is well; meanwhile they stand by.
        #[default]
        PreferDirect = "prefer-direct",
        /// Whenever they work; the direct paths stand by.
        PreferIndirect = "prefer-indirect",
        /// While none of the direct paths is well; otherwise there are none.
        OnFailure = "on-failure",
    }
}

impl fmt::Display for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back() {
        for scheduler in SchedulerKind::ALL {
            assert_eq!(SCHEDULER.read(scheduler.name()), Ok(scheduler));
        }
        for tier in Tier::ALL {
            assert_eq!(TIER.read(tier.name()), Ok(tier));
        }
        for repair in RepairKind::ALL {
            assert_eq!(REPAIR.read(repair.name()), Ok(repair));
        }
        for congestion in [Congestion::Model, Congestion::Cubic, Congestion::Fixed] {
            assert_eq!(congestion.as_str().parse(), Ok(congestion));
        }
        for reorder in [Reorder::Deadline, Reorder::Fixed, Reorder::Adaptive, Reorder::Off] {
            assert_eq!(Reorder::KIND.read(reorder.as_str()), Ok(reorder));
        }
        for policy in [RoutePolicy::PreferDirect, RoutePolicy::PreferIndirect, RoutePolicy::OnFailure] {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert!("direct".parse::<RoutePolicy>().is_err());
    }

    #[test]
    fn a_near_miss_is_recognised() {
        let error = SCHEDULER.read("earlyest").unwrap_err();
        assert_eq!(error.remedy(), "did you mean \"earliest\"?");
    }
}
