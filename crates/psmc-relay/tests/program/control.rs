//! Who is served, and gateways that nobody reaches but through their relays.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use psmc_net::keys::PrivateKey;
use psmc_net::tls::{Acceptor, AllowedKeys, Dialer, Identity, TlsError};
use psmc_wire::counts::LaneCounts;
use psmc_wire::relay::{
    Abilities, Cap, CapTarget, Far, Grant, Message, Refusal, Reserve, ReserveTunnel, Revoke, SignedGrant,
    Welcome,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{End, Relay, Site, key_bytes};

fn grant(relay: &Relay, site: &PrivateKey, coordinator: &PrivateKey, expires_in: i64) -> SignedGrant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let grant = Grant {
        relay: relay.key_bytes(),
        site: key_bytes(site),
        expires_s: now.saturating_add_signed(expires_in),
        sessions: 1,
        max_rate: Some(20_000_000),
        gateway: false,
    };
    let signature = coordinator.sign(&grant.signed_bytes());
    SignedGrant { grant, signature }
}

fn is_refused(answer: &Message, reason: Refusal) -> bool {
    matches!(answer, Message::Refused(refused) if refused.reason == reason)
}

#[tokio::test]
async fn a_stranger_does_not_get_in() {
    let (site, stranger) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&site, "")]);
    let refused = Site::greet(&stranger, &relay, None).await.err();
    assert!(matches!(refused, Some(TlsError::KeyRefused)), "{refused:?}");
    relay.wait_for("the stranger", |status| status.control_unknown_key == 1);
}

#[tokio::test]
async fn a_grant_lets_in_whom_it_names_for_as_long_as_it_says() {
    let (coordinator, site, other) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start(&format!("coordinator = \"{}\"", coordinator.public()), &[]);
    let good = grant(&relay, &site, &coordinator, 60);
    let mut altered = good.clone();
    altered.grant.sessions = 100;
    for (key, grant) in [
        (&site, None),
        (&site, Some(grant(&relay, &site, &coordinator, -60))),
        (&site, Some(grant(&relay, &site, &other, 60))),
        (&site, Some(altered)),
        (&other, Some(good.clone())),
    ] {
        let (_, answer) = Site::greet(key, &relay, grant).await.unwrap();
        assert!(is_refused(&answer, Refusal::Grant), "{answer:?}");
    }
    let (mut served, answer) = Site::greet(&site, &relay, Some(good)).await.unwrap();
    let Message::Welcome(Welcome { sessions: 1, max_rate: Some(20_000_000), .. }) = answer else {
        panic!("{answer:?}")
    };
    let far = || Far::Address("127.0.0.1:9".parse().unwrap());
    served.reserve(far()).await;
    let answer = served.ask(|request| Message::Reserve(Reserve { request, rate: None, far: far() })).await;
    assert!(is_refused(&answer, Refusal::Limit), "{answer:?}");
    // Without the grant it is known for as long as that counts.
    let (_, answer) = Site::greet(&site, &relay, None).await.unwrap();
    assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
}

