//! `psmc sla`: what was promised, whether it is kept, and where not.

mod segments;

use std::fmt;

use clap::Args;
use psmc_api::{Client, SlaAggregate, SlaFault, SlaState, SlaStatus};

use super::units::age;
use super::{CliError, output};
use psmcd::config::Name;

#[derive(Debug, Args)]
pub(super) struct SlaArgs {
    /// The peer, if not all
    #[arg(requires = "segments")]
    peer: Option<Name>,
    /// Show where on the way of each path datagrams are lost and delayed, whatever was promised
    #[arg(long)]
    segments: bool,
    /// Print it as JSON, with all that is known
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SlaArgs, client: &mut Client) -> Result<(), CliError> {
    if args.segments {
        return segments::run(args.peer.as_ref().map(Name::as_str), args.json, client);
    }
    let targets = client.sla()?;
    let text = if args.json { output::json(&targets)? } else { text(&targets) };
    Ok(output::print(&text)?)
}

fn text(targets: &[SlaStatus]) -> String {
    if targets.is_empty() {
        return "no targets: add [[sla.target]] to the configuration\n".to_owned();
    }
    targets.iter().map(|target| fmt::from_fn(|f| write_target(target, f)).to_string()).collect()
}

fn write_target(target: &SlaStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let SlaStatus { name, measured, limits, state, broken, breaches, .. } = target;
    let state = match state {
        SlaState::Unknown => "not known".to_owned(),
        SlaState::Met => "ok".to_owned(),
        SlaState::Broken => format!("BREACHED: {}", broken.join(", ")),
    };
    writeln!(f, "{name} ({measured}): {state}, for {}", age(target.since_s))?;
    writeln!(f, "  promised  {limits}")?;
    if let Some(why) = &target.why {
        writeln!(f, "  why       {why}")?;
    }
    let values = [
        ("round trip", target.round_trip_ms, "ms"),
        ("lost on the way there", target.loss_to_pct, "%"),
        ("lost on the way back", target.loss_from_pct, "%"),
        ("carried", target.throughput_mbps, "Mbit/s"),
    ];
    let known =
        values.into_iter().filter_map(|(what, value, unit)| Some(format!("{what} {:.2} {unit}", value?)));
    let known: Vec<_> = known.collect();
    if !known.is_empty() {
        writeln!(f, "  measured  {}", known.join(", "))?;
    }
    for fault in &target.faults {
        writeln!(f, "  at fault  {}", fault_text(fault))?;
    }
    for untold in &target.untold {
        writeln!(f, "  untold    {untold}")?;
    }
    for aggregate in &target.aggregates {
        write_aggregate(aggregate, f)?;
    }
    writeln!(f, "  clocks    {}", target.clocks)?;
    writeln!(f, "  breaches  {breaches}\n")
}

fn write_aggregate(aggregate: &SlaAggregate, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let SlaAggregate { from, to, prefix, share_pct, rate_mbps, cause, answered_pct, .. } = aggregate;
    let risen = aggregate.risen.map(|risen| format!(", {risen:.1} times what all had before"));
    let cause = cause.in_words();
    writeln!(
        f,
        "  crossing  {from} → {to}: {prefix}, {share_pct:.0} %, {rate_mbps:.2} Mbit/s{}",
        risen.unwrap_or_default()
    )?;
    writeln!(f, "            {cause}: {answered_pct:.0} packets back for each 100")?;
    let entries: Vec<_> = aggregate
        .ingresses
        .iter()
        .map(|entry| format!("{} ({:.0} %)", entry.name, entry.share_pct))
        .collect();
    let sources = if aggregate.source_addresses.is_empty() {
        format!("{} sources or more", aggregate.sources)
    } else {
        aggregate.source_addresses.join(", ")
    };
    writeln!(f, "            enters by {}; from {sources}", entries.join(", "))
}

fn fault_text(fault: &SlaFault) -> String {
    let SlaFault { path, from, to, what, value, low, high, sure_pct, proven } = fault;
    let place = if from == to { format!("in {from}") } else { format!("{from} → {to}") };
    let path = path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
    let unit = if what == "loss" { "%" } else { "ms" };
    let sure = if *proven { "proven".to_owned() } else { format!("sure to {sure_pct:.1} %") };
    format!("{place}{path}: {what} {value:.1} {unit} ({low:.1} to {high:.1}), {sure}")
}

#[cfg(test)]
mod tests {
    use psmc_api::{SlaCause, SlaIngress};

    use super::*;

    #[test]
    fn a_breach_says_what_where_and_how_sure() {
        let target = SlaStatus {
            name: "hq".to_owned(),
            measured: "peer hq".to_owned(),
            limits: "loss ≤ 0.5 %".to_owned(),
            state: SlaState::Broken,
            since_s: 12.0,
            breaches: 2,
            why: None,
            broken: vec!["loss to hq".to_owned()],
            round_trip_ms: None,
            loss_to_pct: Some(5.0),
            loss_from_pct: Some(0.0),
            throughput_mbps: None,
            faults: vec![SlaFault {
                path: Some("dsl".to_owned()),
                from: "r0".to_owned(),
                to: "r1".to_owned(),
                what: "loss".to_owned(),
                value: 5.0,
                low: 1.64,
                high: 11.28,
                sure_pct: 99.999,
                proven: true,
            }],
            untold: Vec::new(),
            usual_to_mbps: Some(2.0),
            usual_from_mbps: None,
            aggregates: vec![SlaAggregate {
                from: "r0".to_owned(),
                to: "r1".to_owned(),
                prefix: "203.0.113.80/32".to_owned(),
                share_pct: 91.3,
                rate_mbps: 18.26,
                ingresses: vec![SlaIngress { name: "10.9.0.0/24".to_owned(), share_pct: 100.0 }],
                sources: 256,
                source_addresses: Vec::new(),
                answered_pct: 0.0,
                risen: Some(9.13),
                cause: SlaCause::Attack,
            }],
            clocks: "not compared".to_owned(),
        };
        let text = text(&[target]);
        assert!(text.starts_with("hq (peer hq): BREACHED: loss to hq, for 12"), "{text}");
        assert!(text.contains("  at fault  r0 → r1 of dsl: loss 5.0 % (1.6 to 11.3), proven\n"), "{text}");
        let crossing = "  crossing  r0 → r1: 203.0.113.80/32, 91 %, 18.26 Mbit/s, 9.1 times what all had before\n            \
             looks like an attack: 0 packets back for each 100\n            \
             enters by 10.9.0.0/24 (100 %); from 256 sources or more\n";
        assert!(text.contains(crossing), "{text}");
        assert!(text.contains("lost on the way there 5.00 %, lost on the way back 0.00 %"), "{text}");
    }
}
