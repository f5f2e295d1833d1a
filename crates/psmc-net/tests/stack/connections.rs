//! What two hosts say to each other.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, send};
use socket2::SockRef;

use super::site::{CLIENT, SERVER, World};
use super::{PATIENCE, WORD, connect, connection, expect_end, expect_words, listen, write_words};

const MANY: u64 = (100 << 20) / WORD as u64;

#[test]
fn a_hundred_megabytes_arrive_as_they_are() {
    for address in SERVER {
        let world = World::new();
        let (client, server) = connection(&world, address, 80);
        thread::scope(|scope| {
            scope.spawn(|| {
                write_words(&client, 0, MANY);
                client.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| write_words(&server, 7, MANY / 10));
            scope.spawn(|| expect_words(&client, 7, MANY / 10));
            expect_words(&server, 0, MANY);
            expect_end(&server);
        });
        assert_eq!(world.finish().odd, 0);
    }
}

#[test]
fn each_host_sees_the_other_one() {
    let world = World::new();
    for (client_address, address) in CLIENT.into_iter().zip(SERVER) {
        let (client, server) = connection(&world, address, 80);
        assert_eq!(client.local_addr().unwrap().ip().to_string(), client_address);
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
    }
}

#[test]
fn one_direction_may_end_before_the_other() {
    let world = World::new();
    for (port, client_ends_first) in [(80, true), (81, false)] {
        let (client, server) = connection(&world, SERVER[0], port);
        let [first, second] = if client_ends_first { [&client, &server] } else { [&server, &client] };
        write_words(first, 0, 1000);
        first.shutdown(Shutdown::Write).unwrap();
        expect_words(second, 0, 1000);
        expect_end(second);
        write_words(second, 5, 1000);
        expect_words(first, 5, 1000);
        second.shutdown(Shutdown::Write).unwrap();
        expect_end(first);
    }
}

#[test]
fn a_reset_is_one_at_the_other_end() {
    let world = World::new();
    for (port, address) in [(80, SERVER[0]), (81, SERVER[1])] {
        for client_resets in [true, false] {
            let (client, server) = connection(&world, address, port + u16::from(client_resets) * 100);
            let [who, mut other] = if client_resets { [client, server] } else { [server, client] };
            SockRef::from(&who).set_linger(Some(Duration::ZERO)).unwrap();
            drop(who);
            assert_eq!(other.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    }
}

#[test]
fn five_hundred_connections_do_not_mix() {
    const COUNT: u64 = 500;
    let world = World::new();
    let listener = listen(&world, SERVER[0], 80);
    let served = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..COUNT {
                let (stream, peer) = listener.accept().unwrap();
                let served = &served;
                scope.spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    expect_words(&stream, u64::from(peer.port()) << 32, 2000);
                    expect_end(&stream);
                    write_words(&stream, 1 + (u64::from(peer.port()) << 32), 2000);
                    served.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        let clients: Vec<_> = (0..COUNT).map(|_| connect(&world, (SERVER[0], 80)).unwrap()).collect();
        for client in clients {
            scope.spawn(move || {
                let port = u64::from(client.local_addr().unwrap().port()) << 32;
                write_words(&client, port, 2000);
                client.shutdown(Shutdown::Write).unwrap();
                expect_words(&client, 1 + port, 2000);
                expect_end(&client);
            });
        }
    });
    assert_eq!(served.into_inner(), 500);
    assert_eq!(world.finish().odd, 0);
}

/// Nobody keeps what nobody reads: the client is held back, and nothing is lost when it is read at last.
#[test]
fn who_does_not_read_holds_the_other_back() {
    const COUNT: u64 = (64 << 20) / WORD as u64;
    let world = World::new();
    let (client, server) = connection(&world, SERVER[0], 80);
    SockRef::from(&client).set_send_buffer_size(64 << 10).unwrap();
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for first in (0..COUNT).step_by(1 << 13) {
                write_words(&client, first, 1 << 13);
                written.fetch_add((1 << 13) * WORD, Ordering::Relaxed);
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        let mut last = 0;
        loop {
            thread::sleep(Duration::from_millis(500));
            let now = written.load(Ordering::Relaxed);
            if now == last && now > 0 {
                break;
            }
            last = now;
        }
        // Two stacks of 4 MiB each, and the server's own buffer.
        assert!(last < 48 << 20, "{last} bytes are somewhere");
        expect_words(&server, 0, COUNT);
        expect_end(&server);
    });
}

#[test]
fn what_is_urgent_stays_in_its_place() {
    let world = World::new();
    let (client, mut server) = connection(&world, SERVER[1], 80);
    (&client).write_all(b"be").unwrap();
    send(client.as_raw_fd(), b"!", MsgFlags::MSG_OOB).unwrap();
    (&client).write_all(b"fore").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "be!fore");
}

#[test]
fn code_points_of_the_client_reach_the_server_and_come_back() {
    const EXPEDITED: u8 = 46;
    let world = World::new();
    let mut expected = BTreeSet::new();
    let _listening = SERVER.map(|address| listen(&world, address, 80));
    for (address, other) in SERVER.into_iter().zip([8, 10]) {
        for dscp in [EXPEDITED, other] {
            let stream = world.client.run(|| {
                let address = SocketAddr::new(address.parse().unwrap(), 80);
                let kind = socket2::Type::STREAM;
                let socket = socket2::Socket::new(socket2::Domain::for_address(address), kind, None).unwrap();
                let class = u32::from(dscp) << 2;
                if address.is_ipv4() { socket.set_tos_v4(class) } else { socket.set_tclass_v6(class) }
                    .unwrap();
                socket.connect(&address.into()).unwrap();
                TcpStream::from(socket)
            });
            expected.insert((stream.local_addr().unwrap(), dscp));
        }
    }
    let seen = world.finish();
    assert_eq!(seen.asked, expected);
    assert_eq!(seen.answered, expected);
}

#[test]
fn a_port_of_the_client_is_used_again_and_for_many_servers() {
    let world = World::new();
    let listeners = [(SERVER[0], 80), (SERVER[0], 81)].map(|(address, port)| listen(&world, address, port));
    // The client's own port is one at which servers listen.
    for _ in 0..2 {
        for (listener, port) in listeners.iter().zip([80, 81]) {
            let mut client = world.client.run(|| {
                let kind = socket2::Type::STREAM;
                let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
                socket.set_reuse_address(true).unwrap();
                socket.bind(&SocketAddr::new(CLIENT[0].parse().unwrap(), 80).into()).unwrap();
                socket.connect(&SocketAddr::new(SERVER[0].parse().unwrap(), port).into()).unwrap();
                TcpStream::from(socket)
            });
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut server, peer) = listener.accept().unwrap();
            assert_eq!(peer.port(), 80);
            server.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
            // The server ends first, so that the client may begin anew.
            drop(server);
            expect_end(&client);
        }
    }
}