#[tokio::test]
async fn a_grant_that_is_taken_back_ends_connections_sessions_and_streams_at_once() {
    let (coordinator, site, stays) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start(&format!("coordinator = \"{}\"", coordinator.public()), &[]);
    let (first, later) = (grant(&relay, &site, &coordinator, 60), grant(&relay, &site, &coordinator, 90));
    let (mut taken, _) = Site::greet(&site, &relay, Some(first.clone())).await.unwrap();
    let others = grant(&relay, &stays, &coordinator, 60);
    let (mut staying, _) = Site::greet(&stays, &relay, Some(others)).await.unwrap();
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = || Far::Address(server.local_addr().unwrap());
    taken.reserve(far()).await;
    let kept = staying.reserve(far()).await;
    let (mut stream, _) = Site::greet(&site, &relay, None).await.unwrap();
    assert!(matches!(stream.ask(|request| Message::Connect(request, far())).await, Message::Connected(_)));
    let (mut end, _) = server.accept().await.unwrap();

    let until_s = first.grant.expires_s;
    let revoke = |key| move |request| Message::Revoke(Revoke { request, site: key, until_s });
    let of_site = key_bytes(&site);
    assert!(is_refused(&staying.ask(revoke(of_site)).await, Refusal::NotAllowed));
    let mut above = Site::connect(&coordinator, &relay).await;
    assert!(matches!(above.ask(revoke(of_site)).await, Message::Done(_)));
    let mut rest = Vec::new();
    // Whether they are closed or reset depends on what is still on its way.
    drop(taken.stream.read_to_end(&mut rest).await);
    drop(stream.stream.read_to_end(&mut rest).await);
    drop(end.read_to_end(&mut rest).await);
    assert_eq!(relay.status().sessions.len(), 1);
    let (_, answer) = Site::greet(&site, &relay, Some(first)).await.unwrap();
    assert!(is_refused(&answer, Refusal::Grant), "{answer:?}");
    let answer = staying.ask(|request| Message::Refresh(request, kept.session)).await;
    assert!(matches!(answer, Message::Done(_)), "{answer:?}");
    let (mut again, answer) = Site::greet(&site, &relay, Some(later)).await.unwrap();
    assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
    again.reserve(far()).await;
}

#[tokio::test]
async fn a_destination_that_is_none_is_refused_and_harms_nothing_else() {
    let site = PrivateKey::generate();
    let relay = Relay::start("", &[(&site, "")]);
    let mut near = Site::connect(&site, &relay).await;
    let wanted = |request, far| Message::Reserve(Reserve { request, rate: None, far });
    for illegal in ["[::ffff:127.0.0.1]:9", "[::ffff:192.0.2.1]:9", "192.0.2.1:0"] {
        let far = || Far::Address(illegal.parse().unwrap());
        let refused = near.ask(|request| wanted(request, far())).await;
        assert!(is_refused(&refused, Refusal::NotAllowed), "{illegal}: {refused:?}");
        let refused = near.ask(|request| Message::Connect(request, far())).await;
        assert!(is_refused(&refused, Refusal::NotAllowed), "{illegal}: {refused:?}");
        let inside = [10, 0, 0, 1].into();
        let tunnel = |request| ReserveTunnel { session: Reserve { request, rate: None, far: far() }, inside };
        let refused = near.ask(|request| Message::ReserveTunnel(tunnel(request))).await;
        assert!(is_refused(&refused, Refusal::NotAllowed), "{illegal}: {refused:?}");
    }
    // The same connection goes on.
    near.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;
}

#[tokio::test]
async fn a_site_is_told_what_was_counted_of_its_sessions_and_of_no_others() {
    let (site, other) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&site, ""), (&other, "")]);
    let (mut near, answer) = Site::greet(&site, &relay, None).await.unwrap();
    let Message::Welcome(Welcome {
        abilities: Abilities { counts: true, revokes: true, sheds: true }, ..
    }) = answer
    else {
        panic!("{answer:?}")
    };
    let session = near.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await.session;
    let answer = near.ask(|request| Message::Count(request, session)).await;
    let Message::Counted(counted) = answer else { panic!("{answer:?}") };
    assert_eq!(
        (counted.session, counted.to_far, counted.to_near.received),
        (session, LaneCounts::default(), [0; 2])
    );
    let mut stranger = Site::connect(&other, &relay).await;
    let answer = stranger.ask(|request| Message::Count(request, session)).await;
    assert!(is_refused(&answer, Refusal::UnknownSession), "{answer:?}");
}

/// What a relay does with a request of a later version is what one of an earlier version does with COUNT.
#[tokio::test]
async fn a_request_that_a_relay_does_not_know_has_no_answer_and_harms_nothing_else() {
    let site = PrivateKey::generate();
    let relay = Relay::start("", &[(&site, "")]);
    let mut near = Site::connect(&site, &relay).await;
    near.say(&Message::Unknown(200)).await;
    near.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;
}

