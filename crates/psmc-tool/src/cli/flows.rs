//! `psmc flows`: which flows lose much, and how those are held down that heed no loss.

use std::fmt;

use clap::Args;
use psmc_api::{Client, FlowStatus, Flows};

use super::units::{age, bytes, rate_mbps};
use super::{CliError, output};

#[derive(Debug, Args)]
pub(super) struct FlowsArgs {
    /// Show only those that are held down
    #[arg(long)]
    unresponsive: bool,
    /// Print them as JSON, with all that is known
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &FlowsArgs, client: &mut Client) -> Result<(), CliError> {
    let mut flows = client.flows()?;
    flows.flows.retain(|flow| flow.limit.is_some() || !args.unresponsive);
    let text = if args.json { output::json(&flows)? } else { text(&flows) };
    Ok(output::print(&text)?)
}

fn text(flows: &Flows) -> String {
    if flows.mode == "off" {
        return "flows are not watched: add [unresponsive] with mode = \"police\" to the configuration\n"
            .to_owned();
    }
    if flows.flows.is_empty() {
        return "no flows that lose much\n".to_owned();
    }
    flows.flows.iter().map(|flow| fmt::from_fn(|f| write_flow(flow, f)).to_string()).collect()
}

fn write_flow(flow: &FlowStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let FlowStatus { peer, kind, sources, .. } = flow;
    let class = flow.class.as_deref().unwrap_or("any class");
    let what = if flow.is_one_flow { "one flow of " } else { "" };
    let whereto = flow.destinations.as_ref().map(|prefix| format!("{prefix} of ")).unwrap_or_default();
    writeln!(f, "{what}{kind} from {sources} to {whereto}{peer}, {class}")?;
    if let Some(example) = &flow.example {
        writeln!(f, "  newest     {example}")?;
    }
    let (offered, delivered) = (mbps(flow.offered_bits_per_second), mbps(flow.delivered_bits_per_second));
    writeln!(f, "  offered    {offered}, delivered {delivered}, lost on the way {:.1} %", flow.loss_pct)?;
    let mut why = Vec::new();
    match flow.limit {
        Some(limit) => {
            let (rate, since) = (mbps(limit.bits_per_second), age(limit.since_s));
            writeln!(f, "  limit      {rate}, for {since}; {} held back", bytes(flow.held_back_bytes))?;
            why.push(format!("lost {:.0} % and did not slow down", limit.loss_pct));
        }
        None => writeln!(f, "  limit      none: watched")?,
    }
    if flow.is_dropped_behind {
        why.push(format!("dropped behind {peer}"));
    }
    why.extend(
        flow.candidate_of.as_ref().map(|target| format!("candidate: seems to break the target {target}")),
    );
    if !why.is_empty() {
        writeln!(f, "  why        {}", why.join("; "))?;
    }
    writeln!(f)
}

fn mbps(bits_per_second: u64) -> String {
    rate_mbps(bits_per_second as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use psmc_api::FlowLimit;

    use super::*;

    #[test]
    fn a_flow_that_is_held_down_says_who_since_when_and_why() {
        let flow = FlowStatus {
            peer: "hq".to_owned(),
            class: Some("best-effort".to_owned()),
            is_dropped_behind: false,
            kind: "udp".to_owned(),
            sources: "10.1.0.0/22".to_owned(),
            destinations: None,
            is_one_flow: false,
            example: Some("10.1.0.7:4000 to 10.2.0.1:5000".to_owned()),
            candidate_of: None,
            offered_bits_per_second: 10_000_000,
            delivered_bits_per_second: 1_000_000,
            loss_pct: 1.5,
            offered_bytes: 3_000_000,
            held_back_bytes: 2_000_000,
            delivered_bytes: 900_000,
            dropped_bytes: 100_000,
            limit: Some(FlowLimit { since_s: 61.0, bits_per_second: 1_000_000, loss_pct: 90.0 }),
        };
        let candidate = FlowStatus {
            destinations: Some("10.2.0.1/32".to_owned()),
            candidate_of: Some("calls".to_owned()),
            example: None,
            limit: None,
            ..flow.clone()
        };
        let behind =
            FlowStatus { class: None, is_dropped_behind: true, candidate_of: None, ..candidate.clone() };
        let shown = text(&Flows { mode: "police".to_owned(), flows: vec![flow, candidate, behind] });
        let expected = "\
udp from 10.1.0.0/22 to hq, best-effort
  newest     10.1.0.7:4000 to 10.2.0.1:5000
  offered    10.0 Mbit/s, delivered 1.0 Mbit/s, lost on the way 1.5 %
  limit      1.0 Mbit/s, for 1 min 1 s; 2.0 MB held back
  why        lost 90 % and did not slow down

udp from 10.1.0.0/22 to 10.2.0.1/32 of hq, best-effort
  offered    10.0 Mbit/s, delivered 1.0 Mbit/s, lost on the way 1.5 %
  limit      none: watched
  why        candidate: seems to break the target calls

udp from 10.1.0.0/22 to 10.2.0.1/32 of hq, any class
  offered    10.0 Mbit/s, delivered 1.0 Mbit/s, lost on the way 1.5 %
  limit      none: watched
  why        dropped behind hq

";
        assert_eq!(shown, expected);
        assert!(text(&Flows { mode: "off".to_owned(), flows: Vec::new() }).contains("[unresponsive]"));
    }
}
