//! What is printed at the end, for people and for programs.

use std::ops::Range;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::network::{Cut, Links, best_goodput};
use super::transfer::Transfer;
use psmc_api::{PathState, PathStatus};
use psmc_service::units;

/// The results. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds, `_s` seconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The names of the links, in the order of the lists below.
    links: Vec<&'static str>,
    /// What they are limited to, headers counted.
    shaped_mbps: Vec<u32>,
    /// What one TCP flow gets over each alone.
    links_mbps: Vec<f64>,
    best_single_mbps: f64,
    /// The sum of `links_mbps`.
    sum_mbps: f64,
    /// From the start of the calling daemon until data could flow over every path.
    set_up_ms: f64,
    /// What one TCP flow could get through the tunnel at best.
    expected_mbps: f64,
    /// What it got before the cut.
    aggregate_mbps: f64,
    /// The link that was cut.
    cut_link: &'static str,
    cut: Cut,
    /// What it could get without that link.
    expected_during_cut_mbps: f64,
    during_cut_mbps: f64,
    after_cut_mbps: f64,
    /// The longest time without a delivery before the cut.
    gap_before_ms: f64,
    /// The longest from the cut to the end.
    gap_ms: f64,
    /// From the return of the link until the speed was that of before again; absent if it never was.
    recovered_ms: Option<f64>,
    bytes: u64,
    duration_s: f64,
    paths: Vec<PathReport>,
    pub(super) hash_ok: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PathReport {
    name: String,
    /// What it sent, headers of the tunnel counted, those of UDP and below not.
    bytes: u64,
    state: PathState,
}

/// A line of a table.
type Row = [String; 3];

impl Report {
    /// `alone` is what one TCP flow got over each of the links.
    pub(super) fn new(
        links: Links,
        cut: Cut,
        alone: Vec<f64>,
        set_up: Duration,
        transfer: &Transfer,
    ) -> Self {
        let deliveries = &transfer.deliveries;
        let Range { start, end: mended } = transfer.cut;
        let end = deliveries.end();
        let aggregate = deliveries.mbps(SETTLED..start);
        let recovered = deliveries.reached(aggregate * RECOVERED, mended);
        Self {
            links: links.iter().map(|link| link.name).collect(),
            shaped_mbps: links.iter().map(|link| link.mbps).collect(),
            best_single_mbps: alone.iter().copied().map(round).fold(0.0, f64::max),
            sum_mbps: round(alone.iter().sum()),
            links_mbps: alone.into_iter().map(round).collect(),
            set_up_ms: ms(set_up),
            expected_mbps: mbps(best_goodput(links)),
            aggregate_mbps: round(aggregate),
            cut_link: links[0].name,
            cut,
            expected_during_cut_mbps: mbps(best_goodput(&links[1..])),
            during_cut_mbps: round(deliveries.mbps(start..mended)),
            after_cut_mbps: round(deliveries.mbps(mended + SETTLED..end)),
            gap_before_ms: ms(deliveries.longest_gap(SETTLED..start)),
            gap_ms: ms(deliveries.longest_gap(start..end)),
            recovered_ms: recovered.map(ms),
            bytes: deliveries.total(),
            duration_s: round(end.as_secs_f64()),
            paths: transfer.paths.iter().map(PathReport::new).collect(),
            hash_ok: transfer.hash_ok,
        }
    }

    /// The results as tables.
    pub(crate) fn table(&self) -> String {
        let tables = [self.rates(), self.events(), self.sent()];
        tables.map(|table| format!("\n{table}\n")).concat()
    }

    fn rates(&self) -> String {
        let cut = self.cut_link;
        let alone = self.links.iter().zip(&self.links_mbps).zip(&self.shaped_mbps);
        let alone = alone.map(|((name, mbps), shaped)| {
            rate(&format!("{name} alone"), *mbps, format!("of {shaped}, headers included"))
        });
        let tunnel = [
            rate("sum of the links", self.sum_mbps, String::new()),
            rate("tunnel", self.aggregate_mbps, of(self.aggregate_mbps, self.expected_mbps)),
            rate(
                &format!("tunnel while {cut} is cut"),
                self.during_cut_mbps,
                of(self.during_cut_mbps, self.expected_during_cut_mbps),
            ),
            rate(
                &format!("tunnel with {cut} back"),
                self.after_cut_mbps,
                of(self.after_cut_mbps, self.expected_mbps),
            ),
        ];
        aligned(["ONE TCP FLOW", "MBIT/S", ""], alone.chain(tunnel))
    }