#[tokio::test]
async fn an_expired_grant_makes_nothing_new_and_ends_nothing() {
    let (coordinator, site) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start(&format!("coordinator = \"{}\"", coordinator.public()), &[]);
    let mut short = grant(&relay, &site, &coordinator, 1);
    short.grant.sessions = 1000;
    short.signature = coordinator.sign(&short.grant.signed_bytes());
    let (mut served, _) = Site::greet(&site, &relay, Some(short)).await.unwrap();
    let far = || Far::Address("127.0.0.1:9".parse().unwrap());
    let first = served.reserve(far()).await;
    // Until the second has passed that it names.
    loop {
        let answer =
            served.ask(|request| Message::Reserve(Reserve { request, rate: None, far: far() })).await;
        if is_refused(&answer, Refusal::Grant) {
            break;
        }
        assert!(matches!(answer, Message::Reserved(_)), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = served.ask(|request| Message::Refresh(request, first.session)).await;
    assert!(matches!(answer, Message::Done(_)), "{answer:?}");
    let (_, answer) = Site::greet(&site, &relay, None).await.unwrap();
    assert!(is_refused(&answer, Refusal::Grant), "{answer:?}");
}

#[tokio::test]
async fn the_coordinator_caps_sites_and_sites_their_sessions() {
    let (coordinator, site) = (PrivateKey::generate(), PrivateKey::generate());
    let settings = format!("max_rate = \"100mbit\"\ncoordinator = \"{}\"", coordinator.public());
    let relay = Relay::start(&settings, &[(&site, "max_rate = \"50mbit\"")]);
    let mut near = Site::connect(&site, &relay).await;
    let reserved = near.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;
    let cap = |target, rate| move |request| Message::Cap(Cap { request, target, rate: Some(rate) });
    let own = CapTarget::Session(reserved.session);
    let whole = CapTarget::Site(key_bytes(&site));
    assert!(matches!(near.ask(cap(own, 5_000_000)).await, Message::Done(_)));
    assert!(is_refused(&near.ask(cap(whole, 1_000_000)).await, Refusal::NotAllowed));
    assert!(is_refused(&near.ask(cap(CapTarget::Relay, 1_000_000)).await, Refusal::NotAllowed));

    let mut above = Site::connect(&coordinator, &relay).await;
    assert!(is_refused(&above.ask(cap(own, 1)).await, Refusal::UnknownSession));
    assert!(matches!(above.ask(cap(whole, 10_000_000)).await, Message::Done(_)));
    assert!(matches!(above.ask(cap(CapTarget::Relay, 30_000_000)).await, Message::Done(_)));
    let status = relay.status();
    assert_eq!(status.sessions[0].rate_bits_per_second, Some(5_000_000));
    assert_eq!(status.sites[0].rate_bits_per_second, Some(10_000_000));
    assert_eq!(status.max_rate_bits_per_second, Some(30_000_000));
    assert!(matches!(above.ask(cap(whole, 500_000_000)).await, Message::Done(_)));
    assert_eq!(relay.status().sites[0].rate_bits_per_second, Some(50_000_000), "a cap gives nothing");
}

#[tokio::test]
async fn the_file_is_read_anew_without_disturbing_who_stays() {
    let (stays, goes, comes) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&stays, ""), (&goes, "")]);
    let far = || Far::Address("127.0.0.1:9".parse().unwrap());
    let (mut staying, mut going) = (Site::connect(&stays, &relay).await, Site::connect(&goes, &relay).await);
    let kept = staying.reserve(far()).await;
    going.reserve(far()).await;
    relay.reload("", &[(&stays, "max_sessions = 1"), (&comes, "")]);
    relay.wait_for("the end of a session", |status| status.sessions.len() == 1);
    let status = relay.status();
    assert!(status.sites.iter().any(|site| (site.sessions, site.max_sessions) == (1, 1)), "{status:#?}");
    let mut rest = Vec::new();
    // It is closed or reset, whichever comes first.
    drop(tokio::io::AsyncReadExt::read_to_end(&mut going.stream, &mut rest).await);
    assert!(matches!(Site::greet(&goes, &relay, None).await, Err(TlsError::KeyRefused)));
    let answer = staying.ask(|request| Message::Refresh(request, kept.session)).await;
    assert!(matches!(answer, Message::Done(_)), "{answer:?}");
    let answer = staying.ask(|request| Message::Reserve(Reserve { request, rate: None, far: far() })).await;
    assert!(is_refused(&answer, Refusal::Limit), "{answer:?}");
    Site::connect(&comes, &relay).await.reserve(far()).await;

    relay.reload("nonsense = 1", &[]);
    let before = staying;
    let mut again = Site::connect(&stays, &relay).await;
    let answer = again.ask(|request| Message::Refresh(request, kept.session)).await;
    assert!(matches!(answer, Message::Done(_)), "{answer:?}");

    // Connections of before the file was read are its own, too.
    relay.reload("", &[(&comes, "")]);
    for mut gone in [before, again] {
        drop(gone.stream.read_to_end(&mut Vec::new()).await);
    }
    relay.wait_for("the end of the other session", |status| status.sessions.len() == 1);
}

