//! Paths, one in a line.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::units::{bytes, duration_ms, rate_mbps};
use psmc_api::PathStatus;

const HEADER: [&str; 10] =
    ["PATH", "STATE", "INTERFACE", "LOCAL", "REMOTE", "RTT", "LOSS", "RATE", "SENT", "RECEIVED"];

/// The columns of numbers, which are aligned by their last digit.
const NUMBERS: std::ops::Range<usize> = 5..10;

/// A table of paths, indented, with a header.
pub(super) fn paths(paths: &[PathStatus]) -> String {
    if paths.is_empty() {
        return "  no paths\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER).add_rows(paths.iter().map(row));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if NUMBERS.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// Why paths carry no data, one in a line, where that can be said.
pub(super) fn reasons(paths: &[PathStatus]) -> String {
    let line = |path: &PathStatus| {
        let why = path.why.as_ref().or(path.relay_error.as_ref())?;
        Some(format!("  path {}: {} ({why})\n", path.name, path.state))
    };
    let added = paths.iter().filter(|path| path.added).map(|path| path.name.as_str()).collect::<Vec<_>>();
    let added = (!added.is_empty()).then(|| format!("  added while psmcd runs: {}\n", added.join(", ")));
    paths.iter().filter_map(line).chain(added).collect()
}

fn row(path: &PathStatus) -> [String; HEADER.len()] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        path.name.clone(),
        path.state.to_string(),
        or_dash(&path.interface),
        or_dash(&path.local),
        remote(path),
        or_dash(&path.rtt_ms.map(duration_ms)),
        format!("{:.1} %", path.loss_pct),
        or_dash(&path.rate_mbps.map(rate_mbps)),
        bytes(path.tx_bytes),
        bytes(path.rx_bytes),
    ]
}

/// Where a path leads, and through which relays.
fn remote(path: &PathStatus) -> String {
    let address = path.remote.as_deref().unwrap_or("-");
    if path.relays.is_empty() {
        address.to_owned()
    } else {
        let wrapped = if path.ip_in_ip { ", IP-in-IP" } else { "" };
        format!("{address} ({}{wrapped})", path.relays.join(", "))
    }
}
