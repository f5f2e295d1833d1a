//! What sites have dropped of what goes to them: who may ask for what, over which connection, and what becomes of it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use ipnet::IpNet;
use psmc_net::keys::PrivateKey;
use psmc_net::tls::TlsError;
use psmc_wire::hop::{Hop, HopKey};
use psmc_wire::relay::{Far, Message, Refusal, RequestId};
use psmc_wire::shed::{Answer, Ask, MAX_RULES, ONLY_TELL, Outcome, Packets, Rule, Verdict, What};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::harness::{End, Relay, Site, key_bytes};

/// Ends that nobody is at: rules are judged by what stands in the file.
const TUNNEL: &str = r#"
[[tunnel]]
name = "north"
left = "203.0.113.5"
left_inside = ["10.1.0.0/16"]
left_owner = "site0"
right = "192.0.2.7"
right_inside = ["10.2.0.0/16"]
right_owner = "site1"
"#;

fn rule(what: What, rate: u64) -> Rule {
    Rule { what, rate: Some(rate) }
}

fn to(destination: &str) -> What {
    let destination: IpNet = destination.parse().unwrap();
    What::Packets(Packets { destination, source: None, protocol: None, ports: None })
}

async fn shed(site: &mut Site, serial: u64, rules: Vec<Rule>) -> Answer {
    let said =
        |request: RequestId| Message::Shed(Ask { request: request.0, serial, lifetime_ms: 60_000, rules });
    let Message::Shedding(answer) = site.ask(said).await else { panic!("no answer") };
    answer
}

fn verdicts(answer: &Answer) -> Vec<Verdict> {
    answer.rules.iter().map(|told| told.verdict).collect()
}

#[tokio::test]
async fn a_site_has_dropped_what_goes_to_it_and_nothing_else() {
    let (near_key, far_key) = (PrivateKey::generate(), PrivateKey::generate());
    let relay = Relay::start("workers = 2", &[(&near_key, ""), (&far_key, "gateway = true")]);
    let mut near = Site::connect(&near_key, &relay).await;
    let mut gateway = Site::connect(&far_key, &relay).await;
    assert!(matches!(gateway.ask(Message::Register).await, Message::Done(_)));
    let session = near.reserve(Far::Gateway(key_bytes(&far_key))).await;
    let mut ends = [End::new(relay.address), End::new(relay.address)];
    ends[0].use_hop(relay.address, &session.near);
    ends[1].use_hop(relay.address, &session.far);
    for end in &mut ends {
        end.send(100, 1);
    }
    relay.wait_for("both ends", |status| {
        status.sessions.iter().all(|one| one.to_far.address.is_some() && one.to_near.address.is_some())
    });
    let before = relay.settled().datagrams.sent;

    let answer = shed(&mut gateway, 1, vec![rule(What::Datagrams(None), 0)]).await;
    assert_eq!((answer.outcome, verdicts(&answer)), (Outcome::Taken, vec![Verdict::Taken]));
    (0..10).for_each(|number| drop(ends[0].send(500, number + 2)));
    (0..10).for_each(|number| drop(ends[1].send(500, number + 2)));
    let status = relay.wait_for("what was sent", |status| status.datagrams.received >= 22);
    assert_eq!((status.refused.shed, status.datagrams.sent - before), (10, 10));
    // With hop headers.
    let rules = &status.shedding.sites[0].rules;
    assert_eq!((rules[0].offered_bytes, rules[0].dropped_bytes), (5200, 5200));

    // Another connection of the same site goes on from there; the near end lifts nothing.
    let mut again = Site::connect(&far_key, &relay).await;
    let told = shed(&mut again, ONLY_TELL, vec![]).await;
    assert_eq!((told.outcome, told.serial, told.rules[0].dropped), (Outcome::Told, 1, 5200));
    assert_eq!(shed(&mut near, 9, vec![]).await.outcome, Outcome::Taken);
    assert_eq!(shed(&mut again, 2, vec![]).await.outcome, Outcome::Taken);
    (0..10).for_each(|number| drop(ends[0].send(500, number + 20)));
    let status = relay.wait_for("what was sent", |status| status.datagrams.received >= 32);
    assert_eq!((status.refused.shed, status.datagrams.sent - before), (10, 20));
}