#[tokio::test]
async fn nonsense_ends_a_connection_and_nothing_else() {
    use tokio::io::AsyncWriteExt;
    let key = PrivateKey::generate();
    let relay = Relay::start("", &[(&key, "")]);
    let mut good = Site::connect(&key, &relay).await;
    for nonsense in [&[0xff; 4000][..], b"\x00\x00\x00\x01\x05", b"\x00\x00\x00\x05\x04\x00\x00\x00\x01"] {
        let mut bad = Site::connect(&key, &relay).await;
        bad.stream.write_all(nonsense).await.unwrap();
        bad.stream.flush().await.unwrap();
        let mut rest = Vec::new();
        // Whether it is closed or reset depends on what is still on its way.
        drop(tokio::io::AsyncReadExt::read_to_end(&mut bad.stream, &mut rest).await);
    }
    good.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;
}

#[tokio::test]
async fn the_tool_and_prometheus_see_it() {
    let key = PrivateKey::generate();
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let relay = Relay::start(&format!("metrics = \"{metrics}\""), &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    site.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;

    let program = env!("CARGO_BIN_EXE_psmc-relay");
    let socket = relay.socket();
    let text = Command::new(program).arg("status").arg("--socket").arg(&socket).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("relay fra1") && text.contains("127.0.0.1:9"), "{text}");
    let json = Command::new(program).args(["status", "--json", "--socket"]).arg(&socket).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["sites"][0]["sessions"], 1);

    let mut page = String::new();
    let mut http = TcpStream::connect(metrics).unwrap();
    http.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    http.read_to_string(&mut page).unwrap();
    for line in [
        "HTTP/1.1 200 OK",
        "psmc_relay_sessions 1",
        "psmc_relay_refused_datagrams_total{reason=\"forged\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}: {page}");
    }
    let mut other = String::new();
    let mut http = TcpStream::connect(metrics).unwrap();
    http.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    http.read_to_string(&mut other).unwrap();
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");
}

