use std::net::SocketAddr;
use std::time::Duration;

use psmc_net::framing::{MessageReader, write_message};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Identity};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use super::*;
use crate::ALPN;
use crate::message::{Message, Role, VERSION};

fn noted(id: &str) -> Message {
    Message::Noted { id: id.to_owned() }
}

/// Both ends of a connection on which they have greeted.
async fn greeted() -> (Channel<DuplexStream>, Channel<DuplexStream>) {
    let (near, far) = duplex(1024);
    let accepting = async { Greeting::receive(far).await.unwrap().welcome().await.unwrap() };
    let services = vec!["www.example.com".to_owned()];
    let (near, far) = tokio::join!(Channel::greet(near, Role::Gateway, services), accepting);
    (near.unwrap(), far)
}

#[tokio::test]
async fn who_is_refused_learns_why() {
    let (near, far) = duplex(1024);
    let accepting = async {
        let greeting = Greeting::receive(far).await.unwrap();
        assert_eq!((greeting.role, &greeting.services[..]), (Role::Client, &["a".to_owned()][..]));
        greeting.refuse("not today".to_owned()).await;
    };
    let (near, ()) = tokio::join!(Channel::greet(near, Role::Client, vec!["a".to_owned()]), accepting);
    assert!(matches!(near, Err(ConnectionError::Refused(reason)) if reason == "not today"));
}

