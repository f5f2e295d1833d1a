//! Two hosts, a link between them, and numbered frames on it.

use std::io::IoSlice;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use psmc_lab::emulator::{Emulator, Health, Plan};
use psmc_lab::scenario::LinkId;
use psmc_net::packet::{ETHERNET_HEADER, PacketPort};
use psmc_sim::link::{LinkConfig, LinkCounters};
use psmc_testbed::netns::Namespace;

use super::NEEDS_ROOT;

/// For local experiments (IEEE 802): no host says anything to it.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// How long a busy machine may take for what is due at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// The only link of a [`Bench`].
pub(crate) const LINK: LinkId = LinkId(0);

/// Two hosts with an interface `wire` each, quiet, and a link between them.
pub(crate) struct Bench {
    pub(crate) hosts: [Namespace; 2],
    pub(crate) ports: [PacketPort; 2],
    pub(crate) emulator: Emulator,
}

/// A frame at the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) frame: Vec<u8>,
    pub(crate) at: SystemTime,
}

impl Bench {
    /// A link that is the same in both directions.
    pub(crate) fn new(config: &LinkConfig) -> Self {
        Self::with_captures(config, None)
    }

    pub(crate) fn with_captures(config: &LinkConfig, captures: Option<[PathBuf; 2]>) -> Self {
        let hosts = [host(), host()];
        let max_frame = ETHERNET_HEADER + config.mtu.unwrap_or(0).max(1500);
        let mut builder = Emulator::builder().unwrap();
        let id = builder
            .link(Plan {
                ends: [(&hosts[0], "wire"), (&hosts[1], "wire")],
                directions: [config.clone(), config.clone()],
                seeds: [1, 2],
                captures,
            })
            .unwrap();
        assert_eq!(id, LINK);
        let emulator = builder.start().unwrap();
        let ports = hosts.each_ref().map(|host| host.run(|| PacketPort::open("wire", max_frame)).unwrap());
        Self { hosts, ports, emulator }
    }

    /// Sends from a host and counts what its interface takes.
    pub(crate) fn send(&self, from: usize, frames: &[Vec<u8>]) {
        let slices: Vec<_> = frames.iter().map(|frame| IoSlice::new(frame)).collect();
        assert_eq!(self.ports[from].send(&slices), frames.len());
    }

    /// What arrives at a host until there were `count` frames.
    pub(crate) fn receive(&mut self, at: usize, count: usize) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let end = Instant::now() + PATIENCE;
        while arrivals.len() < count {
            self.drain(at, &mut arrivals);
            assert!(
                Instant::now() < end,
                "{} of {count} frames arrived: {:?}",
                arrivals.len(),
                self.health()
            );
        }
        arrivals
    }

    /// What arrives at a host until everything that entered at the other has come out, or was dropped.
    pub(crate) fn receive_all(&mut self, at: usize, entered: u64) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let end = Instant::now() + PATIENCE;
        while settled(&self.counters(1 - at)) < entered {
            self.drain(at, &mut arrivals);
            assert!(Instant::now() < end, "{:?}, {:?}", self.counters(1 - at), self.health());
        }
        // The counters run ahead of the far interface by what is being sent.
        thread::sleep(Duration::from_millis(20));
        self.drain(at, &mut arrivals);
        arrivals
    }

    pub(crate) fn counters(&self, direction: usize) -> LinkCounters {
        self.emulator.counters(LINK)[direction].clone()
    }

    pub(crate) fn health(&self) -> Health {
        self.emulator.health(LINK)
    }

    fn drain(&mut self, at: usize, arrivals: &mut Vec<Arrival>) {
        let mut buffer = [0; 10_000];
        while let Some(frame) = self.ports[at].recv() {
            let length = frame.copy_to(&mut buffer).expect("a frame longer than any that is sent");
            arrivals.push(Arrival { frame: buffer[..length].to_vec(), at: frame.received_at() });
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Frames 0, 1, … each with a packet of `length` bytes.
pub(crate) fn frames(count: u32, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| frame(number, length)).collect()
}

/// The numbers of frames, in their order.
pub(crate) fn numbers(arrivals: &[Arrival]) -> Vec<u32> {
    let number = |arrival: &Arrival| {
        let bytes = &arrival.frame[ETHERNET_HEADER..ETHERNET_HEADER + 4];
        u32::from_be_bytes(bytes.try_into().unwrap())
    };
    arrivals.iter().map(number).collect()
}

fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &ETHERTYPE[..], &number.to_be_bytes()].concat();
    frame.resize(ETHERNET_HEADER + length, 0xa5);
    frame
}

fn host() -> Namespace {
    let host = Namespace::new().expect(NEEDS_ROOT);
    host.disable_ipv6().unwrap();
    host
}

fn settled(counters: &LinkCounters) -> u64 {
    counters.carried_packets + counters.dropped_packets()
}