#[test]
fn a_file_is_checked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("relay.toml");
    std::fs::write(&file, "[relay]\nname = \"a b\"\n").unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_psmc-relay")).arg("check").arg(&file).output().unwrap();
    assert!(!checked.status.success());
    let said = String::from_utf8(checked.stderr).unwrap();
    for part in ["relay.toml:2", "private_key_file", "complaints"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[tokio::test]
async fn a_relay_without_the_right_to_ip_in_ip_says_so_and_serves_the_rest() {
    let site = PrivateKey::generate();
    let relay = Relay::start("ipip = false", &[(&site, "")]);
    let mut served = Site::connect(&site, &relay).await;
    for (far, complaint) in [("127.0.0.1:9", "CAP_NET_RAW"), ("[::1]:9", "does not lead to")] {
        let far = Far::Address(far.parse().unwrap());
        let tunnel = |request| {
            let session = Reserve { request, rate: None, far };
            Message::ReserveTunnel(ReserveTunnel { session, inside: [127, 0, 0, 1].into() })
        };
        let answer = served.ask(tunnel).await;
        assert!(is_refused(&answer, Refusal::NotAllowed), "{answer:?}");
        assert!(
            matches!(&answer, Message::Refused(refused) if refused.text.contains(complaint)),
            "{answer:?}"
        );
    }
    served.reserve(Far::Address("127.0.0.1:9".parse().unwrap())).await;
}

/// A relay, a gateway that is registered there, and its client.
struct World {
    relay: Relay,
    client_key: PrivateKey,
    gateway_key: PrivateKey,
    gateway: Site,
}

async fn world() -> World {
    let (client_key, gateway_key) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&client_key, ""), (&gateway_key, "gateway = true")]);
    let mut gateway = Site::connect(&gateway_key, &relay).await;
    assert!(matches!(gateway.ask(Message::Register).await, Message::Done(_)));
    World { relay, client_key, gateway_key, gateway }
}

/// The gateway's end of the next stream, once it has accepted it.
async fn next_stream(world: &mut World) -> Site {
    let Message::Incoming(stream) = world.gateway.hear().await else { panic!("a stream waits") };
    let mut site = Site::connect(&world.gateway_key, &world.relay).await;
    assert!(matches!(site.ask(|request| Message::Accept(request, stream)).await, Message::Connected(_)));
    site
}

#[tokio::test]
async fn the_sites_talk_tls_to_each_other_through_the_relay() {
    let mut world = world().await;
    let (client_key, gateway_key) = (Identity::new(&world.client_key), Identity::new(&world.gateway_key));
    let gateway = key_bytes(&world.gateway_key);
    let mut client = Site::connect(&world.client_key, &world.relay).await;
    let connect = client.ask(|request| Message::Connect(request, Far::Gateway(gateway)));
    let (answer, far) = tokio::join!(connect, next_stream(&mut world));
    assert!(matches!(answer, Message::Connected(_)), "{answer:?}");

    let dialer = Dialer::new(&client_key, gateway_key.public());
    let acceptor = Acceptor::new(&gateway_key, AllowedKeys::from_iter([client_key.public()]));
    let (near, far) = tokio::join!(dialer.connect(client.stream), acceptor.accept(far.stream));
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    assert_eq!((near.peer, far.peer), (gateway_key.public(), client_key.public()));
    near.stream.write_all(b"hello").await.unwrap();
    near.stream.flush().await.unwrap();
    let mut heard = [0; 5];
    far.stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    assert_eq!(world.relay.status().streams, 1);
    drop(near);
    world.relay.wait_for("the end of the stream", |status| status.streams == 0);
}

#[tokio::test]
async fn datagrams_reach_a_gateway_once_it_has_shown_where_it_is() {
    let world = world().await;
    let mut client = Site::connect(&world.client_key, &world.relay).await;
    let reserved = client.reserve(Far::Gateway(key_bytes(&world.gateway_key))).await;
    let (mut near, mut gateway) = (End::new(world.relay.address), End::new(world.relay.address));
    near.use_hop(world.relay.address, &reserved.near);
    gateway.use_hop(world.relay.address, &reserved.far);
    near.send(100, 1);
    world.relay.wait_for("a datagram to nowhere", |status| status.refused.no_address == 1);
    let sent = gateway.send(100, 2);
    // All that a client sees is the relay.
    assert_eq!(near.receive(), (sent, world.relay.address));
    let sent = near.send(100, 3);
    assert_eq!(gateway.receive(), (sent, world.relay.address));
}

