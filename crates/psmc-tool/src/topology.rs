//! Networks in files, for the selection of relays and paths: TOML, JSON, GraphML, DOT, and lists of hops.
//!
//! `docs/SELECTION.md` describes the formats.

mod dot;
mod graphml;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use psmc_select::{Draft, DraftLink, DraftNode, TraceError};

/// Why a file is no network.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The file cannot be read.
    #[error("cannot read {}: {}; check the path", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// It is larger than any network that makes sense.
    #[error("{} is larger than {MAX_MIB} MiB; this is no network, check the path", .0.display())]
    TooLarge(PathBuf),
    /// Its name does not tell what it is.
    #[error("{} ends with none of .toml, .json, .graphml, .dot, .gv and .hops; rename it to say what it is", .0.display())]
    UnknownFormat(PathBuf),
    /// It is not what its name says.
    #[error("{} is no network: {}", .0.display(), .1)]
    Malformed(PathBuf, Malformed),
}

/// What is wrong with the text of a file.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Its TOML.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// Its JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its XML.
    #[error("{0}")]
    Xml(#[from] roxmltree::Error),
    /// Its traces.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Something else, at a line.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do about it.
        reason: String,
    },
}

/// Makes a network of the text of a file.
type Parser = fn(&str) -> Result<Draft, Malformed>;