#[tokio::test]
async fn nothing_changes_by_what_is_refused() {
    let (left, right, stranger) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let host = psmc_testbed::netns::Namespace::new().expect("run as root");
    host.add_address("lo", "192.0.2.1/32".parse().unwrap()).unwrap();
    let at = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 5115);
    let relay = Relay::start_on(&host, at, "", &[(&left, ""), (&right, "")], TUNNEL);
    let talk = || async {
        let refused = Site::greet(&stranger, &relay, None).await.err();
        assert!(matches!(refused, Some(TlsError::KeyRefused)), "{refused:?}");
        let mut owner = Site::connect(&right, &relay).await;
        let hop = Hop { label: psmc_wire::Label(7), key: HopKey([7; 16]) };
        let mixed = vec![
            rule(to("10.2.0.9/32"), 7000),
            // The left end's, more than the right end's, and of a session that there is not.
            rule(to("10.1.0.9/32"), 0),
            rule(to("10.2.0.0/15"), 0),
            rule(What::Label(hop, None), 0),
            rule(to("10.2.0.8/32"), 1),
            rule(to("10.2.0.8/32"), 2),
        ];
        let answer = shed(&mut owner, 5, mixed).await;
        let [taken, foreign, contradictory] = [Verdict::Taken, Verdict::Foreign, Verdict::Contradictory];
        assert_eq!(verdicts(&answer), [taken, foreign, foreign, foreign, contradictory, contradictory]);

        let over = |request: RequestId| {
            Message::Shed(Ask { request: request.0, serial: 6, lifetime_ms: 0, rules: vec![] })
        };
        let Message::Shedding(expired) = owner.ask(over).await else { panic!("no answer") };
        assert_eq!(expired.outcome, Outcome::Expired);
        assert_eq!(shed(&mut owner, 5, vec![]).await.outcome, Outcome::Replayed);
        let many = vec![rule(to("10.2.0.9/32"), 0); MAX_RULES];
        assert_eq!(shed(&mut owner, 7, many).await.outcome, Outcome::TooMany);
        // Ten thousand at once are more than a message may have, and what says that it has more than it may is refused.
        let mut frame = vec![0, 0, 0, 18, 20, 0, 0, 0, 99];
        frame.extend([0; 12]);
        frame.push(255);
        owner.stream.write_all(&frame).await.unwrap();
        let Message::Refused(refused) = owner.hear().await else { panic!("it was taken") };
        assert_eq!(refused.reason, Refusal::NotAllowed);

        let told = shed(&mut owner, ONLY_TELL, vec![]).await;
        assert_eq!((told.serial, told.rules.len()), (5, 1));
        assert_eq!(told.rules[0].rule, rule(to("10.2.0.9/32"), 7000));
        // Who owns the left end has nothing.
        let mut other = Site::connect(&left, &relay).await;
        assert_eq!(shed(&mut other, ONLY_TELL, vec![]).await.rules, []);
    };
    host.block_on(talk).unwrap();
    let status = relay.status();
    let counts = status.shedding.counts;
    assert_eq!((counts.taken, counts.replayed, counts.expired, counts.too_many), (1, 1, 1, 1));
    assert_eq!((counts.foreign, counts.contradictory, counts.illegal), (3, 2, 0));
    assert_eq!(status.control_unknown_key, 1);
}

/// A connection that counts round trips: each begins with a byte that is sent after something was heard.
struct Turns<S> {
    io: S,
    count: Arc<AtomicU32>,
    is_talking: bool,
}

impl<S: AsyncRead + Unpin> AsyncRead for Turns<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.is_talking &= buffer.filled().len() == before;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Turns<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !std::mem::replace(&mut self.is_talking, true) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn rules_are_in_force_within_five_round_trips() {
    let key = PrivateKey::generate();
    let relay = Relay::start("", &[(&key, "")]);
    let count = Arc::new(AtomicU32::new(0));
    let tcp = tokio::net::TcpStream::connect(relay.address).await.unwrap();
    let io = Turns { io: tcp, count: count.clone(), is_talking: false };
    let (mut site, _) = Site::greet_over(io, &key, relay.key.public(), None).await.unwrap();
    let rules = vec![rule(What::Datagrams(None), 0)];
    let said =
        |request: RequestId| Message::Shed(Ask { request: request.0, serial: 1, lifetime_ms: 60_000, rules });
    let answer = site.ask(said).await;
    assert!(matches!(&answer, Message::Shedding(answer) if answer.outcome == Outcome::Taken), "{answer:?}");
    // That of TCP is not seen here.
    let trips = 1 + count.load(Ordering::Relaxed);
    println!("{trips} round trips");
    assert!(trips <= 5, "{trips} round trips");
    assert_eq!(relay.status().shedding.sites[0].rules.len(), 1);
}
