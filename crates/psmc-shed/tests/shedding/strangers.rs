//! Who may not have what dropped: strangers, owners of other destinations, and messages that came before, too late, or too many.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_net::framing::{MessageReader, write_message};
use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity};
use psmc_service::clock::since_1970;
use psmc_shed::message::{ALPN, Decline, Message, Reason, Rules, Wanted};
use psmc_shed::status::{Counts, RouterStatus};
use psmc_testbed::poll::wait_for;

use crate::world::{PATIENCE, SERVER, World};

fn router(world: &World) -> RouterStatus {
    world.routers[0].status().router.unwrap()
}

fn wanted(name: &str, destination: &str, rate: u64) -> Wanted {
    Wanted {
        name: name.to_owned(),
        destination: destination.to_owned(),
        source: None,
        protocol: None,
        ports: None,
        rate: Some(rate),
    }
}

/// What the router answers to each message of a connection, as far as it is served; reports of what has come are left out.
fn say(world: &World, key: &PrivateKey, messages: &[Message]) -> Vec<Message> {
    let (identity, expected) = (Identity::new(key), world.routers[0].key.public());
    let talk = || async move {
        let stream = connect_tcp(None, None, World::address(0), PATIENCE).await.unwrap();
        let mut answers = Vec::new();
        let dialer = Dialer::for_protocol(&identity, expected, ALPN);
        let Ok(secured) = dialer.connect(stream).await else { return answers };
        let (mut stream, mut reader) = (secured.stream, MessageReader::default());
        for message in messages {
            if write_message(&mut stream, message).await.is_err() {
                break;
            }
            loop {
                match reader.next(&mut stream).await {
                    Ok(Message::Report { .. } | Message::Held { .. }) => {}
                    Ok(answer) => {
                        answers.push(answer);
                        break;
                    }
                    Err(_) => return answers,
                }
            }
        }
        answers
    };
    world.server.namespace.block_on(talk).unwrap()
}

fn now_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap()
}

fn rules(serial: u64, rules: Vec<Wanted>) -> Message {
    Message::Rules(Rules { serial, expires_ms: now_ms() + 60_000, rules })
}

fn declined(serial: u64, reason: Decline) -> Message {
    Message::Declined { serial, reason, max_rules: 10 }
}

#[test]
fn nothing_changes_by_what_is_refused() {
    let mut world = World::new();
    world.start_routers("");
    let own = SERVER.to_string() + "/32";
    let good = rules(1000, vec![wanted("good", &own, 7_000)]);
    let taken = say(&world, &world.server.key, std::slice::from_ref(&good));
    assert!(
        matches!(&taken[..], [Message::Taken { serial: 1000, refused, .. }] if refused.is_empty()),
        "{taken:?}"
    );
    // Counters and times go on.
    let lasts = |line: &&str| !line.contains("expires") && !line.contains("packets");
    let ruleset =
        || -> Vec<String> { world.routers[0].ruleset().lines().filter(lasts).map(str::to_owned).collect() };
    let before = ruleset();
    assert!(before.iter().any(|line| line.contains("limit rate over 7000 bytes/second")), "{before:?}");

    // An unknown key: not even a handshake.
    assert_eq!(say(&world, &PrivateKey::generate(), std::slice::from_ref(&good)), []);
    wait_for("the stranger to be counted", PATIENCE, || (router(&world).unknown_keys == 1).then_some(()));

    // What came before, what has ended, and what is too much.
    let expired = Message::Rules(Rules { serial: 1001, expires_ms: now_ms() - 1, rules: vec![] });
    let many = rules(1002, (0..50).map(|number| wanted(&format!("r{number}"), &own, 0)).collect());
    assert_eq!(
        say(&world, &world.server.key, &[good, expired, many]),
        [
            declined(1000, Decline::Replayed),
            declined(1001, Decline::Expired),
            declined(1002, Decline::TooMany)
        ]
    );
    // Ten thousand at once are more than a message may have, and end the connection.
    let flood = rules(1003, (0..10_000).map(|number| wanted(&format!("r{number}"), &own, 0)).collect());
    assert_eq!(say(&world, &world.server.key, &[flood]), []);
    wait_for("nonsense to be counted", PATIENCE, || (router(&world).malformed == 1).then_some(()));
    assert_eq!(ruleset(), before);

    let status = router(&world);
    let expected = Counts { taken: 1, replayed: 1, expired: 1, too_many: 1, ..Counts::default() };
    assert_eq!((status.counts, status.trouble), (expected, None));
}

#[test]
fn rules_for_others_and_contradictions_are_refused_one_by_one() {
    let mut world = World::new();
    world.start_routers("");
    let own = SERVER.to_string() + "/32";
    let mixed = vec![
        wanted("foreign", "198.51.100.1/32", 0),
        wanted("wide", "203.0.113.0/24", 0),
        wanted("this", &own, 1),
        wanted("that", &own, 2),
        wanted("nonsense", "somewhere", 3),
        Wanted { protocol: Some(17), ports: Some((5, 6)), ..wanted("good", &own, 4_000) },
    ];
    let answers = say(&world, &world.server.key, &[rules(1, mixed)]);
    let [Message::Taken { refused, .. }] = &answers[..] else { panic!("{answers:?}") };
    let refused: BTreeSet<(&str, Reason)> =
        refused.iter().map(|refusal| (refusal.name.as_str(), refusal.reason)).collect();
    let expected = [
        ("foreign", Reason::Foreign),
        ("nonsense", Reason::Illegal),
        ("that", Reason::Contradictory),
        ("this", Reason::Contradictory),
        ("wide", Reason::Foreign),
    ];
    assert_eq!(refused, BTreeSet::from(expected));
    let ruleset = world.routers[0].ruleset();
    assert!(ruleset.contains("4000 bytes/second") && !ruleset.contains("198.51.100.1"), "{ruleset}");
    let counts = router(&world).counts;
    assert_eq!((counts.foreign, counts.contradictory, counts.illegal), (2, 2, 1));
}

#[test]
fn a_server_says_what_routers_refuse() {
    let mut world = World::new();
    world.start_routers("");
    let foreign = "[[accept]]\nname = \"foreign\"\ndestination = \"198.51.100.1\"\nrate = \"1mbit\"\n";
    world.start_server("4mbit", foreign);
    world.wait_until_current();
    wait_for("the refusal", Duration::from_secs(10), || {
        let upstreams = world.server.status().server?.upstreams;
        upstreams.iter().all(|upstream| upstream.refused.len() == 1).then_some(())
    });
    assert!(
        world
            .server
            .explain("foreign")
            .contains("the destination is not among this server's `prefixes` there")
    );
    assert_eq!(router(&world).servers[0].rules.len(), 1);
}
