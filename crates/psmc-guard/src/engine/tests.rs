use std::path::Path;

use psmc_net::keys::PrivateKey;
use psmc_signal::{Client, Mitigation, RelayOffer, Stage};

use super::*;
use crate::duty::Standing;

const WWW: &str = "www.example.com";
const TICK: Duration = Duration::from_millis(100);

/// A guard of one service, which is used to 1000 packets per second.
fn engine(state: State) -> Engine {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("hq.key");
    std::fs::write(&key, PrivateKey::from_seed([7; 32]).to_base64().as_str()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = format!(
        "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = [\"eth0\"]\nlearning = 5\ncalm = 5\n\
         [[service]]\nname = \"{WWW}\"\ntargets = [\"2001:db8::10\", \"203.0.113.10\"]\n"
    );
    let config = Config::parse(&text, &directory.path().join(Path::new("guard.toml"))).unwrap();
    Engine::new(&config, state, 0xabc)
}

fn coordinator() -> SocketAddr {
    "198.51.100.9:5117".parse().unwrap()
}

/// Feeds seconds of so many packets per second, and returns all that is said.
fn feed(engine: &mut Engine, seconds: u64, packets: f64) -> Vec<Message> {
    let mut said = Vec::new();
    for second in 0..seconds {
        for _ in 0..10 {
            let sample = [(Signal::Packets, packets), (Signal::Bits, packets * 4000.0)].into_iter().collect();
            // All of it is for the second target.
            engine.handle_samples(&[Observed { sample, busiest: Some(1) }], TICK);
        }
        engine.handle_second(second);
        said.extend(std::iter::from_fn(|| engine.poll_message()));
    }
    said
}

fn mitigation(stage: Stage) -> Message {
    let relay = RelayOffer {
        name: "fra1".to_owned(),
        address: "198.51.100.7:5115".parse().unwrap(),
        public_key: "key".to_owned(),
        grant: None,
    };
    let relays = if stage == Stage::Withdrawn { Vec::new() } else { vec![relay] };
    Message::Mitigation(Mitigation {
        id: 7,
        service: WWW.to_owned(),
        stage,
        relays,
        expires: 1_000_000,
        is_last: true,
    })
}

fn seen(is_registered: bool) -> Seen {
    let standing = Standing { is_registered, is_silent: false, error: None };
    Seen { standing: BTreeMap::from([("key".to_owned(), standing)]), ..Seen::default() }
}

fn attacked() -> Engine {
    let mut engine = engine(State::default());
    engine.handle_up(coordinator());
    assert_eq!(feed(&mut engine, 10, 1000.0), []);
    engine
}

#[test]
fn an_attack_is_said_until_it_is_noted_and_so_is_its_end() {
    let mut engine = attacked();
    let said = feed(&mut engine, 3, 50_000.0);
    let [Message::Alert(first), .., Message::Alert(last)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((&*first.id, first.kind, first.id == last.id), ("hq-abc-1", AlertKind::Rate, true));
    assert_eq!(first.target.as_deref(), Some("203.0.113.10/32"));
    assert!(first.measured.packets.unwrap() > 3000.0 && first.usual.packets.unwrap() < 1100.0);
    for _ in &said {
        engine.handle_message(Message::Noted { id: "hq-abc-1".to_owned() });
    }
    assert_eq!(feed(&mut engine, 3, 50_000.0), []);
    assert!(engine.status(0).services[0].attack.as_ref().unwrap().noted);

    let clear = Message::Clear { id: "hq-abc-1".to_owned(), service: WWW.to_owned() };
    let said = feed(&mut engine, 15, 1000.0);
    assert!(said.len() > 2 && said.iter().all(|message| *message == clear), "{said:?}");
    for _ in &said {
        engine.handle_message(Message::Noted { id: "hq-abc-1".to_owned() });
    }
    assert_eq!(feed(&mut engine, 3, 1000.0), []);
}

#[test]
fn an_answer_to_the_beginning_does_not_note_the_end() {
    let mut engine = attacked();
    assert_eq!(feed(&mut engine, 1, 50_000.0).len(), 2);
    engine.alerts.end(WWW);
    engine.flush_alerts();
    let clear = engine.poll_message().unwrap();
    assert!(matches!(clear, Message::Clear { .. }));
    engine.handle_message(Message::Noted { id: "hq-abc-1".to_owned() });
    engine.alerts.say_again();
    assert!(engine.alerts.poll().is_some());
}

#[test]
fn what_could_not_be_kept_does_not_leave_the_end_unnoted() {
    let mut engine = attacked();
    // Said three times; the coordinator has no room on its disk and does not answer.
    assert_eq!(feed(&mut engine, 2, 50_000.0).len(), 3);
    engine.alerts.end(WWW);
    let noted = || Message::Noted { id: "hq-abc-1".to_owned() };
    // It has room again, and answers what is said from here on.
    for _ in 0..4 {
        engine.alerts.say_again();
        assert!(engine.alerts.poll().is_some_and(|(_, _, is_over)| is_over));
        engine.handle_message(noted());
    }
    engine.alerts.say_again();
    assert_eq!(engine.alerts.poll(), None);
}

#[test]
fn a_new_connection_hears_what_holds() {
    let mut engine = attacked();
    feed(&mut engine, 3, 50_000.0);
    for _ in 0..9 {
        engine.handle_message(Message::Noted { id: "hq-abc-1".to_owned() });
    }
    engine.handle_down(coordinator(), "silent".to_owned());
    assert_eq!(feed(&mut engine, 3, 50_000.0), []);
    engine.handle_up(coordinator());
    assert!(matches!(engine.poll_message(), Some(Message::Alert(alert)) if alert.id == "hq-abc-1"));
}

#[test]
fn a_mitigation_is_carried_out_reported_and_kept() {
    let mut engine = attacked();
    assert!(engine.handle_message(mitigation(Stage::Requested)));
    assert_eq!(engine.wanted().registrations[0].relay.name, "fra1");
    engine.handle_gateway(seen(false));
    assert_eq!(engine.poll_message(), None);
    engine.handle_gateway(seen(true));
    let ready = Message::Ready { id: 7, relays: vec!["key".to_owned()], is_last: true };
    assert_eq!(engine.poll_message(), Some(ready.clone()));
    let said = feed(&mut engine, 2, 1000.0);
    assert_eq!(
        said.iter().filter(|message| matches!(message, Message::Report { .. })).count(),
        2,
        "{said:?}"
    );

    // Without a coordinator, and over a restart, it stays.
    engine.handle_down(coordinator(), "gone".to_owned());
    let mut engine = self::engine(engine.state());
    assert_eq!(engine.wanted().registrations.len(), 1);
    engine.handle_up(coordinator());
    engine.handle_gateway(seen(true));
    assert_eq!(engine.poll_message(), Some(ready));
    engine.handle_gateway(Seen::default());
    assert!(matches!(engine.poll_message(), Some(Message::RelayFailed { .. })));
    engine.handle_message(mitigation(Stage::Withdrawn));
    assert_eq!(engine.wanted(), Wanted::default());
}

#[test]
fn what_expires_ends_without_a_coordinator() {
    let mut engine = attacked();
    engine.handle_message(mitigation(Stage::Active));
    let client = Client { name: "ann".to_owned(), public_key: "a".to_owned(), allowed_ips: Vec::new() };
    let list = vec![client];
    engine.handle_message(Message::Clients {
        service: WWW.to_owned(),
        revision: 1,
        clients: list,
        is_last: true,
    });
    engine.handle_down(coordinator(), "gone".to_owned());
    engine.handle_second(999_999);
    assert_eq!((engine.wanted().registrations.len(), engine.wanted().clients.len()), (1, 1));
    engine.handle_second(1_000_000);
    assert_eq!(engine.wanted(), Wanted::default());
}

#[test]
fn others_services_are_none_of_ours() {
    let mut engine = attacked();
    let Message::Mitigation(ours) = mitigation(Stage::Active) else { unreachable!() };
    let theirs = Mitigation { service: "ftp.example.com".to_owned(), ..ours };
    assert!(!engine.handle_message(Message::Mitigation(theirs)));
    assert_eq!(engine.wanted(), Wanted::default());
    assert_eq!(engine.status(0).counts.refused_messages, 1);
}

#[test]
fn an_attack_from_before_a_restart_goes_on_or_ends() {
    let mut before = attacked();
    feed(&mut before, 1, 50_000.0);

    let mut goes_on = engine(before.state());
    goes_on.handle_up(coordinator());
    let said = feed(&mut goes_on, 1, 50_000.0);
    assert!(matches!(&said[0], Message::Alert(alert) if alert.id == "hq-abc-1"), "{said:?}");

    let mut ended = engine(before.state());
    ended.handle_up(coordinator());
    let said = feed(&mut ended, 6, 1000.0);
    assert!(matches!(&said[0], Message::Clear { id, .. } if id == "hq-abc-1"), "{said:?}");
}
