//! What GraphML and DOT say of nodes and links: names and values.

use std::collections::BTreeMap;

use psmc_select::{Draft, DraftLink, DraftNode};

/// The attributes of a node, of a link, or of the graph.
pub(super) type Attributes = BTreeMap<String, String>;

/// Adds a node. Its `role` is `source`, `destination`, `relay` or `router`; a relay has a `provider` and a `price`.
pub(super) fn add_node(draft: &mut Draft, name: &str, attributes: &Attributes) -> Result<(), String> {
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
pub(super) fn add_link(
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
pub(super) fn set_graph(draft: &mut Draft, attributes: &Attributes) -> Result<(), String> {
    if let Some(direct) = attributes.get("direct") {
        draft.direct = direct.parse().map_err(|_| format!("direct is {direct:?}; write true or false"))?;
    }
    Ok(())
}

fn number(attributes: &Attributes, key: &str) -> Result<Option<f64>, String> {
    let parse = |text: &String| text.parse().map_err(|_| format!("{key} is {text:?}, which is no number"));
    attributes.get(key).map(parse).transpose()
}
