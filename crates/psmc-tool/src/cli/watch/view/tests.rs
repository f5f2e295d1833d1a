use psmc_api::{PathState, PathStatus, PeerState, PeerStatus, WaitingPath};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::keys::Key;
use super::super::testing::{Watched, path, peer};
use super::*;

/// What a terminal of that size shows.
fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    terminal.backend().to_string()
}

/// A site with two peers and a minute of traffic, of which one path has had its share.
fn busy() -> Watched {
    let relayed = PathStatus { relays: vec!["fra1".to_owned()], weight: 3, ..path("lte-via-fra1", 2) };
    let waiting =
        WaitingPath { name: Some("dsl".to_owned()), why: "no such interface".to_owned(), since_s: 4.0 };
    let depot = PeerStatus { state: PeerState::Down, waiting: vec![waiting], ..peer("depot", Vec::new()) };
    let mut watched = Watched::new(vec![peer("hq", vec![path("wifi", 1), relayed]), depot]);
    for second in 1..=70 {
        watched.after(|peers| busy_second(second, &mut peers[0]));
    }
    watched
}

fn busy_second(second: u64, hq: &mut PeerStatus) {
    hq.tx_bytes += 2_000_000;
    hq.rx_bytes += 40_000;
    hq.paths[0].tx_bytes += 1_500_000 + second * 20_000;
    hq.paths[0].rx_bytes += 40_000;
    hq.classes[0].tx_packets += 1500;
    hq.classes[0].queued_packets = 3;
    hq.classes[0].queued_bytes = 4200;
    if second < 40 {
        hq.paths[1].tx_bytes += 600_000;
    }
    if second == 40 {
        hq.paths[1] = PathStatus {
            state: PathState::Suspect,
            since_s: 0.1,
            why: Some("nothing received for 60 ms".to_owned()),
            rtt_ms: None,
            ..hq.paths[1].clone()
        };
        *hq.repair.get_mut("resent").unwrap() += 12;
    }
    if second == 70 {
        hq.paths[1].state = PathState::Dead;
        *hq.repair.get_mut("tx_copies").unwrap() += 7;
    }
}

#[test]
fn a_small_terminal_has_all_that_matters() {
    insta::assert_snapshot!(screen(&busy().model, 80, 24));
}

#[test]
fn a_large_terminal_is_used() {
    let mut watched = busy();
    watched.model.press(Key::Down);
    insta::assert_snapshot!(screen(&watched.model, 160, 50));
}

#[test]
fn the_next_peer_has_a_path_that_waits() {
    let mut watched = busy();
    watched.model.press(Key::NextPeer);
    insta::assert_snapshot!(screen(&watched.model, 80, 24));
}

#[test]
fn silence_and_a_refusal_are_seen() {
    let mut watched = busy();
    watched.silent();
    watched.silent();
    let refusal = "0 is not a weight: weights go from 1 to 1000; a path of weight 2 gets twice the packets of one \
                   of weight 1";
    watched.model.refused(refusal.to_owned());
    insta::assert_snapshot!(screen(&watched.model, 80, 24));
}

#[test]
fn help_lists_the_keys() {
    let mut watched = busy();
    watched.model.press(Key::Help);
    insta::assert_snapshot!(screen(&watched.model, 80, 24));
    watched.model.press(Key::Other);
    assert_eq!(screen(&watched.model, 80, 24), screen(&busy().model, 80, 24));
}

#[test]
fn of_many_paths_those_around_the_chosen_one_are_shown() {
    let paths = (1..=64).map(|id| path(&format!("a-rather-long-name-of-path-{id}"), id)).collect();
    let mut watched = Watched::new(vec![peer("hq", paths)]);
    for _ in 0..40 {
        watched.model.press(Key::Down);
    }
    insta::assert_snapshot!(screen(&watched.model, 80, 24));
}

#[test]
fn no_size_is_too_small() {
    let mut watched = busy();
    for _ in 0..2 {
        for (width, height) in [(1, 1), (2, 60), (10, 3), (40, 12), (79, 23), (300, 2)] {
            screen(&watched.model, width, height);
        }
        watched.model.press(Key::Help);
    }
}
