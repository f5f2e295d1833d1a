//! The results for a person to read.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::{PathReport, Report};
use psmc_service::units;

/// A line of a table.
type Row = [String; 3];

impl Report {
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
