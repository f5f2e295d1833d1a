//! Packet sockets between two namespaces.

use std::io::IoSlice;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::poll::{PollFd, PollFlags, poll};

use super::*;
use psmc_testbed::netns::{Namespace, link_pair};

const PATIENCE_MS: u16 = 5000;
const MAX_FRAME: usize = ETHERNET_HEADER + VLAN_TAG + 1500;
/// For local experiments (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Two namespaces, the interface `left` in the first, `right` in the second, without any noise of their own.
fn quiet_pair() -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new().expect("this test needs root"), Namespace::new().unwrap());
    a.disable_ipv6().unwrap();
    b.disable_ipv6().unwrap();
    link_pair(&a, "left", &b, "right").unwrap();
    for (namespace, name) in [(&a, "left"), (&b, "right")] {
        namespace.disable_offloads(name).unwrap();
    }
    (a, b)
}

fn open(namespace: &Namespace, name: &str) -> PacketPort {
    namespace.run(|| PacketPort::open(name, MAX_FRAME)).unwrap()
}

fn frame(payload: &[u8]) -> Vec<u8> {
    [&[0xff; 6], &[2, 0, 0, 0, 0, 1], &ETHERTYPE[..], payload].concat()
}

fn send(port: &PacketPort, frames: &[Vec<u8>]) -> usize {
    port.send(&frames.iter().map(|frame| IoSlice::new(frame)).collect::<Vec<_>>())
}

/// Receives until there have been `count` frames.
fn receive(port: &mut PacketPort, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buffer = [0; MAX_FRAME];
    while frames.len() < count {
        wait(port);
        while let Some(frame) = port.recv() {
            let length = frame.copy_to(&mut buffer).expect("a frame is too long");
            frames.push(buffer[..length].to_vec());
        }
    }
    frames
}

fn wait(port: &PacketPort) {
    let ready = poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], PATIENCE_MS).unwrap();
    assert_eq!(ready, 1, "no frame came");
}

#[test]
fn frames_arrive_in_order_and_whole() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    let sent: Vec<_> = (0..200).map(|i: u8| frame(&vec![i; 46 + usize::from(i) * 7])).collect();
    assert_eq!(send(&sender, &sent), 200);
    assert_eq!(receive(&mut receiver, 200), sent);
    assert_eq!(receiver.lost().unwrap(), 0);
}

#[test]
fn a_socket_hears_only_what_its_interface_receives() {
    let (a, b) = quiet_pair();
    let (mut sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    send(&sender, &[frame(&[1; 46])]);
    receive(&mut receiver, 1);
    assert!(sender.recv().is_none());
    assert!(receiver.recv().is_none());
}

#[test]
fn a_frame_carries_the_time_it_came() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    let before = SystemTime::now();
    send(&sender, &[frame(&[1; 46])]);
    let after = SystemTime::now();
    wait(&receiver);
    thread::sleep(Duration::from_millis(20));
    let received_at = receiver.recv().unwrap().received_at();
    assert!(before <= received_at && received_at <= after);
}

#[test]
fn a_full_ring_counts_what_it_loses_and_recovers() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    let batch = vec![frame(&[7; 1500]); SEND_BATCH];
    let sent: usize = (0..400).map(|_| send(&sender, &batch)).sum();
    let lost = receiver.lost().unwrap() as usize;
    assert!(lost > 0);
    receive(&mut receiver, sent - lost);
    assert_eq!(receiver.lost().unwrap(), 0);
    send(&sender, &[frame(&[8; 100])]);
    assert_eq!(receive(&mut receiver, 1), [frame(&[8; 100])]);
}

#[test]
fn what_is_refused_is_not_counted_as_sent() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    let frames = [frame(&[1; 46]), frame(&[2; 3000]), frame(&[3; 46])];
    assert_eq!(send(&sender, &frames), 2);
    assert_eq!(receive(&mut receiver, 2), [frame(&[1; 46]), frame(&[3; 46])]);
    a.set_link("left", false).unwrap();
    assert_eq!(send(&sender, &frames), 0);
}

#[test]
fn a_port_survives_its_interface_going_down_and_up() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    b.set_link("right", false).unwrap();
    wait(&receiver);
    assert!(receiver.take_error().unwrap().is_some());
    assert!(receiver.take_error().unwrap().is_none());
    b.set_link("right", true).unwrap();
    send(&sender, &[frame(&[5; 46])]);
    assert_eq!(receive(&mut receiver, 1), [frame(&[5; 46])]);
}

#[test]
fn an_interface_that_was_down_takes_the_first_frame() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    a.set_link("left", false).unwrap();
    assert_eq!(send(&sender, &[frame(&[4; 46]), frame(&[5; 46])]), 0);
    a.set_link("left", false).unwrap();
    a.set_link("left", true).unwrap();
    assert_eq!(send(&sender, &[frame(&[6; 46]), frame(&[7; 46])]), 2);
    assert_eq!(receive(&mut receiver, 2), [frame(&[6; 46]), frame(&[7; 46])]);
}

