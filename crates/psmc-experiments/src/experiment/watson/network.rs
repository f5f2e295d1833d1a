//! A client and a server with intermediate nodes between them, as a scenario.

use crate::experiment::bed;

/// How the download goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Network {
    /// Over a link between the two, without a tunnel.
    Direct {
        /// In kB/s.
        limit: u32,
    },
    /// Through a tunnel with a path over each of so many nodes.
    Nodes {
        nodes: u32,
        /// Of each, in kB/s.
        limit: u32,
        buffer: Buffer,
    },
}

/// Whether packets that arrive out of order wait for those that are missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Buffer {
    Off,
    On,
}

impl Network {
    /// How long the download should take, at the limit: the slower it is, the longer it takes to get going.
    pub(super) fn best_seconds(self) -> u32 {
        let (Self::Direct { limit } | Self::Nodes { limit, .. }) = self;
        if limit <= SLOW { 2 * SECONDS } else { SECONDS }
    }

    /// The scenario, as [`Setup::run`](super::Setup::run) takes it: a download of as much as the limit lets through in so many seconds.
    pub(super) fn scenario(self, seconds: u32) -> String {
        let duration = seconds + seconds.div_ceil(PATIENCE);
        let (network, via, bytes) = match self {
            Self::Direct { limit } => (direct(limit), "limited", limit * 1000 * seconds),
            Self::Nodes { nodes, limit, buffer } => {
                let links: String = (1..=nodes).map(|node| through(node, limit)).collect();
                (links + &tunnel(nodes, buffer), "tunnel", nodes * limit * 1000 * seconds)
            }
        };
        format!(
            "duration = \"{duration}s\"\n\n\
             {network}[[traffic]]\nname = \"download\"\nkind = \"tcp\"\ncongestion_control = \"reno\"\n\
             from = \"server\"\nto = \"client\"\nvia = \"{via}\"\nbytes = {bytes}\n"
        )
    }
}

impl Buffer {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Off => "no buffer",
            Self::On => "buffer",
        }
    }

    /// For the names of files, and as the tunnel's setting calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "deadline",
        }
    }
}

fn direct(limit: u32) -> String {
    format!(
        "[[link]]\nname = \"limited\"\nbetween = [\"client\", \"server\"]\n{}\n",
        limited(limit * BITS_PER_KILOBYTE)
    )
}

/// A node, its limited link to the client, and its fast one to the server.
fn through(node: u32, limit: u32) -> String {
    let raised = bed::raised(u64::from(limit * BITS_PER_KILOBYTE));
    let limited = limited(raised);
    format!(
        "[[link]]\nname = \"near{node}\"\nbetween = [\"client\", \"node{node}\"]\n{limited}\n\
         [[link]]\nname = \"far{node}\"\nbetween = [\"node{node}\", \"server\"]\n\
         addresses = [\"10.2.{node}.1/24\", \"10.2.{node}.2/24\"]\nrate = \"100mbit\"\n\n"
    )
}

fn tunnel(nodes: u32, buffer: Buffer) -> String {
    let path = |node: u32| {
        format!(
            "[[tunnel.path]]\nname = \"node{node}\"\nlink = \"near{node}\"\nendpoint = \"10.2.{node}.2\"\n\n"
        )
    };
    let paths: String = (1..=nodes).map(path).collect();
    let reorder = buffer.name();
    format!(
        "[[tunnel]]\nname = \"tunnel\"\nbetween = [\"client\", \"server\"]\nsettings.reorder = \"{reorder}\"\n\n{paths}"
    )
}

fn limited(bits: impl Into<u64>) -> String {
    let bits = bits.into();
    format!("rate = \"{bits}bit\"\ndelay = \"1ms\"\nqueue = \"50 packets\"\n")
}

const BITS_PER_KILOBYTE: u32 = 8000;

/// Long beside a full queue at the usual rates.
const SECONDS: u32 = 10;

/// At these rates, in kB/s, a full queue takes seconds.
const SLOW: u32 = 50;

/// What is not done after a third more of the time is far from the limit.
const PATIENCE: u32 = 3;
