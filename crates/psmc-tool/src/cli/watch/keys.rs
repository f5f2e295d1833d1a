//! What the keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    NextPeer,
    Standby,
    Heavier,
    Lighter,
    Help,
    Other,
}

/// The keys, as they are shown, and what they do.
pub(super) const KEYS: [(&str, &str); 7] = [
    ("↑ ↓  k j", "choose a path"),
    ("Tab", "show the next peer"),
    ("s", "put the path on standby, or make it active"),
    ("+", "add one to its weight"),
    ("-", "take one from its weight"),
    ("?", "show or hide this help"),
    ("q", "quit"),
];

impl From<KeyEvent> for Key {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing")]
    fn from(event: KeyEvent) -> Self {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        // The terminal passes on what would interrupt a program.
        match event.code {
            KeyCode::Char('c') if control => Self::Quit,
            _ if control => Self::Other,
            KeyCode::Char('q') => Self::Quit,
            KeyCode::Char('k') | KeyCode::Up => Self::Up,
            KeyCode::Char('j') | KeyCode::Down => Self::Down,
            KeyCode::Tab => Self::NextPeer,
            KeyCode::Char('s') => Self::Standby,
            KeyCode::Char('+') => Self::Heavier,
            KeyCode::Char('-') => Self::Lighter,
            KeyCode::Char('?') => Self::Help,
            _ => Self::Other,
        }
    }
}
