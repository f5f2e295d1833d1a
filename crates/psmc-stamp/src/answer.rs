//! What an answer says, and what is odd about those that are not believed.

use std::fmt;
use std::time::Duration;

use crate::loss::Counters;

/// An answer that is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The number of the probe, from 0.
    pub sequence: u32,
    /// From leaving here to being back, by the clock that nobody sets, without the time that the reflector says it took.
    pub round_trip: Duration,
    /// The delays each way.
    pub one_way: OneWay,
    /// How right each clock is, as this machine and the reflector say.
    pub clocks: [ClockError; 2],
    /// Hops that the probe could still pass when it came to the reflector, of 255; `None` if the reflector cannot tell.
    pub hops_there: Option<u8>,
    /// Hops that the answer could still pass when it came here.
    pub hops_back: Option<u8>,
    /// How many probes were sent up to this one, and had come to the reflector then, if it tells.
    pub counters: Option<Counters>,
    /// Whether a later probe was answered before.
    pub is_reordered: bool,
}

impl Answer {
    /// Whether both clocks are kept right, so that the delays each way mean something by themselves.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.clocks.iter().all(|clock| clock.is_synchronised)
    }
}

/// The delays each way, in nanoseconds. They are the differences of two clocks: where these are not kept right, only the change of
/// a delay means anything, and a delay may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneWay {
    /// What the timestamps say.
    Measured {
        /// To the reflector.
        forward: i64,
        /// And back.
        backward: i64,
    },
    /// A clock was set meanwhile, here or there.
    ClockSet,
    /// The timestamps of the reflector cannot be right.
    Implausible,
}

/// How right a clock is (RFC 8762 section 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockError {
    /// Whether something keeps it right.
    pub is_synchronised: bool,
    /// By how many seconds it may be wrong, at most.
    pub seconds: f64,
}

/// What is odd about a packet, or was said of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It has less bytes than an answer.
    Truncated,
    /// Its HMAC is not that of the key: it is false, or the reflector has another key, or none.
    WrongHmac,
    /// It comes from another address than the one that was asked.
    OtherAddress,
    /// It answers nothing that was asked, or gives back something else than was sent.
    Unasked,
    /// Its probe was answered before.
    Doubled,
    /// Its probe had been given up.
    Late,
    /// A later probe was answered before. The answer counts.
    Reordered,
    /// Its timestamps cannot be right. Only its round trip counts.
    Implausible,
    /// Its extensions cannot be read, or are not authentic. The answer counts, what they say does not.
    MalformedExtensions,
    /// A router, or the host itself, has said that a probe could not be delivered (ICMP).
    Undeliverable,
}

impl Oddity {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Truncated,
        Self::WrongHmac,
        Self::OtherAddress,
        Self::Unasked,
        Self::Doubled,
        Self::Late,
        Self::Reordered,
        Self::Implausible,
        Self::MalformedExtensions,
        Self::Undeliverable,
    ];

    /// Its name, for people and machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::WrongHmac => "wrong_hmac",
            Self::OtherAddress => "other_address",
            Self::Unasked => "unasked",
            Self::Doubled => "doubled",
            Self::Late => "late",
            Self::Reordered => "reordered",
            Self::Implausible => "implausible",
            Self::MalformedExtensions => "malformed_extensions",
            Self::Undeliverable => "undeliverable",
        }
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many there were of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities([u64; Oddity::ALL.len()]);

impl Oddities {
    pub(crate) fn count(&mut self, oddity: Oddity) {
        self.0[oddity as usize] += 1;
    }

    /// How many of one kind.
    #[must_use]
    pub fn of(&self, oddity: Oddity) -> u64 {
        self.0[oddity as usize]
    }

    /// Those that there were, with how many.
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, u64)> {
        Oddity::ALL.map(|oddity| (oddity, self.of(oddity))).into_iter().filter(|(_, count)| *count > 0)
    }
}
