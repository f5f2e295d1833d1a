//! The command line of `psmc-relay`: its arguments, and what `psmc-relay status` says.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use psmc_service::cli::{self, DaemonArgs};
use psmc_service::socket::Report;
use psmc_toml::rate_text;

use crate::config::Config;
use crate::relay;
use crate::status::{Session, Shed, Status, Tunnel, TunnelPackets, TunnelWay, Way};

/// The PSMC relay: forwards datagrams and control connections, and can read neither.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What stands on the command line of `psmc-relay`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-relay` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let summary = |config: &Config| config.summary().to_string();
    let run = |config: Config, file: &Path| relay::run(&config, file);
    cli::finish(Status::PROGRAM, Args::parse().daemon.run(Config::load, summary, run, describe))
}

fn describe(status: &Status) -> String {
    let mut text = String::new();
    let (moved, refused) = (&status.datagrams, &status.refused);
    let all_refused = [
        ("malformed", refused.malformed),
        ("of unknown label", refused.unknown_label),
        ("replayed", refused.replayed),
        ("forged", refused.forged),
        ("misaddressed", refused.misaddressed),
        ("in circles", refused.too_many_hops),
        ("without an address", refused.no_address),
        ("too long", refused.too_long),
        ("in full queues", refused.queue_full),
        ("to keep queues short", refused.dropped.iter().sum()),
        ("for whom they go to", refused.shed),
    ];
    let refused: Vec<String> = all_refused
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "relay {}, up {} s: {} sessions, {} gateways, {} streams\n\
         received {} datagrams, sent {}, not taken by the network {}\n\
         refused {}\n\
         too long for a link on their way: {}\n",
        status.name,
        status.uptime_s,
        status.sessions.len(),
        status.gateways,
        status.streams,
        moved.received,
        moved.sent,
        moved.send_drops,
        if refused.is_empty() { "none".to_owned() } else { refused.join(", ") },
        status.heard_too_big.map_or_else(
            || "cannot be told without CAP_NET_RAW".to_owned(),
            |heard| format!("{heard}, as routers said by ICMP")
        ),
    );
    for site in &status.sites {
        let _ = writeln!(
            text,
            "site {}: {} of {} sessions, {}",
            site.name,
            site.sessions,
            site.max_sessions,
            rate(site.rate_bits_per_second)
        );
    }
    for session in &status.sessions {
        text.push_str(&session_text(session));
    }
    status.shedding.sites.iter().for_each(|shed| text.push_str(&shed_text(shed)));
    if !status.tunnels.is_empty() {
        text.push_str(&tunnels_text(&status.tunnels, &status.tunnel_packets));
    }
    text
}

fn tunnels_text(tunnels: &[Tunnel], packets: &TunnelPackets) -> String {
    let mut text = String::new();
    for tunnel in tunnels {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "tunnel {}, {}\n  to the left end  {}\n  to the right end {}",
            tunnel.name,
            rate(tunnel.rate_bits_per_second),
            tunnel_way_text(&tunnel.to_left),
            tunnel_way_text(&tunnel.to_right),
        );
    }
    let refused: Vec<String> = packets
        .refused()
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
        .collect();
    let _ = writeln!(
        text,
        "in tunnels: refused {}; cut {}; ICMP errors sent {}, heard {} of too long packets and {} others",
        refused.join(", "),
        packets.cut,
        packets.errors_sent,
        packets.heard_too_big,
        packets.heard_unreachable,
    );
    text
}

fn tunnel_way_text(way: &TunnelWay) -> String {
    let dropped: u64 = way.dropped.iter().sum();
    let end = match (&way.site, &way.address) {
        (None, address) => address.clone().unwrap_or_default(),
        (Some(site), Some(address)) => format!("{address}, where {site} is"),
        (Some(site), None) => format!("({site} is not registered)"),
    };
    format!(
        "{end}: {} packets, {} bytes, {} waiting, {dropped} dropped, up to {} bytes each",
        way.packets, way.bytes, way.waiting, way.path_mtu,
    )
}

fn session_text(session: &Session) -> String {
    format!(
        "session {} of {}, {}, unused for {} s\n  to the far end  {}\n  to the near end {}\n",
        session.id,
        session.site,
        rate(session.rate_bits_per_second),
        session.idle_s,
        way_text(&session.to_far),
        way_text(&session.to_near),
    )
}

fn shed_text(shed: &Shed) -> String {
    let mut text = format!("dropped for {}, for {:.1} s unless it asks again\n", shed.site, shed.lasts_s);
    for rule in &shed.rules {
        let limit = rule.limit_bytes_per_s.map(|bytes| bytes.saturating_mul(8));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {}: {}, {} bytes came, {} dropped",
            rule.what,
            rate(limit),
            rule.offered_bytes,
            rule.dropped_bytes
        );
    }
    text
}

fn way_text(way: &Way) -> String {
    let dropped: u64 = way.dropped.iter().sum();
    let tunnel = way.tunnel.as_ref().map(|end| format!(" in IP-in-IP to {end}")).unwrap_or_default();
    format!(
        "{}{tunnel}: {} datagrams, {} bytes, {} waiting, {dropped} dropped",
        way.address.as_deref().unwrap_or("(not known yet)"),
        way.datagrams,
        way.bytes,
        way.waiting,
    )
}

fn rate(bits_per_second: Option<u64>) -> String {
    bits_per_second.map_or_else(|| "no limit".to_owned(), rate_text)
}
