//! Draws a model: who is there, the paths to one peer, what its traffic does, and what has happened.

mod paths;

use psmc_api::watch::PeerRates;
use psmc_api::{ClassStatus, PeerState, PeerStatus, SiteStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::keys::KEYS;
use super::model::Model;
use crate::cli::status;
use crate::cli::units::{age, bytes, rate_mbps};

/// Lines that events have at least, with their title.
const MIN_EVENTS: u16 = 4;

/// Rows that the table of paths has at least, with its header.
const MIN_PATHS: u16 = 4;

/// Draws all of it.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    let top = top(model, area.width);
    let details = model.peer().map(|peer| details(model, peer, area.width)).unwrap_or_default();
    let bottom = bottom(model, area.width);
    let paths = model.peer().map_or(0, |peer| peer.paths.len());
    let height = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX);
    let others = height(top.len() + details.len() + bottom.len()).saturating_add(MIN_EVENTS);
    let table = height(paths).saturating_add(1).min(area.height.saturating_sub(others).max(MIN_PATHS));
    let [above, middle, below, events, last] = Layout::vertical([
        Constraint::Length(height(top.len())),
        Constraint::Length(table),
        Constraint::Length(height(details.len())),
        Constraint::Fill(1),
        Constraint::Length(height(bottom.len())),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(top), above);
    if let Some(peer) = model.peer() {
        paths::draw(model, peer, frame, middle);
    }
    frame.render_widget(Paragraph::new(details), below);
    draw_events(model, frame, events);
    frame.render_widget(Paragraph::new(bottom), last);
    if model.wants_help() {
        draw_help(frame, area);
    }
}

/// The site, and its peers.
fn top(model: &Model, width: u16) -> Vec<Line<'_>> {
    let Some(status) = model.status() else {
        return match model.silence() {
            Some(away) => fold(&away.why, width, Color::Red),
            None => vec!["asking psmcd …".into()],
        };
    };
    let mut lines = vec![site_line(&status.site)];
    if let Some(away) = model.silence() {
        let text = format!("no answer since {}: {}", away.since.strftime("%T"), away.why);
        lines.extend(fold(&text, width, Color::Red));
    }
    let notices = status.site.notices.iter();
    lines.extend(notices.flat_map(|notice| fold(&format!("attention: {notice}"), width, Color::Yellow)));
    lines.push(peers_line(model, width));
    if let Some(peer) = model.peer() {
        lines.extend(fold(&peer_line(model, peer), width, Color::Reset));
    }
    lines.push(Line::default());
    lines
}

fn site_line(site: &SiteStatus) -> Line<'_> {
    vec![
        "site ".into(),
        site.name.as_str().bold(),
        format!(", up {}, psmcd {}", age(site.uptime_s), site.version).into(),
    ]
    .into()
}

/// All peers; from the chosen one on, where they do not fit.
fn peers_line(model: &Model, width: u16) -> Line<'_> {
    let Some(chosen) = model.chosen_peer() else { return "no peers".into() };
    let peers = model.peers();
    let text = |peer: &PeerStatus| format!("{} {}", peer.name, peer.state);
    let length: usize = peers.iter().map(|peer| text(peer).chars().count() + 4).sum();
    let first = if length + PEERS.len() > usize::from(width) { chosen } else { 0 };
    let mut line = Line::from(PEERS);
    for (index, peer) in peers.iter().enumerate().skip(first) {
        let text = text(peer).fg(match peer.state {
            PeerState::Connected => Color::Green,
            PeerState::Connecting => Color::Yellow,
            PeerState::Down => Color::Red,
        });
        if index == chosen {
            line.extend(["[".into(), text.bold(), "]".into()]);
        } else {
            line.extend([" ".into(), text, " ".into()]);
        }
        line.push_span("  ");
    }
    line
}

const PEERS: &str = "peers  ";

/// The traffic with a peer as a whole.
fn peer_line(model: &Model, peer: &PeerStatus) -> String {
    let mut text = format!("{}: {}", peer.name, status::headline(peer));
    if let Some(PeerRates { traffic, .. }) = model.rates(peer) {
        text += &format!(", up {}, down {}", rate_mbps(traffic.up_mbps), rate_mbps(traffic.down_mbps));
    }
    format!("{text}, scheduler {}", peer.scheduler)
}

/// About the chosen path, what waits, classes and repair.
fn details<'a>(model: &Model, peer: &PeerStatus, width: u16) -> Vec<Line<'a>> {
    let mut lines = vec![Line::default()];
    lines.extend(model.path().into_iter().flat_map(|path| fold(&paths::about(path), width, Color::Reset)));
    let waiting = peer.waiting.iter();
    lines.extend(waiting.flat_map(|path| fold(&status::waiting(path), width, Color::Yellow)));
    let rates = model.rates(peer);
    let classes = peer.classes.iter().filter(|class| class.is_used());
    lines.extend(classes.map(|class| {
        let rate = rates.and_then(|rates| rates.classes.get(&class.name));
        Line::from(class_line(class, rate.copied()))
    }));
    lines.extend(rates.map(|rates| Line::from(repair_line(rates))));
    lines
}

fn class_line(class: &ClassStatus, rate: Option<f64>) -> String {
    let mut text = format!("class {}: ", class.name);
    text += &rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0} packets/s"));
    text + &format!(", queue {} packets ({})", class.queued_packets, bytes(class.queued_bytes))
}

/// What is counted of repair, in the words of `psmc status --json`.
fn repair_line(rates: &PeerRates) -> String {
    let counted = rates.repair.iter().filter(|(_, rate)| **rate > 0.0);
    let counted: Vec<_> =
        counted.map(|(name, rate)| format!("{rate:.1} {}", name.replace('_', " "))).collect();
    let counted = if counted.is_empty() { "nothing".to_owned() } else { counted.join(", ") };
    format!("repair per second: {counted}")
}

fn draw_events(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::TOP).title("events ");
    let events = model.events(usize::from(block.inner(area).height));
    let line =
        |event: &super::model::Event| Line::from(format!("{}  {}", event.at.strftime("%T"), event.what));
    let lines: Vec<_> = events.map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Why the last key did nothing, or the keys.
fn bottom<'a>(model: &Model, width: u16) -> Vec<Line<'a>> {
    match model.refusal() {
        Some(why) => fold(why, width, Color::Red),
        None => vec![HINT.dim().into()],
    }
}

/// A text in lines of `width` columns at most, if none of its words is longer.
fn fold<'a>(text: &str, width: u16, colour: Color) -> Vec<Line<'a>> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) <= usize::from(width) => {
                line.extend([" ", word]);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| Line::from(line).fg(colour)).collect()
}

const HINT: &str = "q quit   ↑↓ path   Tab peer   s standby/active   + - weight   ? help";

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let keys = KEYS.iter().map(|(key, what)| Line::from(format!(" {key:<10}{what} ")));
    let lines: Vec<_> = keys.chain(std::iter::once(Line::default())).chain(LEGEND.map(Line::from)).collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let area = area.centered(Constraint::Length(HELP_WIDTH), Constraint::Length(height));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" psmc watch ")), area);
}

/// What the columns are.
const LEGEND: [&str; 4] = [
    " UP, DOWN     bit/s, with the headers of the tunnel",
    " LOSS         of the last hundred datagrams",
    " WEIGHT       the share in the schedulers wrr",
    " LAST MINUTE  up and down together, all paths on one scale",
];

const HELP_WIDTH: u16 = 62;

#[cfg(test)]
mod tests;
