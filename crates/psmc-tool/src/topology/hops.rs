//! Measured lists: traces as one can write them down from `traceroute` and `pathchar`.

use psmc_select::{Draft, DraftNode, Hop, Trace};

use super::Malformed;

pub(super) fn parse(text: &str) -> Result<Draft, Malformed> {
    let mut list = List::default();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        list.read(&words).map_err(|reason| Malformed::Line { line: index + 1, reason })?;
    }
    list.draft.add_traces(&list.traces)?;
    Ok(list.draft)
}

/// What was read so far.
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
