//! Real connections through two devices.

#![expect(clippy::cast_possible_truncation, reason = "the bytes of test data may be anything")]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tokio::time::timeout;

use super::{Host, MTU, PATIENCE, SendReport, Tun, pool, runtime};
use crate::udp::{Ecn, RecvBatch, Transmit, UdpBind, UdpPort};

/// What passed between two devices.
#[derive(Debug, Default)]
struct Traffic {
    largest_batch: usize,
    report: SendReport,
}

/// Carries packets between the devices for as long as they are polled.
async fn carry(a: &mut Tun, b: &mut Tun, traffic: &mut Traffic) {
    let (mut pool, mut batch) = (pool(), Vec::new());
    loop {
        let from_a = poll_fn(|cx| {
            if a.poll_recv(cx, &mut pool, &mut batch).is_ready() {
                return std::task::Poll::Ready(true);
            }
            b.poll_recv(cx, &mut pool, &mut batch).map(|_| false)
        });
        let from_a = from_a.await;
        assert!(batch.iter().all(|packet| packet.len() <= MTU.into()));
        traffic.largest_batch = traffic.largest_batch.max(batch.len());
        let report = if from_a { &mut *b } else { &mut *a }.send(&mut batch, &mut pool, false);
        traffic.report.written += report.written;
        traffic.report.dropped += report.dropped;
        assert!(batch.is_empty());
    }
}

/// Makes `client` and `server` talk, each in its namespace, until the client is done.
fn talk(server: impl FnOnce() + Send + 'static, client: impl FnOnce() + Send + 'static) -> Traffic {
    let runtime = runtime();
    let (mut a, mut b) = (Host::new(1, &runtime), Host::new(2, &runtime));
    let mut traffic = Traffic::default();
    let (done, waiting) = tokio::sync::oneshot::channel();
    thread::scope(|scope| {
        scope.spawn(|| a.namespace.run(server));
        scope.spawn(|| {
            b.namespace.run(client);
            done.send(()).unwrap();
        });
        runtime.block_on(async {
            tokio::select! {
                () = carry(&mut a.tun, &mut b.tun, &mut traffic) => {}
                finished = timeout(PATIENCE, waiting) => finished.expect("nothing got through").unwrap(),
            }
        });
    });
    traffic
}

/// Sends eight megabytes over TCP and has them confirmed.
fn tcp_transfer(address: &'static str) -> Traffic {
    const LEN: usize = 8 << 20;
    let byte_at = |i: usize| (i % 251) as u8;
    let server_listens = Duration::from_millis(100);
    let server = move || {
        let (mut stream, _) = TcpListener::bind(address).unwrap().accept().unwrap();
        let mut bytes = vec![0; LEN];
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == byte_at(i)));
        stream.write_all(b"ok").unwrap();
    };
    let client = move || {
        thread::sleep(server_listens);
        let mut stream = TcpStream::connect(address).unwrap();
        let bytes: Vec<u8> = (0..LEN).map(byte_at).collect();
        stream.write_all(&bytes).unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
    };
    talk(server, client)
}

#[test]
fn tcp_is_cut_and_joined_over_ipv4() {
    let traffic = tcp_transfer("10.9.0.1:7000");
    assert!(traffic.largest_batch > 8, "{traffic:?}");
    assert_eq!(traffic.report.dropped, 0, "{traffic:?}");
}

#[test]
fn tcp_is_cut_and_joined_over_ipv6() {
    let traffic = tcp_transfer("[fd09::1]:7000");
    assert!(traffic.largest_batch > 8, "{traffic:?}");
    assert_eq!(traffic.report.dropped, 0, "{traffic:?}");
}

#[test]
fn udp_segments_are_cut_and_joined() {
    let runtime = runtime();
    let (mut a, mut b) = (Host::new(1, &runtime), Host::new(2, &runtime));
    for address in ["10.9.0.1", "fd09::1"] {
        let bind = UdpBind { address: "[::]:0".parse().unwrap(), interface: None };
        let open = |host: &Host| {
            host.namespace.run(|| {
                let _guard = runtime.enter();
                UdpPort::bind(&bind).unwrap()
            })
        };
        let (server, client) = (open(&a), open(&b));
        let remote = std::net::SocketAddr::new(address.parse().unwrap(), server.local_addr().port());
        let contents: Vec<u8> = (0..30 * 1200 + 7).map(|i: usize| (i / 1200) as u8).collect();
        let transmit = Transmit {
            remote,
            local_ip: None,
            ecn: Ecn::Ect0,
            segment_size: Some(1200),
            apart: false,
            contents: &contents,
        };
        let mut traffic = Traffic::default();
        let exchange = async {
            client.try_send(&transmit).unwrap();
            let (mut batch, mut received) = (RecvBatch::new(), Vec::new());
            while received.len() < 31 {
                poll_fn(|cx| server.poll_recv(cx, &mut batch)).await.unwrap();
                received.extend(batch.datagrams().map(|(meta, bytes)| (meta.ecn, bytes.to_vec())));
            }
            received
        };
        let received = runtime.block_on(async {
            tokio::select! {
                () = carry(&mut a.tun, &mut b.tun, &mut traffic) => unreachable!(),
                received = timeout(PATIENCE, exchange) => received.expect("datagrams were lost"),
            }
        });
        let expected: Vec<_> = contents.chunks(1200).map(|bytes| (Ecn::Ect0, bytes.to_vec())).collect();
        assert_eq!(received, expected);
        assert_eq!(traffic.largest_batch, 31, "{traffic:?}");
    }
}
