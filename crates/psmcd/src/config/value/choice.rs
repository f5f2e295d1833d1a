//! Values chosen from a list.

use std::fmt;
use std::str::FromStr;

use psmc_core::{RepairKind, SchedulerKind};
use psmc_toml::{Form, Setting, ValueError, choose};

/// Which path carries a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheduler {
    /// The path on which this packet arrives first.
    #[default]
    Earliest,
    /// Weighted round robin.
    Wrr,
    /// Weighted round robin whose weights follow what the paths deliver.
    WrrAdaptive,
    /// All packets of a flow on the same path.
    Flow,
    /// Every packet on every path.
    Redundant,
    /// One path as long as it works, then the next by weight.
    Backup,
}

impl Scheduler {
    const ALL: [Self; 6] =
        [Self::Earliest, Self::Wrr, Self::WrrAdaptive, Self::Flow, Self::Redundant, Self::Backup];

    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Wrr => "wrr",
            Self::WrrAdaptive => "wrr-adaptive",
            Self::Flow => "flow",
            Self::Redundant => "redundant",
            Self::Backup => "backup",
        }
    }

    /// What the engine calls it.
    pub fn kind(self) -> SchedulerKind {
        match self {
            Self::Earliest => SchedulerKind::Earliest,
            Self::Wrr => SchedulerKind::Wrr,
            Self::WrrAdaptive => SchedulerKind::WrrAdaptive,
            Self::Flow => SchedulerKind::Flow,
            Self::Redundant => SchedulerKind::Redundant,
            Self::Backup => SchedulerKind::Backup,
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scheduler {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("scheduler", Self::ALL, Self::as_str, text)
    }
}

impl Setting for Scheduler {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"earliest\"";
}

/// How the receiver restores the order of a flow, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::config) enum Reorder {
    /// Waits for a missing packet only as long as it can still come.
    #[default]
    Deadline,
    /// Waits for some packets, and for some time.
    Fixed,
    /// Waits for as many packets as the paths differ by, after the literature's double buffer.
    Adaptive,
    /// Delivers packets as they arrive.
    Off,
}

impl Reorder {
    const ALL: [Self; 4] = [Self::Deadline, Self::Fixed, Self::Adaptive, Self::Off];

    /// As the configuration spells it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reorder {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("way to reorder", Self::ALL, Self::as_str, text)
    }
}

impl Setting for Reorder {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"deadline\"";
}

/// How the rate of a path is found, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Congestion {
    /// By a model of what the path delivers.
    #[default]
    Model,
    /// By CUBIC, for which a loss is congestion.
    Cubic,
    /// It is given.
    Fixed,
}

impl Congestion {
    const ALL: [Self; 3] = [Self::Model, Self::Cubic, Self::Fixed];

    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Cubic => "cubic",
            Self::Fixed => "fixed",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Congestion {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("congestion control", Self::ALL, Self::as_str, text)
    }
}

impl Setting for Congestion {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"cubic\"";
}

/// How a site makes good what its paths lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Sends it again, on the path where it arrives first, and repairs ahead while there is room.
    #[default]
    Auto,
    /// Sends it again, and nothing else.
    Resend,
    /// Sends everything on two paths.
    Duplicate,
    /// Has packets followed by repairs, from which what is lost can be computed.
    Fec,
    /// Doesn't.
    Off,
}

impl Repair {
    const ALL: [Self; 5] = [Self::Auto, Self::Resend, Self::Duplicate, Self::Fec, Self::Off];

    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Resend => "resend",
            Self::Duplicate => "duplicate",
            Self::Fec => "fec",
            Self::Off => "off",
        }
    }

    /// What the engine calls it.
    pub(crate) fn kind(self) -> RepairKind {
        match self {
            Self::Auto => RepairKind::Auto,
            Self::Resend => RepairKind::Resend,
            Self::Duplicate => RepairKind::Duplicate,
            Self::Fec => RepairKind::Fec,
            Self::Off => RepairKind::Off,
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Repair {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("kind of repair", Self::ALL, Self::as_str, text)
    }
}

impl Setting for Repair {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"auto\"";
}

/// What a path's datagrams are wrapped in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encapsulation {
    /// UDP.
    #[default]
    Udp,
    /// UDP, and that in IPv4 in IPv4 to the relay (RFC 2003).
    IpIp,
}

impl Encapsulation {
    const ALL: [Self; 2] = [Self::Udp, Self::IpIp];

    fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::IpIp => "ipip",
        }
    }
}

impl FromStr for Encapsulation {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("encapsulation", Self::ALL, Self::as_str, text)
    }
}

impl Setting for Encapsulation {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"udp\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back() {
        for scheduler in Scheduler::ALL {
            assert_eq!(scheduler.as_str().parse(), Ok(scheduler));
            assert_eq!(scheduler.as_str(), scheduler.kind().name());
        }
        for congestion in Congestion::ALL {
            assert_eq!(congestion.as_str().parse(), Ok(congestion));
        }
        for reorder in Reorder::ALL {
            assert_eq!(reorder.as_str().parse(), Ok(reorder));
        }
        for repair in Repair::ALL {
            assert_eq!(repair.as_str().parse(), Ok(repair));
            assert_eq!(repair.as_str(), repair.kind().name());
        }
    }

    #[test]
    fn a_near_miss_is_recognised() {
        let error = "earlyest".parse::<Scheduler>().unwrap_err();
        assert_eq!(error.remedy(), "did you mean \"earliest\"?");
    }
}
