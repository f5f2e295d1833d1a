//! What is printed at the end.

use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use super::hiding::HidingReport;
use super::network::{CLIENTS, LINE_MBPS, RELAYS, relay_address};
use super::watch::Seen;
use super::{Failure, Story, Victim};
use crate::report::{aligned, ms, round};
use crate::tcp::Deliveries;

/// When TCP has found its speed.
const SETTLED: Duration = Duration::from_secs(2);

/// The results. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds. A time is absent if what it is about never
/// happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AttackReport {
    /// What the service's known line carries, headers counted.
    line_mbps: u32,
    /// What was sent to it.
    flood_mbps: f64,
    /// From the start of the first program until both clients reached the service.
    set_up_ms: f64,
    /// From the first packet of the flood until the guard had found it.
    detect_ms: Option<f64>,
    /// From then on until the relays were published.
    published_ms: Option<f64>,
    /// From its being found until the data of all clients went through relays.
    route_up_ms: Option<f64>,
    /// How many relays were published.
    relays: usize,
    /// What both downloads got together before the flood.
    goodput_before_mbps: f64,
    /// In the flood, from the moment on at which the data of both went through relays.
    goodput_under_attack_mbps: f64,
    /// After it, with all data on the direct way.
    goodput_after_mbps: f64,
    /// From the end of the flood until all data went straight again.
    back_ms: Option<f64>,
    /// The relay that was killed in the flood.
    #[serde(skip_serializing_if = "Option::is_none")]
    relay_failure: Option<FailureReport>,
    /// The relay that swallowed all datagrams after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    relay_swallows: Option<FailureReport>,
    /// What clients see of the lines that nobody knows.
    hidden_lines: HidingReport,
    clients: Vec<ClientReport>,
    /// Whether both downloads are what was sent.
    pub(crate) hash_ok: bool,
}

/// What the failure of a relay meant. Times are counted from it.
#[derive(Clone, Debug, Serialize)]
struct FailureReport {
    relay: String,
    /// The longest time without a delivery in the two seconds after it, of either client.
    gap_ms: f64,
    /// Until the coordinator had another relay published in its place.
    replaced_ms: Option<f64>,
    /// Until a client's path over the new relay answered: of the first of them, and of the last.
    first_path_ms: Option<f64>,
    last_path_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct ClientReport {
    name: &'static str,
    before_mbps: f64,
    /// From the first packet of the flood until its data went through relays.
    in_between_mbps: f64,
    under_attack_mbps: f64,
    after_mbps: f64,
    /// The longest time without a delivery before the flood.
    gap_before_ms: f64,
    /// From the first packet of the flood until the end.
    gap_ms: f64,
    bytes: u64,
    hash_ok: bool,
}

impl AttackReport {
    pub(super) fn new(story: Story, downloads: &[(Deliveries, bool)], seen: &Seen) -> Self {
        let Story { set_up, flood, victims, hidden } = story;
        let end = downloads.iter().map(|(deliveries, _)| deliveries.end()).min().unwrap_or_default();
        let around = last(&seen.around);
        let back = last(&seen.back);
        let spans = Spans {
            before: SETTLED..flood.start,
            between: flood.start..around.unwrap_or(flood.end),
            under: around.unwrap_or(flood.end)..flood.end,
            after: back.map_or(end..end, |back| back + SETTLED..end),
            end,
        };
        let clients = CLIENTS.into_iter().zip(downloads);
        let clients: Vec<_> =
            clients.map(|(name, (deliveries, hash_ok))| client(name, deliveries, *hash_ok, &spans)).collect();
        let sum = |rate: fn(&ClientReport) -> f64| round(clients.iter().map(rate).sum());
        let failed = |how: Failure| {
            let victim = victims.iter().find(|victim| victim.failure == how);
            victim.map(|victim| failure(victim, downloads, seen))
        };
        Self {
            line_mbps: LINE_MBPS,
            flood_mbps: round(flood.mbps),
            set_up_ms: ms(set_up),
            detect_ms: since(Some(flood.start), seen.detected),
            published_ms: since(seen.detected, seen.published),
            route_up_ms: since(seen.detected, around),
            relays: seen.relays,
            goodput_before_mbps: sum(|client| client.before_mbps),
            goodput_under_attack_mbps: sum(|client| client.under_attack_mbps),
            goodput_after_mbps: sum(|client| client.after_mbps),
            back_ms: since(Some(flood.end), back),
            relay_failure: failed(Failure::Killed),
            relay_swallows: failed(Failure::Swallows),
            hidden_lines: hidden,
            hash_ok: clients.iter().all(|client| client.hash_ok),
            clients,
        }
    }

