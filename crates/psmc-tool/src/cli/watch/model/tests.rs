use psmc_api::PeerState;
use psmc_api::watch::{MAX_EVENTS, Traffic};

use super::super::testing::{Watched, path, peer};
use super::*;

fn two_paths() -> Watched {
    Watched::new(vec![peer("hq", vec![path("lte", 1), path("wifi", 2)])])
}

#[test]
fn rates_are_those_between_two_answers() {
    let mut watched = two_paths();
    assert_eq!(watched.model.rates(&watched.model.peers()[0]), None);
    watched.after(|peers| {
        peers[0].tx_bytes += 500_000;
        peers[0].paths[0].tx_bytes += 1_250_000;
        peers[0].paths[0].rx_bytes += 125_000;
        peers[0].classes[0].tx_packets += 900;
        peers[0].repair.insert("resent".to_owned(), 15);
    });
    let rates = watched.model.rates(&watched.model.peers()[0]).unwrap();
    assert_eq!(rates.traffic, Traffic { up_mbps: 4.0, down_mbps: 0.0 });
    assert_eq!(rates.paths[&1], Traffic { up_mbps: 10.0, down_mbps: 1.0 });
    assert_eq!(rates.paths[&2], Traffic::default());
    assert_eq!(rates.classes["best-effort"], 900.0);
    assert_eq!(rates.repair["resent"], 5.0);
    assert_eq!(watched.model.histories(&watched.model.peers()[0], 60), [[11.0], [0.0]]);
}

#[test]
fn an_answer_after_silence_has_the_mean_rate_of_that_time() {
    let mut watched = two_paths();
    watched.silent();
    watched.silent();
    watched.silent();
    watched.after(|peers| peers[0].paths[0].tx_bytes += 4_000_000);
    let rates = watched.model.rates(&watched.model.peers()[0]).unwrap();
    assert_eq!(rates.paths[&1].up_mbps, 8.0);
    assert_eq!(watched.events(), ["09:00:01 psmcd does not answer", "09:00:04 psmcd answers again"]);
}

#[test]
fn another_path_of_the_same_name_has_a_past_of_its_own() {
    let mut watched = two_paths();
    watched.after(|peers| peers[0].paths[0].tx_bytes += 1_250_000);
    watched.after(|peers| peers[0].paths[0] = path("lte", 3));
    let rates = watched.model.rates(&watched.model.peers()[0]).unwrap();
    assert!(!rates.paths.contains_key(&3));
    assert_eq!(watched.model.histories(&watched.model.peers()[0], 60), [vec![], vec![0.0, 0.0]]);
}

#[test]
fn a_restarted_daemon_has_no_rates_yet() {
    let mut watched = two_paths();
    watched.status.site.uptime_s = 1.0;
    watched.after(|peers| peers[0].paths[0].since_s = 0.5);
    assert_eq!(watched.model.rates(&watched.model.peers()[0]), None);
    assert_eq!(watched.events(), ["09:00:01 psmcd 0.1.0 was restarted"]);
}

#[test]
fn what_happens_to_paths_and_peers_is_told() {
    let mut watched = two_paths();
    watched.after(|peers| {
        peers[0].paths[0].state = PathState::Suspect;
        peers[0].paths[0].why = Some("silent for 60 ms".to_owned());
    });
    watched.after(|peers| peers[0].paths.push(path("dsl", 3)));
    watched.after(|peers| {
        peers[0].paths.remove(0);
        peers[0].paths[0].since_s = 0.2;
        peers[0].state = PeerState::Down;
    });
    watched.after(|peers| peers[0].state = PeerState::Connected);
    watched.after(|peers| peers.push(peer("depot", Vec::new())));
    watched.after(|peers| drop(peers.remove(0)));
    let events = [
        "09:00:01 hq: path lte: active → suspect (silent for 60 ms)",
        "09:00:02 hq: path dsl added: active",
        "09:00:03 peer hq: connected → down",
        "09:00:03 hq: path wifi: active again",
        "09:00:03 hq: path lte removed",
        "09:00:04 peer hq: down → connected",
        "09:00:05 peer depot added: connected",
        "09:00:06 peer hq removed",
    ];
    assert_eq!(watched.events(), events);
}

#[test]
fn events_are_forgotten_some_day() {
    let mut watched = two_paths();
    for _ in 0..MAX_EVENTS {
        watched.after(|peers| peers[0].paths[0].since_s = 0.0);
        watched.after(|peers| peers[0].paths[0].since_s = -1.0);
    }
    assert_eq!(watched.events().len(), MAX_EVENTS);
}

#[test]
fn keys_choose_among_peers_and_paths() {
    let paths = || vec![path("lte", 1), path("wifi", 2)];
    let mut watched = Watched::new(vec![peer("hq", paths()), peer("depot", Vec::new())]);
    let mut chosen = |key| {
        assert_eq!(watched.model.press(key), None);
        let model = &watched.model;
        (model.peer().unwrap().name.clone(), model.path().map(|path| path.name.clone()))
    };
    let of_hq = |path: &str| ("hq".to_owned(), Some(path.to_owned()));
    assert_eq!([Key::Up, Key::Down, Key::Down].map(&mut chosen), ["lte", "wifi", "wifi"].map(of_hq));
    assert_eq!(chosen(Key::NextPeer), ("depot".to_owned(), None));
    for key in [Key::Down, Key::Standby, Key::Heavier, Key::Lighter] {
        assert_eq!(chosen(key), ("depot".to_owned(), None));
    }
    assert_eq!(chosen(Key::NextPeer), of_hq("lte"));
    assert_eq!(chosen(Key::Down), of_hq("wifi"));
    // One that has gone is chosen no more.
    watched.after(|peers| drop(peers[0].paths.pop()));
    assert_eq!(watched.model.path().unwrap().name, "lte");
}

#[test]
fn keys_change_the_chosen_path() {
    let mut watched = two_paths();
    watched.model.press(Key::Down);
    let set = |weight, state| {
        let (peer, path) = ("hq".to_owned(), "wifi".to_owned());
        Some(Wish::Ask(Box::new(Request::PathSet {
            peer,
            path,
            weight,
            max_rate: None,
            tier: None,
            direction: None,
            state,
            congestion: None,
        })))
    };
    assert_eq!(watched.model.press(Key::Standby), set(None, Some(WantedState::Standby)));
    watched.after(|peers| peers[0].paths[1].state = PathState::Standby);
    assert_eq!(watched.model.press(Key::Standby), set(None, Some(WantedState::Active)));
    // Faster than the daemon says so.
    assert_eq!(watched.model.press(Key::Heavier), set(Some(2), None));
    assert_eq!(watched.model.press(Key::Heavier), set(Some(3), None));
    watched.after(|peers| peers[0].paths[1].weight = 3);
    assert_eq!(watched.model.press(Key::Lighter), set(Some(2), None));
    assert_eq!(watched.model.wanted_weight(), Some(2));
    watched.model.refused("the weight is fixed".to_owned());
    assert_eq!((watched.model.wanted_weight(), watched.model.refusal()), (None, Some("the weight is fixed")));
    assert_eq!(watched.model.press(Key::Other), None);
    assert_eq!(watched.model.refusal(), None);
    assert_eq!(watched.model.press(Key::Quit), Some(Wish::Quit));
}

#[test]
fn without_an_answer_keys_do_nothing() {
    let mut model = Model::new(Duration::from_secs(1));
    let keys = [Key::Up, Key::Down, Key::NextPeer, Key::Standby, Key::Heavier, Key::Lighter];
    assert_eq!(keys.map(|key| model.press(key)), [const { None }; 6]);
}
