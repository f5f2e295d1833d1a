//! A network as it is written down, before anybody has looked whether it is one.

/// A network in plain numbers and names, as files and measurements have it. [`Network::build`](crate::Network::build) checks it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// Where the paths begin.
    pub source: String,
    /// Where they end.
    pub destination: String,
    /// Hosts, routers and relays. Those that only links name are routers.
    pub nodes: Vec<DraftNode>,
    /// Links between them.
    pub links: Vec<DraftLink>,
    /// Routes that were measured, and so are not guessed.
    pub routes: Vec<DraftRoute>,
    /// Whether the route without a relay is a candidate too.
    pub direct: bool,
}

/// A host, a router or a relay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftNode {
    /// Its name, which is unique.
    pub name: String,
    /// Whether it is a relay, and so a candidate.
    pub relay: bool,
    /// Who runs it.
    pub provider: Option<String>,
    /// What a gigabyte through it costs.
    pub price: f64,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftLink {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// Its bandwidth in Mbit/s, in each direction. A link of 0 is down.
    pub bandwidth_mbps: f64,
    /// Its latency in ms, in each direction.
    pub latency_ms: f64,
    /// Whether it leads only from `from` to `to`.
    pub directed: bool,
}

/// The nodes on a way, in order; links must join them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftRoute {
    /// Their names, both ends included.
    pub nodes: Vec<String>,
}

impl DraftNode {
    /// A router or a host.
    pub fn router(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A relay.
    pub fn relay(name: impl Into<String>) -> Self {
        Self { name: name.into(), relay: true, ..Self::default() }
    }
}

impl DraftLink {
    /// A link in both directions.
    pub fn new(from: impl Into<String>, to: impl Into<String>, bandwidth_mbps: f64, latency_ms: f64) -> Self {
        Self { from: from.into(), to: to.into(), bandwidth_mbps, latency_ms, directed: false }
    }

    /// A link in one direction.
    pub fn directed(
        from: impl Into<String>,
        to: impl Into<String>,
        bandwidth_mbps: f64,
        latency_ms: f64,
    ) -> Self {
        Self { directed: true, ..Self::new(from, to, bandwidth_mbps, latency_ms) }
    }
}
