//! What has happened between two answers.

use crate::{PathStatus, PeerStatus, Status};

/// What has happened, each in words.
pub(super) fn between(before: &Status, now: &Status) -> Vec<String> {
    let restarted = has_restarted(before, now);
    let mut events = Vec::new();
    if restarted {
        events.push(format!("psmcd {} was restarted", now.site.version));
    }
    for peer in &now.peers {
        match before.peers.iter().find(|other| other.name == peer.name) {
            Some(before) => of_peer(before, peer, restarted, &mut events),
            None => events.push(format!("peer {} added: {}", peer.name, peer.state)),
        }
    }
    let gone = before.peers.iter().filter(|peer| now.peers.iter().all(|other| other.name != peer.name));
    events.extend(gone.map(|peer| format!("peer {} removed", peer.name)));
    events
}

/// Whether this is another psmcd than before, which counts from zero.
pub(super) fn has_restarted(before: &Status, now: &Status) -> bool {
    now.site.uptime_s < before.site.uptime_s
}

fn of_peer(before: &PeerStatus, now: &PeerStatus, restarted: bool, events: &mut Vec<String>) {
    if now.state != before.state {
        events.push(format!("peer {}: {} → {}", now.name, before.state, now.state));
    }
    for path in &now.paths {
        let name = format!("{}: path {}", now.name, path.name);
        match before.paths.iter().find(|other| other.name == path.name) {
            None => events.push(format!("{name} added: {}", path.state)),
            Some(before) if path.state != before.state => {
                events.push(format!("{name}: {} → {}{}", before.state, path.state, reason(path)));
            }
            Some(before) if path.since_s < before.since_s && !restarted => {
                events.push(format!("{name}: {} again", path.state));
            }
            Some(_) => {}
        }
    }
    let gone = before.paths.iter().filter(|path| now.paths.iter().all(|other| other.name != path.name));
    events.extend(gone.map(|path| format!("{}: path {} removed", now.name, path.name)));
}

fn reason(path: &PathStatus) -> String {
    path.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default()
}