#[test]
fn a_vlan_tag_stays_where_it_was() {
    let (a, b) = quiet_pair();
    let (sender, mut receiver) = (open(&a, "left"), open(&b, "right"));
    let untagged = frame(&[9; 1500]);
    let tagged = [&untagged[..12], &[0x81, 0, 0, 42], &untagged[12..]].concat();
    assert_eq!(send(&sender, std::slice::from_ref(&tagged)), 1);
    assert_eq!(receive(&mut receiver, 1), [tagged]);
}

#[test]
fn a_frame_that_does_not_fit_is_not_copied() {
    let (a, b) = quiet_pair();
    let sender = open(&a, "left");
    let mut receiver = b.run(|| PacketPort::open("right", 100)).unwrap();
    send(&sender, &[frame(&[1; 1000])]);
    wait(&receiver);
    assert_eq!(receiver.recv().unwrap().copy_to(&mut [0; 2000]), None);
    send(&sender, &[frame(&[1; 50])]);
    wait(&receiver);
    assert_eq!(receiver.recv().unwrap().copy_to(&mut [0; 10]), None);
}

/// Sends a megabyte by TCP and many datagrams at once by UDP, and looks at the frames.
#[test]
fn without_offloads_packets_come_one_by_one() {
    let (a, b) = quiet_pair();
    for (namespace, name, host) in [(&a, "left", 1), (&b, "right", 2)] {
        namespace.add_address(name, format!("10.0.0.{host}/24").parse().unwrap()).unwrap();
    }
    let mut tap = open(&b, "right");
    let listener = b.run(|| TcpListener::bind("10.0.0.2:9")).unwrap();
    let reader =
        thread::spawn(move || std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()));
    let mut stream = a.run(|| TcpStream::connect("10.0.0.2:9")).unwrap();
    std::io::Write::write_all(&mut stream, &[7; 1 << 20]).unwrap();
    drop(stream);
    assert_eq!(reader.join().unwrap().unwrap(), 1 << 20);
    let socket = a.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    setsockopt(&socket, sockopt::UdpGsoSegment, &1000).unwrap();
    socket.send_to(&[1; 20_000], "10.0.0.2:9").unwrap();
    let mut lengths = Vec::new();
    while let Some(frame) = tap.recv() {
        lengths.push(frame.len());
    }
    assert!(lengths.len() > 20 + (1 << 20) / 1460, "{}", lengths.len());
    assert_eq!(lengths.iter().max(), Some(&1514));
}

#[test]
fn errors_name_the_culprit() {
    let error = PacketPort::open("nowhere", MAX_FRAME).unwrap_err();
    assert!(error.to_string().contains("no interface nowhere"), "{error}");
    let error = Namespace::new().unwrap().disable_offloads("nowhere").unwrap_err();
    assert!(error.to_string().contains("offloads of nowhere"), "{error}");
}

/// A frame of UDP to a port, whose first byte of payload is `number`.
fn datagram(port: u16, number: u8) -> Vec<u8> {
    let mut frame =
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 0], &[0x45, 0, 0, 100], &[0; 5], &[17], &[0; 12]].concat();
    frame.truncate(34);
    frame.resize(34, 0);
    frame.extend([0, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([0; 4]);
    frame.push(number);
    frame.resize(114, 0);
    frame
}

#[test]
fn a_meter_sees_both_ways_with_their_times() {
    let (a, b) = quiet_pair();
    let mut left = a.run(|| Meter::open("left", 4000)).unwrap();
    let mut right = b.run(|| Meter::open("right", 4000)).unwrap();
    let frames = [datagram(4000, 1), datagram(4001, 2), datagram(4000, 3)];
    assert_eq!(left.send(&frames.each_ref().map(|frame| IoSlice::new(frame))), 3);
    for number in [1, 3] {
        let sent = left.recv().expect("it was sent");
        let received = right.recv().expect("virtual Ethernet delivers at once");
        assert!(sent.is_outgoing() && !received.is_outgoing());
        assert_eq!((sent.bytes()[42], received.bytes()[42]), (number, number));
        assert_eq!(sent.bytes().len(), 64, "no more is kept");
        assert!(sent.received_at() <= received.received_at());
    }
    assert!(left.recv().is_none() && right.recv().is_none(), "other ports are others' business");
    assert_eq!(left.lost().unwrap(), 0);
}

#[test]
fn a_card_is_as_the_kernel_has_it() {
    let (a, _b) = quiet_pair();
    a.add_address("left", "10.9.0.1/24".parse().unwrap()).unwrap();
    let left = a.run(|| Card::named("left")).unwrap();
    assert_eq!(left.address, Some((Ipv4Addr::new(10, 9, 0, 1), 24)));
    assert_eq!((left.mtu, left.rate), (1500, Some(10_000_000_000)));
    // The kernel looks for who is at the other end once a second.
    while !a.run(|| Card::named("left")).unwrap().is_running {
        thread::sleep(Duration::from_millis(10));
    }
    a.set_link("left", false).unwrap();
    assert!(!a.run(|| Card::named("left")).unwrap().is_running);
    assert!(matches!(a.run(|| Card::named("none")), Err(CardError::Missing(_))));
    assert!(matches!(a.run(|| Card::named("lo")), Err(CardError::NoEthernet(_))));
}