#[tokio::test]
async fn no_answer_to_a_client_carries_the_gateways_address() {
    let mut world = world().await;
    let mut client = Site::connect(&world.client_key, &world.relay).await;
    let reserved = client.reserve(Far::Gateway(key_bytes(&world.gateway_key))).await;
    let mut gateway = End::new(world.relay.address);
    gateway.use_hop(world.relay.address, &reserved.far);
    gateway.send(100, 1);
    world.relay.wait_for("the gateway's datagram", |status| status.datagrams.received == 1);
    let far = Far::Gateway(key_bytes(&world.gateway_key));
    let mut answers = vec![client.ask(|request| Message::Refresh(request, reserved.session)).await];
    let connect = client.ask(|request| Message::Connect(request, far));
    let (answer, _far) = tokio::join!(connect, next_stream(&mut world));
    answers.push(answer);
    // Of the reservation, what is not random: keys, labels and ids may hold any two bytes.
    assert_eq!((reserved.rate, reserved.idle_s), (None, 60));
    let port = gateway.address().port().to_be_bytes();
    for answer in answers {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        assert!(!bytes.windows(2).any(|two| two == port), "{answer:?}");
        assert!(!bytes.windows(4).any(|four| four == [127, 0, 0, 1]), "{answer:?}");
    }
}

#[tokio::test]
async fn only_a_gateway_can_be_one_and_only_while_it_is_there() {
    let world = world().await;
    let mut client = Site::connect(&world.client_key, &world.relay).await;
    let is =
        |answer: &Message, reason| matches!(answer, Message::Refused(refused) if refused.reason == reason);
    let answer = client.ask(Message::Register).await;
    assert!(is(&answer, Refusal::NotAllowed), "{answer:?}");
    let far = || Far::Gateway(key_bytes(&world.client_key));
    let answer = client.ask(|request| Message::Reserve(Reserve { request, rate: None, far: far() })).await;
    assert!(is(&answer, Refusal::NoGateway), "{answer:?}");

    assert_eq!(world.relay.status().gateways, 1);
    drop(world.gateway);
    world.relay.wait_for("the gateway's end", |status| status.gateways == 0);
    let gone = Far::Gateway(key_bytes(&world.gateway_key));
    let answer = client.ask(|request| Message::Connect(request, gone)).await;
    assert!(is(&answer, Refusal::NoGateway), "{answer:?}");
}

/// How long so many bytes take in a stream to a gateway, of a site with this key in its `[[allow]]`.
async fn time_in_stream(allow: &str, bytes: usize) -> Duration {
    let (client_key, gateway_key) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("", &[(&client_key, allow), (&gateway_key, "gateway = true")]);
    let mut gateway = Site::connect(&gateway_key, &relay).await;
    assert!(matches!(gateway.ask(Message::Register).await, Message::Done(_)));
    let mut world = World { relay, client_key, gateway_key, gateway };
    let mut client = Site::connect(&world.client_key, &world.relay).await;
    let far = Far::Gateway(key_bytes(&world.gateway_key));
    let connect = client.ask(|request| Message::Connect(request, far));
    let (answer, far) = tokio::join!(connect, next_stream(&mut world));
    assert!(matches!(answer, Message::Connected(_)), "{answer:?}");
    let (mut near, mut far) = (client.stream, far.stream);
    let (sent, mut heard) = (vec![7; bytes], vec![0; bytes]);
    let began = Instant::now();
    let write = async {
        near.write_all(&sent).await.unwrap();
        near.flush().await.unwrap();
    };
    let (read, ()) = tokio::join!(far.read_exact(&mut heard), write);
    read.unwrap();
    assert_eq!(heard, sent);
    began.elapsed()
}

#[tokio::test]
async fn a_stream_has_the_rate_of_a_session() {
    const BYTES: usize = 2_000_000;
    let limited = time_in_stream("session_rate = \"8mbit\"", BYTES).await;
    let free = time_in_stream("", BYTES).await;
    println!("{BYTES} bytes in {limited:.1?} at 8 Mb/s, in {free:.1?} without a limit");
    assert!(limited > Duration::from_secs_f64(0.9 * BYTES as f64 / 1e6), "{limited:?}");
    assert!(2 * free < limited, "{free:?}, {limited:?} with a limit");
}
