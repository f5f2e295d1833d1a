//! What happens when a service is attacked.

use std::net::SocketAddr;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use psmc_net::framing::{MessageReader, write_message};
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity};
use psmc_routes::{AltRecord, GroupKey};
use psmc_service::clock::unix_seconds;
use psmc_signal::{Message, RelayOffer, Role, Stage};
use psmc_testbed::poll::wait_for;
use psmc_wire::relay::{
    ALPN, Far, Hello, Message as RelayMessage, Refusal, RequestId, Reserve, SignedGrant, VERSION,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::continuity::without;
use crate::harness::{Bed, Caller, PATIENCE, alert, name, numbers, register};
use crate::parts::{SERVICE, client_key, group_secret, guard_key, relay_key, service_key};

#[test]
fn an_alert_has_relays_capped_gateways_registered_routes_published_and_clients_told() {
    let bed = Bed::new(6, "relays_per_group = 2\nrelay_rate = \"20mbit\"\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let (van, bad) =
        (bed.dial(Role::Client, &client_key("van")).up(), bed.dial(Role::Client, &client_key("bad")).up());
    assert!(bed.tool(&["client", "block", "bad"]).status.success());
    bed.wait_for_relays(6);
    let started = Instant::now();
    guard.say(alert("1"));
    guard.hear(|message| (message == Message::Noted { id: "1".to_owned() }).then_some(()));
    let mitigation = register(&guard);
    assert_eq!((mitigation.stage, mitigation.relays.len()), (Stage::Requested, 4));
    let routes = van.hear(|message| if let Message::Routes(routes) = message { Some(routes) } else { None });
    println!("the client knew {:?} after the alert", started.elapsed());
    let status = bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    println!("published {} ms after the alert", status["services"][0]["published_after_ms"]);

    // What is in DNS for everyone, and what one group was told, are two relays each, and not the same.
    let open = numbers(&bed.routes_in_dns().unwrap());
    let record = STANDARD.decode(routes.record.unwrap()).unwrap();
    let AltRecord::Sealed(sealed) = AltRecord::decode(&name("www.example.com."), &record).unwrap() else {
        panic!("what a group is told is sealed")
    };
    let signed = GroupKey::new(&group_secret()).open(&sealed).unwrap();
    let of_staff = numbers(signed.verify(&service_key().public(), unix_seconds(), 0).unwrap());
    let mut all = [open.clone(), of_staff.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!((open.len(), of_staff.len(), all.len()), (2, 2, 4));

    // Relays carry no more than they are to, and those that are not needed what they can.
    for number in 0..6 {
        let limit = bed.relay_status(number).max_rate_bits_per_second;
        assert_eq!(limit, all.contains(&number).then_some(20_000_000), "relay {number}");
    }
    // What the gateway and the client were granted opens the relays to them.
    for offer in &mitigation.relays {
        assert!(is_registered(&bed, offer));
    }
    assert_eq!(routes.grants.len(), 2);
    let grant = STANDARD.decode(&routes.grants[0]).unwrap();
    let grant = SignedGrant::from_bytes(&grant).unwrap().grant;
    assert_eq!(grant.site.0, *client_key("van").public().as_bytes());
    assert!(of_staff.iter().any(|number| grant.relay.0 == *relay_key(*number).public().as_bytes()));

    // Who misbehaves is told nothing.
    let counts = &bed.status()["counts"];
    assert!(counts["not_told"].as_u64() >= Some(1) && counts["told"].as_u64() >= Some(1), "{counts}");
    drop(bad);
}

/// Whether a relay lets the gateway register with what it was granted.
fn is_registered(bed: &Bed, offer: &RelayOffer) -> bool {
    let grant = STANDARD.decode(offer.grant.as_ref().unwrap()).unwrap();
    let grant = Some(SignedGrant::from_bytes(&grant).unwrap());
    let key = offer.public_key.parse().unwrap();
    let address = offer.address;
    bed.block_on(async move {
        let tcp = connect_tcp(None, None, address, PATIENCE).await.unwrap();
        let dialer = Dialer::for_protocol(&Identity::new(&service_key()), key, ALPN);
        let mut stream = dialer.connect(tcp).await.unwrap().stream;
        let hello = Hello { version: VERSION, name: "hq".to_owned(), grant };
        write_message(&mut stream, &RelayMessage::Hello(hello)).await.unwrap();
        let mut reader = MessageReader::default();
        let welcome = reader.next::<RelayMessage>(&mut stream).await.unwrap();
        write_message(&mut stream, &RelayMessage::Register(RequestId(1))).await.unwrap();
        let done = reader.next::<RelayMessage>(&mut stream).await.unwrap();
        matches!(welcome, RelayMessage::Welcome(_)) && done == RelayMessage::Done(RequestId(1))
    })
}

#[test]
fn a_relay_that_dies_is_replaced() {
    let mut bed = Bed::new(3, "relays_per_group = 1\ngroups = [\"public\"]\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    bed.wait_for_relays(3);
    guard.say(alert("1"));
    let first = register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    let before = bed.routes_in_dns().unwrap();
    let [victim] = numbers(&before)[..] else { panic!("one relay") };
    let started = Instant::now();
    bed.kill_relay(victim);
    let second = loop {
        let mitigation = register(&guard);
        if mitigation.relays != first.relays {
            break mitigation;
        }
    };
    println!("the gateway knew of another relay {:?} after the first was killed", started.elapsed());
    assert_eq!(second.relays.len(), 1);
    let after = loop {
        let routes = bed.routes_in_dns().unwrap();
        if numbers(&routes) != [victim] {
            break routes;
        }
        assert!(started.elapsed() < PATIENCE);
    };
    println!("it was in DNS {:?} after that", started.elapsed());
    assert!(after.validity().serial > before.validity().serial);
    assert_eq!(after.relays()[0].address, second.relays[0].address);
    let events = String::from_utf8(bed.tool(&["events"]).stdout).unwrap();
    assert!(events.contains(&format!("the relay r{victim} has failed")), "{events}");
}

#[test]
fn what_a_gateway_reports_is_replaced_and_what_one_client_reports_is_not() {
    let bed = Bed::new(4, "relays_per_group = 2\ngroups = [\"public\"]\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let bad = bed.dial(Role::Client, &client_key("bad")).up();
    bed.wait_for_relays(4);
    guard.say(alert("1"));
    let mitigation = register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    let failed = |relay: &RelayOffer| Message::RelayFailed {
        service: SERVICE.to_owned(),
        relay: relay.public_key.clone(),
        reason: "nothing comes back".to_owned(),
    };
    let [first, second] = &mitigation.relays[..] else { panic!("two relays") };
    bad.say(failed(second));
    guard.say(failed(first));
    let names = |status: &serde_json::Value| {
        let relays = status["services"][0]["relays"]["public"].as_array().cloned().unwrap_or_default();
        relays.iter().map(|relay| relay.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let status = bed.wait_for("a replacement", |status| !names(status).contains(&first.name));
    assert!(
        names(&status).contains(&second.name),
        "one client alone is not believed, and if it is the only one"
    );
    let lab = bed.dial(Role::Client, &client_key("lab")).up();
    lab.say(failed(second));
    let status = bed.wait_for("another", |status| !names(status).contains(&second.name));
    assert_eq!(names(&status).len(), 2);
    assert_eq!(status["counts"]["relays_reported"], 2);
}

#[test]
fn what_is_withdrawn_leaves_dns_relays_and_clients() {
    let bed = Bed::new(2, "relays_per_group = 2\nrelay_rate = \"20mbit\"\ngroups = [\"public\"]\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let lab = bed.dial(Role::Client, &client_key("lab")).up();
    bed.wait_for_relays(2);
    assert!(bed.tool(&["alert", SERVICE]).status.success());
    register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    assert!(bed.routes_in_dns().is_some());
    assert!(bed.tool(&["withdraw", SERVICE]).status.success());
    guard.hear(|message| {
        let Message::Mitigation(mitigation) = message else { return None };
        (mitigation.stage == Stage::Withdrawn).then_some(())
    });
    lab.hear(|message| {
        let Message::Routes(routes) = message else { return None };
        routes.record.is_none().then_some(())
    });
    let started = Instant::now();
    while bed.routes_in_dns().is_some() || bed.relay_status(0).max_rate_bits_per_second.is_some() {
        assert!(started.elapsed() < PATIENCE);
    }
}

/// The first grant that a client hears of, and the number of its relay, one of two.
fn grant_of(client: &Caller) -> (SignedGrant, usize) {
    let routes = client.hear(|message| {
        let Message::Routes(routes) = message else { return None };
        routes.record.is_some().then_some(routes)
    });
    let grant = SignedGrant::from_bytes(&STANDARD.decode(&routes.grants[0]).unwrap()).unwrap();
    let of = |number: &usize| grant.grant.relay.0 == *relay_key(*number).public().as_bytes();
    let number = (0..2).find(of).unwrap();
    (grant, number)
}

#[test]
fn a_client_that_is_blocked_loses_what_it_has_at_relays_and_may_have_it_again() {
    let bed = Bed::new(2, "relays_per_group = 1\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let van = bed.dial(Role::Client, &client_key("van")).up();
    bed.wait_for_relays(2);
    guard.say(alert("1"));
    register(&guard);
    let (grant, number) = grant_of(&van);
    let greet = || greet(number, grant.clone());
    bed.block_on(async {
        let (mut stream, mut reader, answer) = greet().await;
        assert!(matches!(answer, RelayMessage::Welcome(_)), "{answer:?}");
        let far = Far::Address(SocketAddr::from(([127, 0, 0, 1], 9)));
        let wanted = RelayMessage::Reserve(Reserve { request: RequestId(1), rate: None, far });
        write_message(&mut stream, &wanted).await.unwrap();
        let answer = reader.next::<RelayMessage>(&mut stream).await.unwrap();
        assert!(matches!(answer, RelayMessage::Reserved(_)), "{answer:?}");
        assert!(bed.tool(&["client", "block", "van"]).status.success());
        // Closed or reset, whichever comes first.
        reader.next::<RelayMessage>(&mut stream).await.unwrap_err();
        let (_, _, answer) = greet().await;
        assert!(matches!(&answer, RelayMessage::Refused(refused) if refused.reason == Refusal::Grant));
        assert_eq!(bed.relay_status(number).sessions.len(), 0);
        assert!(bed.tool(&["client", "unblock", "van"]).status.success());
        let started = Instant::now();
        while !matches!(greet().await.2, RelayMessage::Welcome(_)) {
            assert!(started.elapsed() < PATIENCE, "{}", bed.log());
        }
    });
}

#[test]
fn who_is_removed_while_nobody_runs_is_not_forgotten() {
    let mut bed = Bed::new(2, "relays_per_group = 1\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let van = bed.dial(Role::Client, &client_key("van")).up();
    bed.wait_for_relays(2);
    guard.say(alert("1"));
    register(&guard);
    let (grant, number) = grant_of(&van);
    let is_refused = |bed: &Bed| {
        let (_, _, answer) = bed.block_on(greet(number, grant.clone()));
        matches!(answer, RelayMessage::Refused(refused) if refused.reason == Refusal::Grant)
    };
    assert!(!is_refused(&bed));

    bed.kill_coordinator();
    bed.change_file(|text| without(&text, "van"));
    // The second start knows of the client only what the first one has kept, and the relay nothing of the first.
    for _ in 0..2 {
        bed.start_coordinator();
        bed.wait_for_relays(2);
        let started = Instant::now();
        while !is_refused(&bed) {
            assert!(started.elapsed() < PATIENCE, "{}", bed.log());
        }
        bed.kill_coordinator();
        bed.kill_relay(number);
        bed.start_relay(number);
        wait_for("the relay", PATIENCE, || bed.relay_answers(number).then_some(()));
        assert!(!is_refused(&bed));
    }
}

/// A connection of the client `van` to a relay, and what that says to it.
async fn greet(number: usize, grant: SignedGrant) -> (TlsStream<TcpStream>, MessageReader, RelayMessage) {
    let address = SocketAddr::from(([127, 0, 1, u8::try_from(number).unwrap()], 5115));
    let tcp = connect_tcp(None, None, address, PATIENCE).await.unwrap();
    let dialer = Dialer::for_protocol(&Identity::new(&client_key("van")), relay_key(number).public(), ALPN);
    let mut stream = dialer.connect(tcp).await.unwrap().stream;
    let hello = Hello { version: VERSION, name: "van".to_owned(), grant: Some(grant) };
    write_message(&mut stream, &RelayMessage::Hello(hello)).await.unwrap();
    let mut reader = MessageReader::default();
    let answer = reader.next::<RelayMessage>(&mut stream).await.unwrap();
    (stream, reader, answer)
}
