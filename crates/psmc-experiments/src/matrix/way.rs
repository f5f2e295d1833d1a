//! By which ways the data can go, and who competes.

use clap::ValueEnum;

use psmc_lab::headers;

/// What carries the inner flow from one site to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Path A by itself, without any tunnel.
    PathA,
    /// Path B by itself, without any tunnel.
    PathB,
    /// MPTCP sockets (RFC 8684) with a subflow on either path.
    Mptcp,
    /// The tunnel over both paths.
    Psmc,
}

/// What PSMC is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Each path by itself, without any tunnel
    Direct,
    /// MPTCP sockets on the same links
    Mptcp,
}

/// The inner flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Inner {
    /// TCP with CUBIC
    Cubic,
    /// TCP with BBR
    Bbr,
    /// QUIC with CUBIC
    Quic,
}

impl Peer {
    /// Everybody there is.
    pub(crate) const ALL: [Self; 2] = [Self::Direct, Self::Mptcp];

    /// What must be measured for it.
    pub(crate) fn ways(self) -> &'static [Way] {
        match self {
            Self::Direct => &[Way::PathA, Way::PathB],
            Self::Mptcp => &[Way::Mptcp],
        }
    }
}

impl Way {
    /// Whether such a flow can go this way: MPTCP carries TCP only.
    pub(crate) fn carries(self, inner: Inner) -> bool {
        self != Self::Mptcp || inner != Inner::Quic
    }

    /// Which of the two paths it uses.
    pub(super) fn paths(self) -> &'static [usize] {
        match self {
            Self::PathA => &[0],
            Self::PathB => &[1],
            Self::Mptcp | Self::Psmc => &[0, 1],
        }
    }

    /// In the names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PathA => "path-a",
            Self::PathB => "path-b",
            Self::Mptcp => "mptcp",
            Self::Psmc => "psmc",
        }
    }
}

impl Inner {
    /// Every kind there is.
    pub(crate) const ALL: [Self; 3] = [Self::Cubic, Self::Bbr, Self::Quic];

    /// As `--inner` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Quic => "quic",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cubic => "TCP with CUBIC",
            Self::Bbr => "TCP with BBR",
            Self::Quic => "QUIC with CUBIC",
        }
    }

    /// Bytes of headers in each of its full-size packets, from IPv4's on: TCP's; QUIC's with UDP's, a connection
    /// id of 8 bytes, the head of a STREAM frame and the tag, some of which vary by a few bytes.
    pub(super) fn headers(self) -> u32 {
        match self {
            Self::Cubic | Self::Bbr => headers::TCP,
            Self::Quic => headers::UDP + 12 + 8 + 16,
        }
    }

    /// Its settings, as a scenario takes them.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Cubic => "kind = \"tcp\"\ncongestion_control = \"cubic\"\n",
            Self::Bbr => "kind = \"tcp\"\ncongestion_control = \"bbr\"\n",
            Self::Quic => "kind = \"quic\"\ncongestion_control = \"cubic\"\n",
        }
    }
}
