//! Gateways that nobody reaches but through their relays.

use psmc_net::keys::PrivateKey;
use psmc_net::tls::{Acceptor, AllowedKeys, Dialer, Identity};
use psmc_wire::relay::{Far, Message, Refusal, Reserve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{End, Relay, Site, key_bytes};

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