    /// The results as tables.
    pub(crate) fn table(&self) -> String {
        let row = |client: &ClientReport| {
            let rates =
                [client.before_mbps, client.in_between_mbps, client.under_attack_mbps, client.after_mbps];
            let rates = rates.map(|mbps| format!("{mbps:>6.1}")).join("  ");
            let hash = if client.hash_ok { "right" } else { "WRONG" };
            [client.name.to_owned(), rates, format!("gap {:.0} ms, SHA-256 {hash}", client.gap_ms)]
        };
        let header = ["MBIT/S", "before  notice  attack   after", ""];
        format!(
            "\n{}\n\nflood             {:.0} Mbit/s to a line of {} Mbit/s\nfound             after {}\n\
             relays published  {} later, {} of them\nclients around    {} after the flood was found\n\
             {}{}clients back      {} after its end\nhidden lines      their addresses in {} places of {} frames and {} files that \
             clients got to see\n",
            aligned(header, self.clients.iter().map(row)),
            self.flood_mbps,
            self.line_mbps,
            time(self.detect_ms),
            time(self.published_ms),
            self.relays,
            time(self.route_up_ms),
            self.relay_failure.as_ref().map(|report| report.lines("relay killed  ")).unwrap_or_default(),
            self.relay_swallows.as_ref().map(|report| report.lines("relay swallows")).unwrap_or_default(),
            time(self.back_ms),
            self.hidden_lines.found,
            self.hidden_lines.frames,
            self.hidden_lines.files
        )
    }
}

impl FailureReport {
    fn lines(&self, what: &str) -> String {
        format!(
            "{what}    {}; no data for {:.0} ms\nrelay replaced    {} later; clients' paths over the new one \
             {} and {} later\n",
            self.relay,
            self.gap_ms,
            time(self.replaced_ms),
            time(self.first_path_ms),
            time(self.last_path_ms)
        )
    }
}

fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms:.0} ms"))
}

/// What became of the data, and of the relays, after one of these failed.
fn failure(victim: &Victim, downloads: &[(Deliveries, bool)], seen: &Seen) -> FailureReport {
    let address = RELAYS.iter().position(|name| *name == victim.name).map(relay_address);
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let is_whole = |relays: &[String]| relays.len() >= seen.relays;
    let replaced =
        first_after(&seen.chosen, victim.at, |relays| is_whole(relays) && !relays.contains(&victim.name));
    let on_others =
        |relays: &[String]| is_whole(relays) && !relays.iter().any(|relay| relay.contains(&address));
    let mut paths: Vec<_> =
        seen.used.iter().filter_map(|used| first_after(used, victim.at, on_others)).map(ms).collect();
    paths.sort_by(f64::total_cmp);
    let gap =
        downloads.iter().map(|(deliveries, _)| deliveries.longest_gap(victim.at..victim.at + SETTLED)).max();
    FailureReport {
        relay: victim.name.clone(),
        gap_ms: ms(gap.unwrap_or_default()),
        replaced_ms: replaced.map(ms),
        first_path_ms: paths.first().copied(),
        last_path_ms: paths.last().copied().filter(|_| paths.len() == CLIENTS.len()),
    }
}

/// How long after a moment it was first so.
fn first_after(
    history: &[(Duration, Vec<String>)],
    moment: Duration,
    is_so: impl Fn(&[String]) -> bool,
) -> Option<Duration> {
    let found = history.iter().find(|(at, relays)| *at >= moment && is_so(relays));
    found.map(|(at, _)| at.saturating_sub(moment))
}

/// The parts of a demonstration.
struct Spans {
    before: Range<Duration>,
    between: Range<Duration>,
    under: Range<Duration>,
    after: Range<Duration>,
    end: Duration,
}

fn client(name: &'static str, deliveries: &Deliveries, hash_ok: bool, spans: &Spans) -> ClientReport {
    let rate = |span: &Range<Duration>| round(deliveries.mbps(span.clone()));
    ClientReport {
        name,
        before_mbps: rate(&spans.before),
        in_between_mbps: rate(&spans.between),
        under_attack_mbps: rate(&spans.under),
        after_mbps: rate(&spans.after),
        gap_before_ms: ms(deliveries.longest_gap(spans.before.clone())),
        gap_ms: ms(deliveries.longest_gap(spans.before.end..spans.end)),
        bytes: deliveries.total(),
        hash_ok,
    }
}

/// From one moment to another, in ms, if both have come.
pub(super) fn since(from: Option<Duration>, to: Option<Duration>) -> Option<f64> {
    Some(ms(to?.saturating_sub(from?)))
}

/// The last of all moments, if each has come.
pub(super) fn last(moments: &[Option<Duration>]) -> Option<Duration> {
    moments.iter().copied().reduce(|one, other| one.zip(other).map(|(one, other)| one.max(other))).flatten()
}