    fn events(&self) -> String {
        let recovered = match self.recovered_ms {
            Some(ms) => format!("{ms:.0} ms after {} came back", self.cut_link),
            None => "no".to_owned(),
        };
        let hash = if self.hash_ok { "right" } else { "WRONG" };
        format!(
            "longest gap   {:.1} ms after the cut, {:.1} ms before it\nrecovered     {recovered}\n\
             file          {} in {:.1} s, its SHA-256 is {hash}",
            self.gap_ms,
            self.gap_before_ms,
            units::bytes(self.bytes),
            self.duration_s
        )
    }

    fn sent(&self) -> String {
        aligned(["PATH", "SENT", "STATE"], self.paths.iter().map(PathReport::row))
    }
}

impl PathReport {
    fn new(path: &PathStatus) -> Self {
        Self { name: path.name.clone(), bytes: path.tx_bytes, state: path.state }
    }

    fn row(&self) -> Row {
        [self.name.clone(), units::bytes(self.bytes), self.state.to_string()]
    }
}

fn rate(what: &str, mbps: f64, remark: String) -> Row {
    [what.to_owned(), format!("{mbps:.1}"), remark]
}

fn of(mbps: f64, possible: f64) -> String {
    format!("{:.1} % of the possible {possible:.1}", mbps / possible * 100.0)
}

/// A table, its second column aligned by the last digit.
pub(crate) fn aligned(header: [&str; 3], rows: impl Iterator<Item = Row>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 3));
        if index == 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn mbps(bits_per_second: u64) -> f64 {
    round(bits_per_second as f64 / 1e6)
}

pub(super) fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

/// To two decimals: no more of a measurement means anything.
pub(super) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// When TCP and the tunnel have found their speed, after the start of the transfer and after a link has come back.
const SETTLED: Duration = Duration::from_secs(2);

/// The share of the speed before the cut at which the tunnel counts as recovered.
const RECOVERED: f64 = 0.9;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use psmc_api::PathEcn;

    use super::*;
    use crate::tcp::Deliveries;

    /// Twelve seconds of 80 Mbit/s, half of it while the link is cut, with a gap of 60 ms after the cut.
    fn transfer() -> Transfer {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        let (cut, mended) = (5000, 8000);
        for at in (1..=cut).chain(cut + 60..=12_000) {
            let bytes = if (cut..mended).contains(&at) { 5_000 } else { 10_000 };
            deliveries.add(start + Duration::from_millis(at), bytes);
        }
        Transfer {
            deliveries,
            cut: Duration::from_millis(cut)..Duration::from_millis(mended),
            hash_ok: true,
            paths: vec![path("dsl", PathState::Active), path("lte", PathState::Suspect)],
        }
    }

    fn path(name: &str, state: PathState) -> PathStatus {
        PathStatus {
            name: name.to_owned(),
            id: 0,
            state,
            since_s: 0.0,
            why: None,
            portal: None,
            added: false,
            local: None,
            local_port: None,
            seen_as: None,
            remote: None,
            relays: Vec::new(),
            ip_in_ip: false,
            in_stream: false,
            relay_error: None,
            uplink: None,
            interface: None,
            weight: 1,
            tier: "primary".to_owned(),
            direction: "both".to_owned(),
            quota: None,
            max_rate_mbps: None,
            rtt_ms: None,
            rtt_var_ms: None,
            mtu: 1500,
            narrower_than: None,
            loss_pct: 0.0,
            ecn: PathEcn::Trying,
            marked_pct: 0.0,
            slot: None,
            bottleneck: None,
            rate_mbps: None,
            tx_bytes: 41_234_567,
            rx_bytes: 0,
            tx_packets: 0,
            rx_packets: 0,
            lost_packets: 0,
            undelivered: 0,
        }
    }

    fn report() -> Report {
        Report::new(
            crate::network::DIRECT,
            Cut::Down,
            vec![38.204, 28.6, 19.1],
            Duration::from_micros(312_345),
            &transfer(),
        )
    }

    #[test]
    fn people_get_tables() {
        insta::assert_snapshot!(report().table());
    }

    #[test]
    fn scripts_get_one_object() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&report()).unwrap());
    }

    #[test]
    fn a_failure_is_not_hidden() {
        let report = Report { hash_ok: false, recovered_ms: None, ..report() };
        let table = report.table();
        assert!(table.contains("WRONG") && table.contains("recovered     no"), "{table}");
    }
}
