//! Networks from measurements: what `traceroute` and `pathchar` print.

use std::collections::BTreeMap;

use super::{Draft, DraftLink, DraftNode, DraftRoute};

/// The hops between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where it was measured.
    pub from: String,
    /// The hops, the last of which is where it leads.
    pub hops: Vec<Hop>,
}

/// A hop of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The router, or at last the host.
    pub node: String,
    /// The round trip from the beginning of the trace to here, in ms.
    pub rtt_ms: f64,
    /// The bandwidth of the link that leads here, in Mbit/s.
    pub bandwidth_mbps: f64,
}

/// Why traces are no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Nothing was measured.
    #[error("the trace from {0:?} has no hops; measure it again, or remove it")]
    Empty(String),
    /// It comes to a place for the second time.
    #[error("the trace from {0:?} visits {1:?} twice; the route changed meanwhile, measure it again")]
    Circle(String, String),
}

impl Draft {
    /// Adds what was measured: routers, links, and the routes themselves, which are then used as they are.
    ///
    /// A link's latency is half of what the round trip grows by. Where several traces share a link, it has the least latency
    /// (queues only add to it) and the least bandwidth (to be on the safe side).
    pub fn add_traces(&mut self, traces: &[Trace]) -> Result<(), TraceError> {
        let mut links = BTreeMap::new();
        for trace in traces {
            self.routes.push(trace.route()?);
            for (ends, figures) in trace.links() {
                let known = links.entry(ends).or_insert(figures);
                *known = (least(known.0, figures.0), least(known.1, figures.1));
            }
        }
        let link = |((from, to), (bandwidth, latency))| DraftLink::directed(from, to, bandwidth, latency);
        self.links.extend(links.into_iter().map(link));
        self.add_missing_nodes();
        Ok(())
    }

    fn add_missing_nodes(&mut self) {
        let mut known: std::collections::BTreeSet<_> =
            self.nodes.iter().map(|node| node.name.clone()).collect();
        let names = self.routes.iter().flat_map(|route| &route.nodes);
        let new: Vec<_> = names.filter(|name| known.insert((*name).clone())).cloned().collect();
        self.nodes.extend(new.into_iter().map(DraftNode::router));
    }
}

impl Trace {
    fn route(&self) -> Result<DraftRoute, TraceError> {
        if self.hops.is_empty() {
            return Err(TraceError::Empty(self.from.clone()));
        }
        let mut nodes = vec![self.from.clone()];
        for hop in &self.hops {
            if nodes.contains(&hop.node) {
                return Err(TraceError::Circle(self.from.clone(), hop.node.clone()));
            }
            nodes.push(hop.node.clone());
        }
        Ok(DraftRoute { nodes })
    }

    /// The links with their bandwidths and latencies. A round trip that shrinks on the way is noise: a latency of 0.
    fn links(&self) -> impl Iterator<Item = ((String, String), (f64, f64))> {
        let mut before = (self.from.as_str(), 0.0_f64);
        self.hops.iter().map(move |hop| {
            let (from, rtt) = before;
            before = (&hop.node, hop.rtt_ms.max(rtt));
            // What is no round trip must be heard of, and so is kept.
            let latency = if hop.rtt_ms >= 0.0 { ((hop.rtt_ms - rtt) / 2.0).max(0.0) } else { hop.rtt_ms };
            ((from.to_owned(), hop.node.clone()), (hop.bandwidth_mbps, latency))
        })
    }
}

/// The lesser of two numbers; none, if one of them is none.
fn least(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}
