//! `psmc flows`: which flows lose much, and how those are held down that heed no loss; and which TCP connections the sites end.

use std::fmt;

use clap::Args;
use psmc_api::{Client, EndedFlow, FlowStatus, Flows};

use super::units::{age, bytes, duration_ms, rate_mbps};
use super::{CliError, output};

#[derive(Debug, Args)]
pub(super) struct FlowsArgs {
    /// Show only those that are held down
    #[arg(long, conflicts_with = "ended")]
    unresponsive: bool,
    /// Show only TCP connections that the sites end
    #[arg(long)]
    ended: bool,
    /// Print them as JSON, with all that is known
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &FlowsArgs, client: &mut Client) -> Result<(), CliError> {
    let mut flows = client.flows()?;
    flows.flows.retain(|flow| !args.ended && (flow.limit.is_some() || !args.unresponsive));
    flows.ended.retain(|_| !args.unresponsive);
    let text = match (args.json, args.ended) {
        (true, _) => output::json(&flows)?,
        (false, true) if flows.ended.is_empty() => "no TCP connections that the sites end\n".to_owned(),
        (false, true) => ended(&flows),
        (false, false) => lossy(&flows) + &ended(&flows),
    };
    Ok(output::print(&text)?)
}

/// TCP connections that the sites end.
fn ended(flows: &Flows) -> String {
    flows.ended.iter().map(|flow| fmt::from_fn(|f| write_ended(flow, f)).to_string()).collect()
}

fn write_ended(flow: &EndedFlow, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let EndedFlow { peer, client, server, .. } = flow;
    let side = if flow.is_from_here { "to" } else { "from" };
    writeln!(f, "tcp from {client} to {server}, ended here, {side} {peer}")?;
    let first = flow.first_byte_s.map(|time| format!(", first byte after {}", duration_ms(1e3 * time)));
    let state = if flow.stands { "open" } else { "being opened" };
    writeln!(f, "  state      {state} for {}{}", age(flow.age_s), first.unwrap_or_default())?;
    let again = match flow.resent_bytes {
        0 => String::new(),
        resent => format!(" ({} of it again)", bytes(resent)),
    };
    writeln!(f, "  sent       {}{again}, {} wait", bytes(flow.tx_bytes), bytes(flow.waiting_bytes))?;
    let (received, held, window) = (flow.rx_bytes, flow.held_bytes, flow.window_bytes);
    writeln!(f, "  received   {}, {} wait, window {}\n", bytes(received), bytes(held), bytes(window))
}

fn lossy(flows: &Flows) -> String {
    match (flows.mode.as_str(), flows.ended.is_empty()) {
        ("off", true) => {
            return "flows are not watched: add [unresponsive] with mode = \"police\" to the configuration\n"
                .to_owned();
        }
        ("off", false) => return String::new(),
        _ => {}
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
        let flows = vec![flow, candidate, behind];
        let shown = lossy(&Flows { mode: "police".to_owned(), flows, ended: Vec::new() });
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
        assert!(lossy(&Flows { mode: "off".to_owned(), ..Flows::default() }).contains("[unresponsive]"));
    }

    #[test]
    fn a_connection_that_is_ended_says_how_it_goes() {
        let flow = EndedFlow {
            peer: "hq".to_owned(),
            client: "10.1.0.7:40000".to_owned(),
            server: "10.2.0.1:443".to_owned(),
            is_from_here: true,
            stands: true,
            age_s: 61.0,
            first_byte_s: Some(0.0424),
            tx_bytes: 3_000_000,
            resent_bytes: 20_000,
            rx_bytes: 1_000,
            waiting_bytes: 500_000,
            held_bytes: 0,
            window_bytes: 1_048_576,
        };
        let from_there = EndedFlow {
            is_from_here: false,
            stands: false,
            first_byte_s: None,
            resent_bytes: 0,
            ..flow.clone()
        };
        let flows = Flows { mode: "off".to_owned(), flows: Vec::new(), ended: vec![flow, from_there] };
        assert_eq!(lossy(&flows), "", "nobody asks for those");
        let expected = "\
tcp from 10.1.0.7:40000 to 10.2.0.1:443, ended here, to hq
  state      open for 1 min 1 s, first byte after 42.4 ms
  sent       3.0 MB (20.0 kB of it again), 500.0 kB wait
  received   1.0 kB, 0 B wait, window 1.0 MB

tcp from 10.1.0.7:40000 to 10.2.0.1:443, ended here, from hq
  state      being opened for 1 min 1 s
  sent       3.0 MB, 500.0 kB wait
  received   1.0 kB, 0 B wait, window 1.0 MB

";
        assert_eq!(ended(&flows), expected);
    }
}
