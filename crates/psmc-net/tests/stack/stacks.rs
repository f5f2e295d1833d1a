//! The stack by itself.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};
use psmc_net::poller::{Poller, Wakeup};
use psmc_net::stack::{Accepted, ConnectError, Stack, StackConfig, StackError, finish, reset};
use psmc_testbed::poll::wait_for;
use psmc_wire::buf::BufPool;
use socket2::SockRef;

use super::PATIENCE;
use super::site::{MTU, carry, config};

fn stack() -> Stack {
    Stack::new(&config()).expect("this test needs root, for it makes network namespaces")
}

/// A client's stack and a server's, whose devices are joined.
struct Pair {
    client: Stack,
    server: Stack,
    pool: BufPool,
}

impl Pair {
    fn new() -> Self {
        Self { client: stack(), server: stack(), pool: BufPool::new(MTU.into(), 256) }
    }

    fn connect(&self) -> TcpStream {
        self.client.connect("[fd01::1]:40000".parse().unwrap(), "[fd02::1]:80".parse().unwrap(), 0).unwrap()
    }

    /// Moves packets until the connection is made, or is not.
    fn outcome(&mut self, stream: &TcpStream) -> Result<(), ConnectError> {
        let Self { client, server, pool } = self;
        wait_for("an answer", PATIENCE, || {
            carry(client.tun(), server.tun(), pool, |_| {});
            carry(server.tun(), client.tun(), pool, |_| {});
            finish(stream).map(|is_made| is_made.then_some(())).transpose()
        })
    }
}

#[test]
fn a_port_is_open_for_as_long_as_somebody_wants_it() {
    let mut pair = Pair::new();
    for _ in 0..2 {
        pair.server.listen(80).unwrap();
    }
    for is_wanted in [true, false] {
        pair.server.unlisten(80);
        let stream = pair.connect();
        let outcome = pair.outcome(&stream);
        if is_wanted {
            outcome.unwrap();
        } else {
            assert!(matches!(outcome, Err(ConnectError::Refused)), "{outcome:?}");
        }
        reset(stream);
        carry(pair.client.tun(), pair.server.tun(), &mut pair.pool, |_| {});
    }
    // Nobody wanted it, and so nobody misses it.
    pair.server.unlisten(80);
}

#[test]
fn who_waits_for_connections_is_told() {
    let mut pair = Pair::new();
    let mut poller = Poller::new().unwrap();
    poller.add(pair.server.as_fd(), 7).unwrap();
    pair.server.listen(80).unwrap();
    let now = Some(Instant::now());
    assert_eq!(poller.wait(now).unwrap().count(), 0);
    let stream = pair.connect();
    pair.outcome(&stream).unwrap();
    carry(pair.client.tun(), pair.server.tun(), &mut pair.pool, |_| {});
    for _ in 0..2 {
        assert_eq!(poller.wait(None).unwrap().collect::<Vec<_>>(), [Wakeup::Ready(7)]);
    }
    let mut accepted = Vec::new();
    pair.server.accept(&mut accepted).unwrap();
    assert_eq!(poller.wait(now).unwrap().count(), 0);
    let [Accepted { client, server, stream: far }] = &accepted[..] else { panic!("{accepted:?}") };
    assert_eq!(
        (client.to_string(), server.to_string()),
        ("[fd01::1]:40000".to_owned(), "[fd02::1]:80".to_owned())
    );
    for stream in [&stream, far] {
        let socket = SockRef::from(stream);
        assert!(
            socket.nonblocking().unwrap() && socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap()
        );
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_hours(2));
    }
}

/// A stack may be near to clients and to servers at once: a client's own port is one at which others listen.
#[test]
fn a_client_may_have_a_port_that_is_open() {
    let mut stack = stack();
    stack.listen(80).unwrap();
    for server in ["10.2.0.1:80", "10.2.0.2:80"] {
        stack.connect("10.1.0.1:80".parse().unwrap(), server.parse().unwrap(), 0).unwrap();
    }
    let first = stack.connect("10.1.0.1:80".parse().unwrap(), "10.2.0.1:80".parse().unwrap(), 0).unwrap();
    let twice = stack.connect("10.1.0.1:80".parse().unwrap(), "10.2.0.1:80".parse().unwrap(), 0);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
    drop(first);
    stack.listen(81).unwrap();
}

#[test]
fn the_namespace_of_the_caller_stays_as_it_is() {
    let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let links = || Command::new("ip").args(["-o", "link"]).output().expect("apt install iproute2").stdout;
    let before = (own(), links());
    let mut stack = stack();
    stack.listen(80).unwrap();
    let _stream =
        stack.connect("10.1.0.1:40000".parse().unwrap(), "10.2.0.1:80".parse().unwrap(), 0).unwrap();
    assert_eq!((own(), links()), before);
}

#[test]
fn connections_have_the_congestion_control_asked_for() {
    for name in ["reno", "bbr"] {
        let stack = Stack::new(&StackConfig { congestion: Some(name.to_owned()), ..config() }).unwrap();
        let stream =
            stack.connect("10.1.0.1:40000".parse().unwrap(), "10.2.0.1:80".parse().unwrap(), 0).unwrap();
        assert_eq!(getsockopt(&stream, sockopt::TcpCongestion).unwrap(), name);
    }
}

#[test]
fn an_unknown_congestion_control_is_told() {
    let config = StackConfig { congestion: Some("slowly".to_owned()), ..config() };
    let error = Stack::new(&config).unwrap_err();
    assert!(matches!(error, StackError::Congestion { ref name, .. } if name == "slowly"), "{error}");
}
