//! Whole hosts over a link: their own packets, by their own stacks.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use psmc_sim::link::LinkConfig;

use super::bench::Bench;

fn with_addresses(config: &LinkConfig) -> Bench {
    let bench = Bench::new(config);
    for (host, number) in bench.hosts.iter().zip(1..) {
        host.add_address("wire", format!("10.0.0.{number}/24").parse().unwrap()).unwrap();
    }
    bench
}

#[test]
fn tcp_passes_unharmed_and_packet_by_packet() {
    let mut bench = with_addresses(&LinkConfig::default());
    let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let listener = bench.hosts[1].run(|| TcpListener::bind("10.0.0.2:9")).unwrap();
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received
    });
    let mut stream = bench.hosts[0].run(|| TcpStream::connect("10.0.0.2:9")).unwrap();
    stream.write_all(&data).unwrap();
    drop(stream);
    assert!(reader.join().unwrap() == data);
    let arrivals = bench.receive(1, 1_000_000 / 1460);
    assert!(arrivals.iter().all(|arrival| arrival.frame.len() <= 1514));
}

#[test]
fn a_handshake_takes_the_delay_of_both_directions() {
    let delay = Duration::from_millis(40);
    let bench = with_addresses(&LinkConfig { delay, ..LinkConfig::default() });
    let _listener = bench.hosts[1].run(|| TcpListener::bind("10.0.0.2:9")).unwrap();
    let begin = Instant::now();
    bench.hosts[0].run(|| TcpStream::connect("10.0.0.2:9")).unwrap();
    // ARP first, then the handshake: a round trip each.
    assert!(begin.elapsed() >= delay * 4, "{:?}", begin.elapsed());
}