/// Reads a network. What it is, the end of its name says.
pub fn read(path: &Path) -> Result<Draft, TopologyError> {
    let parse = parser(path).ok_or_else(|| TopologyError::UnknownFormat(path.to_owned()))?;
    let unreadable = |error| TopologyError::Unreadable(path.to_owned(), error);
    if fs::metadata(path).map_err(unreadable)?.len() > MAX_MIB << 20 {
        return Err(TopologyError::TooLarge(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    parse(&text).map_err(|cause| TopologyError::Malformed(path.to_owned(), cause))
}

/// Writes a network as TOML that [`read`] reads.
pub fn to_toml(draft: &Draft) -> Result<String, toml::ser::Error> {
    tables::to_toml(draft)
}

fn parser(path: &Path) -> Option<Parser> {
    match path.extension()?.to_str()? {
        "toml" => Some(tables::from_toml),
        "json" => Some(tables::from_json),
        "graphml" => Some(graphml::parse),
        "dot" | "gv" => Some(dot::parse),
        "hops" => Some(tables::from_hops),
        _ => None,
    }
}

/// What GraphML and DOT say, by names: the attributes of a node, of a link, or of the graph.
type Attributes = BTreeMap<String, String>;

/// Adds a node. Its `role` is `source`, `destination`, `relay` or `router`; a relay has a `provider` and a `price`.
fn add_node(draft: &mut Draft, name: &str, attributes: &Attributes) -> Result<(), String> {
    let role = attributes.get("role").map_or("router", String::as_str);
    match role {
        "source" => name.clone_into(&mut draft.source),
        "destination" => name.clone_into(&mut draft.destination),
        "relay" | "router" => {}
        other => {
            return Err(format!(
                "{name:?} has the role {other:?}; write source, destination, relay or router"
            ));
        }
    }
    let provider = attributes.get("provider").cloned();
    let price = number(attributes, "price")?.unwrap_or(0.0);
    draft.nodes.push(DraftNode { name: name.to_owned(), relay: role == "relay", provider, price });
    Ok(())
}

/// Adds a link. It has `bandwidth_mbps` and `latency_ms`.
fn add_link(
    draft: &mut Draft,
    (from, to): (&str, &str),
    directed: bool,
    attributes: &Attributes,
) -> Result<(), String> {
    let missing = |key| format!("the link from {from:?} to {to:?} has no {key}; add it");
    let bandwidth = number(attributes, "bandwidth_mbps")?.ok_or_else(|| missing("bandwidth_mbps"))?;
    let latency = number(attributes, "latency_ms")?.ok_or_else(|| missing("latency_ms"))?;
    draft.links.push(DraftLink { directed, ..DraftLink::new(from, to, bandwidth, latency) });
    Ok(())
}

/// Sets what the graph has: whether the route without a relay is a candidate, `direct`.
fn set_graph(draft: &mut Draft, attributes: &Attributes) -> Result<(), String> {
    if let Some(direct) = attributes.get("direct") {
        draft.direct = direct.parse().map_err(|_| format!("direct is {direct:?}; write true or false"))?;
    }
    Ok(())
}

fn number(attributes: &Attributes, key: &str) -> Result<Option<f64>, String> {
    let parse = |text: &String| text.parse().map_err(|_| format!("{key} is {text:?}, which is no number"));
    attributes.get(key).map(parse).transpose()
}

/// Room for a million nodes with as many links, in the wordiest of the formats.
const MAX_MIB: u64 = 1024;

#[cfg(test)]
mod tests {
    use psmc_select::Network;

    use super::*;

    fn parse(format: &str, text: &str) -> Result<Draft, Malformed> {
        parser(Path::new(&format!("network.{format}"))).unwrap()(text)
    }

    fn complaint(format: &str, text: &str) -> String {
        parse(format, text).unwrap_err().to_string()
    }

    /// What all formats can say.
    fn example() -> Draft {
        let relay = DraftNode { provider: Some("acme".into()), price: 0.02, ..DraftNode::relay("fra") };
        Draft {
            source: "van".into(),
            destination: "hq".into(),
            nodes: vec![relay],
            links: vec![DraftLink::new("van", "fra", 40.0, 9.5), DraftLink::new("fra", "hq", 50.0, 3.0)],
            routes: vec![],
            direct: true,
        }
    }

    const TOML: &str = r#"
source = "van"
destination = "hq"
direct = true
[[relay]]
name = "fra"
provider = "acme"
price = 0.02
[[link]]
from = "van"
to = "fra"
bandwidth_mbps = 40
latency_ms = 9.5
[[link]]
from = "fra"
to = "hq"
bandwidth_mbps = 50
latency_ms = 3
"#;

    const DOT: &str = r#"
/* a van */ graph "of a van" {
    direct = true   // and so on
    edge [bandwidth_mbps = 40; latency_ms = 9.5]
    van [role = source]; hq [role = "destination"]
    fra [role = relay, provider = acme, price = .02]
    van -- fra
    fra -- hq [bandwidth_mbps = 50 latency_ms = 3]
}"#;

    const GRAPHML: &str = r#"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="r" for="node" attr.name="role"><default>router</default></key>
  <key id="p" for="node" attr.name="provider"/><key id="c" for="node" attr.name="price"/>
  <key id="b" for="edge" attr.name="bandwidth_mbps"/><key id="l" for="edge" attr.name="latency_ms"/>
  <key id="d" for="graph" attr.name="direct"/>
  <graph edgedefault="undirected"><data key="d">true</data>
    <node id="van"><data key="r">source</data></node><node id="hq"><data key="r">destination</data></node>
    <node id="fra"><data key="r">relay</data><data key="p">acme</data><data key="c">0.02</data></node>
    <edge source="van" target="fra"><data key="b">40</data><data key="l">9.5</data></edge>
    <edge source="fra" target="hq"><data key="b">50</data><data key="l">3</data></edge>
  </graph>
</graphml>"#;

    #[test]
    fn all_formats_say_the_same() {
        let json = r#"{"source": "van", "destination": "hq", "direct": true,
        "relay": [{"name": "fra", "provider": "acme", "price": 0.02}],
        "link": [{"from": "van", "to": "fra", "bandwidth_mbps": 40, "latency_ms": 9.5},
                 {"from": "fra", "to": "hq", "bandwidth_mbps": 50, "latency_ms": 3}]}"#;
        for (format, text) in [("toml", TOML), ("json", json), ("dot", DOT), ("graphml", GRAPHML)] {
            let mut draft = parse(format, text).unwrap();
            draft.nodes.retain(|node| node.relay);
            assert_eq!(draft, example(), "{format}");
            assert!(Network::build(&draft).is_ok());
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(parse("toml", &to_toml(&example()).unwrap()).unwrap(), example());
    }

    #[test]
    fn traces_become_links_and_routes() {
        let text = "source van\ndestination hq\nrelay fra price=0.02\n\
                    trace van\n gw 4 40\n fra 19 35  # by LTE\ntrace fra\n hq 6 50\n";
        let draft = parse("hops", text).unwrap();
        let links = [("fra", "hq", 50.0, 3.0), ("gw", "fra", 35.0, 7.5), ("van", "gw", 40.0, 2.0)];
        let links =
            links.map(|(from, to, bandwidth, latency)| DraftLink::directed(from, to, bandwidth, latency));
        assert_eq!(draft.links, links);
        assert_eq!(draft.routes.len(), 2);
        assert!(Network::build(&draft).is_ok());
    }

    #[test]
    fn complaints_say_where_and_what() {
        assert!(complaint("toml", "source = \"a\"\nsauce = 1\n").contains("unknown field `sauce`"));
        assert!(complaint("json", "{\"link\": [{}]}").contains("missing field `from`"));
        assert_eq!(
            complaint("dot", "graph {\n a -> b\n}"),
            "line 2: edges are -> in a digraph and -- in a graph; correct the one or the other"
        );
        assert_eq!(
            complaint("dot", "graph {\n a -- b [latency_ms=1]\n}"),
            "line 3: the link from \"a\" to \"b\" has no bandwidth_mbps; add it"
        );
        assert!(complaint("dot", "graph {").contains("is it complete?"));
        assert!(complaint("dot", "graph { subgraph x {} }").contains("subgraphs are not read"));
        assert!(
            complaint("graphml", "<graphml><graph><node/></graph></graphml>").contains("<node> has no id")
        );
        assert!(complaint("graphml", "<a/>").contains("no <graph>"));
        assert_eq!(complaint("hops", "gw 1 2"), "line 1: a hop needs a line `trace FROM` above it");
        assert_eq!(
            complaint("hops", "relay a dear"),
            "line 1: \"dear\" is no option of a relay; write provider=NAME or price=NUMBER"
        );
        assert!(complaint("hops", "source van\ntrace van\n").contains("has no hops"));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        assert!(read(Path::new("/nowhere/x.toml")).unwrap_err().to_string().contains("/nowhere/x.toml"));
        assert!(read(Path::new("x.txt")).unwrap_err().to_string().contains(".graphml"));
    }
}
