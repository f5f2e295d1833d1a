//! The paths of a peer as a table.

use psmc_api::watch::Traffic;
use psmc_api::{PathState, PathStatus, PeerStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar::NINE_LEVELS;
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::super::model::Model;
use crate::cli::status;
use crate::cli::units::{age, duration_ms};

/// The columns of each row but the first and the last, and their widths.
const COLUMNS: [(&str, u16); 7] =
    [("STATE", 7), ("UP", 6), ("DOWN", 6), ("RTT", 9), ("LOSS", 7), ("MTU", 5), ("WEIGHT", 6)];

/// What is before the chosen path.
const CHOSEN: &str = "▸ ";

/// From this width on there is room for where paths lead.
const WIDE: u16 = 120;

/// How wide a column for that is, which an IPv4 address and a relay fit into.
const REMOTE: u16 = 30;

/// Columns of a minute: one for each second is the most that is seen.
const MINUTE: u16 = 60;

/// Columns of a minute that a long name leaves.
const MIN_MINUTE: u16 = 8;

/// Draws the table; if it is too low for all paths, those around the chosen one.
pub(super) fn draw(model: &Model, peer: &PeerStatus, frame: &mut Frame<'_>, area: Rect) {
    if peer.paths.is_empty() {
        return frame.render_widget("no paths", area);
    }
    let wide = area.width >= WIDE;
    let fixed: u16 = 2 + COLUMNS.iter().map(|(_, width)| width + 1).sum::<u16>() + 1;
    let room = area.width.saturating_sub(fixed + if wide { REMOTE + 1 } else { 0 });
    let longest = peer.paths.iter().map(|path| path.name.chars().count()).max().unwrap_or(0);
    let name = u16::try_from(longest).unwrap_or(u16::MAX).max(4).min(room.saturating_sub(MIN_MINUTE));
    let minute = room.saturating_sub(name).min(MINUTE);

    let histories = model.histories(peer, usize::from(minute));
    let top = histories.iter().flatten().copied().fold(0.0, f64::max);
    let rows = peer.paths.iter().zip(&histories).enumerate().map(|(index, (path, history))| {
        let chosen = model.chosen_path() == Some(index);
        let weight = model.wanted_weight().filter(|_| chosen).unwrap_or(path.weight);
        let rates = model.rates(peer).and_then(|rates| rates.paths.get(&path.id));
        let row = row(path, rates.copied(), weight, &spark(history, top, usize::from(minute)));
        row.into_iter().chain(wide.then(|| status::remote(path).into())).collect()
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let widths = [name].into_iter().chain(COLUMNS.map(|(_, width)| width)).chain([minute]);
    let table = Table::new(rows, widths.chain(wide.then_some(REMOTE)).map(Constraint::Length))
        .header(header(wide))
        .highlight_symbol(CHOSEN)
        .row_highlight_style(Modifier::BOLD);
    let mut state = TableState::new().with_selected(model.chosen_path());
    frame.render_stateful_widget(table, area, &mut state);
}

fn header<'a>(wide: bool) -> Row<'a> {
    let title =
        |(index, (title, _)): (usize, (&'a str, u16))| if index == 0 { title.into() } else { right(title) };
    let titles = COLUMNS.into_iter().enumerate().map(title);
    let all = std::iter::once("PATH".into()).chain(titles).chain(["LAST MINUTE".into()]);
    all.chain(wide.then(|| "REMOTE".into())).collect::<Row<'a>>().style(Modifier::DIM)
}

fn row<'a>(path: &PathStatus, rates: Option<Traffic>, weight: u16, spark: &str) -> [Cell<'a>; 9] {
    let rate = |mbps: Option<f64>| right(mbps.map_or_else(|| "-".to_owned(), short_rate));
    [
        path.name.clone().into(),
        Cell::from(path.state.to_string()).style(Style::new().fg(colour(path.state))),
        rate(rates.map(|rates| rates.up_mbps)),
        rate(rates.map(|rates| rates.down_mbps)),
        right(path.rtt_ms.map_or_else(|| "-".to_owned(), duration_ms)),
        right(format!("{:.1} %", path.loss_pct)),
        right(path.mtu.to_string()),
        right(weight.to_string()),
        Cell::from(spark.to_owned()).style(Style::new().fg(Color::Cyan)),
    ]
}

fn right<'a>(text: impl Into<Line<'a>>) -> Cell<'a> {
    text.into().right_aligned().into()
}

fn colour(state: PathState) -> Color {
    match state {
        PathState::Active => Color::Green,
        PathState::Probing | PathState::Suspect => Color::Yellow,
        PathState::Dead => Color::Red,
        PathState::Standby => Color::Blue,
        PathState::Closing => Color::DarkGray,
    }
}

/// Bars of a height in proportion to `top`, the latest at the right. What is not zero is seen.
fn spark(rates: &[f64], top: f64, columns: usize) -> String {
    let level = |rate: f64| (0_u8..8).filter(|&eighths| rate * 8.0 > top * f64::from(eighths)).count();
    let bars: String = rates.iter().map(|&rate| LEVELS[level(rate)]).collect();
    format!("{bars:>columns$}")
}

const LEVELS: [&str; 9] = [
    NINE_LEVELS.empty,
    NINE_LEVELS.one_eighth,
    NINE_LEVELS.one_quarter,
    NINE_LEVELS.three_eighths,
    NINE_LEVELS.half,
    NINE_LEVELS.five_eighths,
    NINE_LEVELS.three_quarters,
    NINE_LEVELS.seven_eighths,
    NINE_LEVELS.full,
];

/// A rate in bit/s, in six characters at most.
fn short_rate(mbps: f64) -> String {
    match mbps {
        0.0 => "0".to_owned(),
        ..0.9995 => format!("{:.0}k", mbps * 1e3),
        ..999.95 => format!("{mbps:.1}M"),
        _ => format!("{:.2}G", mbps / 1e3),
    }
}

/// Where a path leads, and what it is doing, and why.
pub(super) fn about(path: &PathStatus) -> String {
    let mut text =
        format!("path {}: {} for {}, to {}", path.name, path.state, age(path.since_s), status::remote(path));
    if let Some(why) = path.why.as_ref().or(path.relay_error.as_ref()) {
        text += &format!(" ({why})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        let rates = [0.0, 0.0004, 0.64, 0.9996, 20.04, 999.96, 12_345.6].map(short_rate);
        assert_eq!(rates, ["0", "0k", "640k", "1.0M", "20.0M", "1.00G", "12.35G"]);
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(spark(&[0.0, 0.01, 4.0, 8.0], 8.0, 6), "   ▁▄█");
        assert_eq!(spark(&[0.0], 0.0, 2), "  ");
    }
}
