//! Networks as TOML or JSON, which have the same keys, and as measured lists of hops.

use psmc_select::{Draft, DraftLink, DraftNode, Hop, Trace};
use serde::{Deserialize, Serialize};

use super::Malformed;

/// The file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
    #[serde(default)]
    direct: bool,
    #[serde(default, rename = "relay", skip_serializing_if = "Vec::is_empty")]
    relays: Vec<Relay>,
    #[serde(default, rename = "link", skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    #[serde(default, rename = "trace", skip_serializing_if = "Vec::is_empty")]
    traces: Vec<FileTrace>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Relay {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(default)]
    price: f64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Link {
    from: String,
    to: String,
    bandwidth_mbps: f64,
    latency_ms: f64,
    #[serde(default)]
    directed: bool,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileTrace {
    from: String,
    hops: Vec<FileHop>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileHop {
    node: String,
    rtt_ms: f64,
    bandwidth_mbps: f64,
}

pub(super) fn from_toml(text: &str) -> Result<Draft, Malformed> {
    draft(toml::from_str(text)?)
}

pub(super) fn from_json(text: &str) -> Result<Draft, Malformed> {
    draft(serde_json::from_str(text)?)
}

pub(super) fn to_toml(draft: &Draft) -> Result<String, toml::ser::Error> {
    let relays = draft.nodes.iter().filter(|node| node.relay);
    toml::to_string(&File {
        source: draft.source.clone(),
        destination: draft.destination.clone(),
        direct: draft.direct,
        relays: relays.map(Relay::of).collect(),
        links: draft.links.iter().map(Link::of).collect(),
        traces: Vec::new(),
    })
}

fn draft(file: File) -> Result<Draft, Malformed> {
    let mut draft = Draft {
        source: file.source,
        destination: file.destination,
        nodes: file.relays.into_iter().map(Relay::node).collect(),
        links: file.links.into_iter().map(Link::link).collect(),
        routes: Vec::new(),
        direct: file.direct,
    };
    let traces: Vec<_> = file.traces.into_iter().map(FileTrace::trace).collect();
    draft.add_traces(&traces)?;
    Ok(draft)
}

impl Relay {
    fn of(node: &DraftNode) -> Self {
        Self { name: node.name.clone(), provider: node.provider.clone(), price: node.price }
    }

    fn node(self) -> DraftNode {
        DraftNode { provider: self.provider, price: self.price, ..DraftNode::relay(self.name) }
    }
}

impl Link {
    fn of(link: &DraftLink) -> Self {
        let DraftLink { from, to, bandwidth_mbps, latency_ms, directed } = link.clone();
        Self { from, to, bandwidth_mbps, latency_ms, directed }
    }

    fn link(self) -> DraftLink {
        let Self { from, to, bandwidth_mbps, latency_ms, directed } = self;
        DraftLink { from, to, bandwidth_mbps, latency_ms, directed }
    }
}

impl FileTrace {
    fn trace(self) -> Trace {
        let hop = |FileHop { node, rtt_ms, bandwidth_mbps }| Hop { node, rtt_ms, bandwidth_mbps };
        Trace { from: self.from, hops: self.hops.into_iter().map(hop).collect() }
    }
}

/// Traces as one can write them down from `traceroute` and `pathchar`.
pub(super) fn from_hops(text: &str) -> Result<Draft, Malformed> {
    let mut list = List::default();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        list.read(&words).map_err(|reason| Malformed::Line { line: index + 1, reason })?;
    }
    list.draft.add_traces(&list.traces)?;
    Ok(list.draft)
}

/// What was read so far of a measured list.
#[derive(Default)]
struct List {
    draft: Draft,
    traces: Vec<Trace>,
}

impl List {
    fn read(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => {}
            ["source", name] => (*name).clone_into(&mut self.draft.source),
            ["destination", name] => (*name).clone_into(&mut self.draft.destination),
            ["direct"] => self.draft.direct = true,
            ["relay", name, rest @ ..] => self.draft.nodes.push(relay(name, rest)?),
            ["trace", from] => {
                self.traces.push(Trace { from: (*from).to_owned(), hops: Vec::new() });
            }
            [node, rtt, bandwidth] => self.hop(node, number(rtt)?, number(bandwidth)?)?,
            other => {
                return Err(format!(
                    "{:?} is nothing of: source NAME, destination NAME, direct, relay NAME, trace FROM, \
                     or, below a trace, NODE RTT_MS MBPS",
                    other.join(" ")
                ));
            }
        }
        Ok(())
    }

    fn hop(&mut self, node: &str, rtt_ms: f64, bandwidth_mbps: f64) -> Result<(), String> {
        let trace = self.traces.last_mut().ok_or("a hop needs a line `trace FROM` above it")?;
        trace.hops.push(Hop { node: node.to_owned(), rtt_ms, bandwidth_mbps });
        Ok(())
    }
}

fn relay(name: &str, options: &[&str]) -> Result<DraftNode, String> {
    let mut node = DraftNode::relay(name);
    for option in options {
        match option.split_once('=') {
            Some(("provider", provider)) => node.provider = Some(provider.to_owned()),
            Some(("price", price)) => node.price = number(price)?,
            Some(_) | None => {
                return Err(format!(
                    "{option:?} is no option of a relay; write provider=NAME or price=NUMBER"
                ));
            }
        }
    }
    Ok(node)
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}
