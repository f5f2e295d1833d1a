//! `psmc sla`: what was promised, whether it is kept, and where not.

mod segments;

use std::fmt;

use clap::Args;
use psmc_api::{Client, SlaFault, SlaState, SlaStatus};

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
    writeln!(f, "  clocks    {}", target.clocks)?;
    writeln!(f, "  breaches  {breaches}\n")
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
            clocks: "not compared".to_owned(),
        };
        let text = text(&[target]);
        assert!(text.starts_with("hq (peer hq): BREACHED: loss to hq, for 12"), "{text}");
        assert!(text.contains("  at fault  r0 → r1 of dsl: loss 5.0 % (1.6 to 11.3), proven\n"), "{text}");
        assert!(text.contains("lost on the way there 5.00 %, lost on the way back 0.00 %"), "{text}");
    }
}
