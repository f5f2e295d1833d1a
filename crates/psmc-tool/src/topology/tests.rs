use std::path::Path;

use psmc_select::{DraftLink, DraftNode, Network};

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
    let links = links.map(|(from, to, bandwidth, latency)| DraftLink::directed(from, to, bandwidth, latency));
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
    assert!(complaint("graphml", "<graphml><graph><node/></graph></graphml>").contains("<node> has no id"));
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