#[tokio::test]
async fn another_first_message_is_impolite() {
    let (mut near, far) = duplex(1024);
    write_message(&mut near, &Message::Ping).await.unwrap();
    assert!(matches!(Greeting::receive(far).await, Err(ConnectionError::Impolite)));
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_not_waited_for() {
    let (_near, far) = duplex(1024);
    assert!(matches!(Greeting::receive(far).await, Err(ConnectionError::Silent)));
}

#[tokio::test(start_paused = true)]
async fn pings_keep_a_silent_connection() {
    let (near, far) = greeted().await;
    let (near_to, mut near_out) = mpsc::channel(QUEUE);
    let (_far_to, mut far_out) = mpsc::channel(QUEUE);
    let (near_in, _near_received) = mpsc::channel(QUEUE);
    let (far_in, mut far_received) = mpsc::channel(QUEUE);
    let near = tokio::spawn(async move { near.run(&mut near_out, &near_in).await });
    let far = tokio::spawn(async move { far.run(&mut far_out, &far_in).await });
    tokio::time::sleep(Duration::from_secs(120)).await;
    near_to.send(noted("late")).await.unwrap();
    assert_eq!(far_received.recv().await, Some(noted("late")), "and no pings before it");
    drop(near_to);
    assert!(matches!(near.await.unwrap(), ConnectionError::Closed));
    assert!(matches!(far.await.unwrap(), ConnectionError::Framing(_)));
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_for_long_is_gone() {
    let (near, _far) = greeted().await;
    let (_to, mut out) = mpsc::channel(QUEUE);
    let (incoming, _received) = mpsc::channel(QUEUE);
    assert!(matches!(near.run(&mut out, &incoming).await, ConnectionError::Silent));
}

#[tokio::test(start_paused = true)]
async fn a_flood_waits_at_its_sender() {
    let (mut near, far) = duplex(1024);
    let flooding = async {
        write_message(&mut near, &Message::Hello { version: VERSION, role: Role::Client, services: vec![] })
            .await
            .unwrap();
        let mut sent = 0;
        while write_message(&mut near, &noted("x")).await.is_ok() {
            sent += 1;
        }
        sent
    };
    let accepting = async {
        let channel = Greeting::receive(far).await.unwrap().welcome().await.unwrap();
        let (_to, mut out) = mpsc::channel(QUEUE);
        let (incoming, mut received) = mpsc::channel(QUEUE);
        tokio::select! {
            error = channel.run(&mut out, &incoming) => panic!("{error}"),
            // Nobody takes the messages: those in the queue, and what fits into the stream, are all that there are.
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        received.close();
        let mut waiting = 0;
        while received.recv().await.is_some() {
            waiting += 1;
        }
        waiting
    };
    let (sent, waiting) = tokio::join!(flooding, accepting);
    assert_eq!(waiting, QUEUE);
    assert!(sent < QUEUE + 1024 / 10, "{sent} messages were taken");
}

/// A coordinator that takes connections as they come.
struct Accepting {
    listener: TcpListener,
    acceptor: Acceptor,
    key: PublicKey,
}

impl Accepting {
    fn bind(allowed: &[PublicKey]) -> Self {
        let identity = Identity::new(&PrivateKey::generate());
        let allowed: AllowedKeys = allowed.iter().copied().collect();
        let listener = listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        Self { listener, acceptor: Acceptor::for_protocol(&identity, allowed, ALPN), key: identity.public() }
    }

    fn coordinator(&self) -> Coordinator {
        Coordinator { address: self.address(), public_key: self.key }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    async fn next(&self) -> Greeting<TlsStream<TcpStream>> {
        loop {
            let (stream, _) = self.listener.accept().await.unwrap();
            if let Ok(secured) = self.acceptor.accept(stream).await {
                return Greeting::receive(secured.stream).await.unwrap();
            }
        }
    }
}

fn link(key: &PrivateKey, coordinators: Vec<Coordinator>) -> Link {
    let identity = Identity::new(key);
    let services = vec!["www.example.com".to_owned()];
    Link::open(Options {
        identity,
        role: Role::Gateway,
        services,
        coordinators,
        interface: None,
        local: None,
    })
}

/// The first event that is no failed attempt.
async fn next(link: &mut Link) -> Event {
    loop {
        match timeout(Duration::from_secs(30), link.next()).await.expect("something happens") {
            Event::Down { .. } => {}
            event @ (Event::Up { .. } | Event::Message(_)) => return event,
        }
    }
}

#[tokio::test]
async fn a_link_finds_the_coordinator_that_leads_and_comes_back() {
    let key = PrivateKey::generate();
    let (standby, leader) = (Accepting::bind(&[key.public()]), Accepting::bind(&[key.public()]));
    let mut link = link(&key, vec![standby.coordinator(), leader.coordinator()]);
    let refusing = async {
        loop {
            standby.next().await.refuse("another leads".to_owned()).await;
        }
    };
    let leading = async {
        for round in ["1", "2"] {
            let channel = leader.next().await.welcome().await.unwrap();
            let (to, mut out) = mpsc::channel(QUEUE);
            let (incoming, mut received) = mpsc::channel(QUEUE);
            to.send(noted(round)).await.unwrap();
            let hearing = async {
                assert_eq!(received.recv().await, Some(noted("heard")));
                drop(to);
                std::future::pending().await
            };
            let error = tokio::select! {
                error = channel.run(&mut out, &incoming) => error,
                error = hearing => error,
            };
            assert!(matches!(error, ConnectionError::Closed), "{error}");
        }
    };
    let dialling = async {
        for round in ["1", "2"] {
            assert_eq!(next(&mut link).await, Event::Up { coordinator: leader.address() });
            assert_eq!(next(&mut link).await, Event::Message(noted(round)));
            link.send(noted("heard")).unwrap();
        }
    };
    tokio::select! {
        () = refusing => {}
        ((), ()) = async { tokio::join!(leading, dialling) } => {}
    }
}

/// One takes the connection and says nothing, as an address does that is attacked.
#[tokio::test]
async fn a_coordinator_that_never_answers_is_not_waited_for() {
    let key = PrivateKey::generate();
    let [silent, leader] = [(); 2].map(|()| Accepting::bind(&[key.public()]));
    let mut link = link(&key, vec![silent.coordinator(), leader.coordinator()]);
    let leading = async {
        let _channel = leader.next().await.welcome().await.unwrap();
        std::future::pending::<()>().await;
    };
    let first = tokio::select! {
        () = leading => unreachable!("it never ends"),
        first = timeout(Duration::from_secs(60), link.next()) => first.unwrap(),
    };
    // The silent one has not even failed by then.
    assert_eq!(first, Event::Up { coordinator: leader.address() });
}

#[tokio::test]
async fn a_wrong_key_on_either_side_is_told() {
    let key = PrivateKey::generate();
    let (strict, other) = (Accepting::bind(&[]), Accepting::bind(&[key.public()]));
    let wrong = Coordinator { address: other.address(), public_key: key.public() };
    let mut link = link(&key, vec![strict.coordinator(), wrong]);
    let dialling = async {
        let mut reasons = Vec::new();
        while reasons.len() < 2 {
            match link.next().await {
                Event::Down { reason, .. } => reasons.push(reason),
                event @ (Event::Up { .. } | Event::Message(_)) => panic!("{event:?}"),
            }
        }
        reasons
    };
    tokio::select! {
        _ = strict.next() => panic!("a stranger came in"),
        _ = other.next() => panic!("a wrong coordinator was believed"),
        reasons = dialling => {
            assert!(reasons[0].contains("rejects this site's key"), "{reasons:?}");
            assert!(reasons[1].contains("the peer has the key"), "{reasons:?}");
        }
    }
}

#[tokio::test]
async fn what_is_too_long_is_not_sent() {
    let link = link(&PrivateKey::generate(), Vec::new());
    let error = link.send(noted(&"x".repeat(20_000))).unwrap_err();
    assert!(matches!(error, SendError::TooLong(len) if len > 20_000), "{error}");
    let full = (0..=QUEUE).map(|_| link.send(noted("x"))).find_map(Result::err);
    assert_eq!(full, Some(SendError::Full));
}

#[tokio::test]
async fn nonsense_ends_a_connection() {
    let (mut near, far) = duplex(1024);
    near.write_all(&[0, 0, 0, 2, b'{', b'}']).await.unwrap();
    let error = Greeting::receive(far).await.unwrap_err();
    assert!(matches!(error, ConnectionError::Framing(_)), "{error}");
    let (mut stream, mut reader) = (&[][..], MessageReader::default());
    assert!(reader.next::<Message>(&mut stream).await.is_err());
}
