//! Two relays in a row, the second of which is reached through the first.

use psmc_net::keys::PrivateKey;
use psmc_wire::relay::{Far, Message, Refusal};

use crate::harness::{End, Relay, Site};

#[tokio::test]
async fn a_path_through_two_relays() {
    let key = PrivateKey::generate();
    let (one, two) = (Relay::start("", &[(&key, "")]), Relay::start("", &[(&key, "")]));
    let (mut near, mut far) = (End::new(one.address), End::new(two.address));

    let mut through = Site::connect(&key, &one).await;
    let answer = through.ask(|request| Message::Connect(request, Far::Address(two.address))).await;
    assert!(matches!(answer, Message::Connected(_)), "{answer:?}");
    let greeted = Site::greet_over(through.stream, &key, two.key.public(), None).await;
    let (mut at_two, answer) = greeted.unwrap();
    assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
    let last = at_two.reserve(Far::Address(far.address())).await;

    let mut at_one = Site::connect(&key, &one).await;
    let first = at_one.reserve(Far::Relay(two.address, last.near.clone())).await;
    let chain = at_two.ask(|request| Message::Chain(request, last.session, first.far.clone())).await;
    assert!(matches!(chain, Message::Done(_)), "{chain:?}");

    near.use_hop(one.address, &first.near);
    far.use_hop(two.address, &last.far);
    for number in 1..50 {
        let sent = near.send(1200, number);
        assert_eq!(far.receive(), (sent, two.address));
        let sent = far.send(1200, number);
        assert_eq!(near.receive(), (sent, one.address));
    }
    let (one, two) = (one.status(), two.status());
    assert_eq!((one.datagrams.sent, two.datagrams.sent), (98, 98));
    assert_eq!((one.refused, two.refused), Default::default());
}

#[tokio::test]
async fn a_stream_leads_only_where_the_relay_may() {
    let key = PrivateKey::generate();
    let relay = Relay::start("", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let elsewhere = Far::Address("192.0.2.1:5115".parse().unwrap());
    let answer = site.ask(|request| Message::Connect(request, elsewhere)).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::NotAllowed));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut site = Site::connect(&key, &relay).await;
    let answer = site.ask(|request| Message::Connect(request, Far::Address(nobody))).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::Unreachable));
}
