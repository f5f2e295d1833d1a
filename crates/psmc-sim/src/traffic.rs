//! Traffic: who sends it, who takes it, and what is seen of it.

mod chance;
mod packets;
mod pulses;
mod transfers;
mod users;
mod web;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::agenda::Agenda;
use crate::packet::Packet;
use crate::pulses::Pulses;
use crate::stack::Stack;
use crate::transport::{CongestionControl, Settings, StreamId};
use crate::world::{HostId, TrafficId};
pub(crate) use chance::uniform;
use packets::{Datagrams, Ping};
use pulses::PulseTrain;
use transfers::{Bulk, Requests};
use users::{Telnet, Transfers};
use web::Web;
pub use web::WebModel;

/// The first port at which streams of traffic are taken; each has one of its own.
const FIRST_PORT: u16 = 10_000;

/// A stream of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSetup {
    /// What kind.
    pub kind: TrafficKind,
    /// Who sends or asks.
    pub from: HostId,
    /// Who receives or answers.
    pub to: HostId,
    /// The address by which the sender reaches the receiver.
    pub address: IpAddr,
    /// When it starts.
    pub start: Instant,
    /// When it ends, if it is not done before.
    pub stop: Instant,
}

/// A kind of traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Bulk transfer by TCP.
    Tcp {
        /// How the sender finds its rate.
        congestion_control: CongestionControl,
        /// How many connections at once.
        flows: usize,
        /// How much each transfers; as much as it can until the end if `None`.
        bytes: Option<u64>,
        /// Bytes of each that can be on their way.
        buffer: usize,
    },
    /// UDP at a constant rate.
    Udp {
        /// Bits per second of payload.
        rate: u64,
        /// Bytes of payload in a datagram.
        payload: usize,
    },
    /// Requests at random times (a Poisson process), each on a TCP connection of its own.
    Requests {
        /// How many a second, on average.
        rate: f64,
        /// Bytes of a request.
        request: usize,
        /// Bytes of a response.
        response: usize,
        /// How both ends find their rates.
        congestion_control: CongestionControl,
    },
    /// People who transfer files, each one after another: flows that come and go.
    Transfers {
        /// How each connection is.
        tcp: TcpSetup,
        /// How many at most transfer at once.
        users: usize,
        /// Bytes of a file on average; exponentially distributed.
        mean_bytes: f64,
        /// From the end of one file until the next on average; exponentially distributed.
        mean_pause: Duration,
    },
    /// People who type: small packets at random times, each of which is seen when it has arrived.
    Telnet {
        /// How each connection is.
        tcp: TcpSetup,
        /// How many type at once.
        users: usize,
        /// Packets of a session; each number is as likely as the others.
        packets: RangeInclusive<u32>,
        /// Bytes of payload in a packet.
        payload: usize,
        /// Between two packets, and between two sessions, on average; exponentially distributed.
        mean_gap: Duration,
    },
    /// People who read web pages by HTTP/1.0. The receiver answers, and the sender's requests are seen.
    Web {
        /// How each connection is.
        tcp: TcpSetup,
        /// How many read at once.
        users: usize,
        /// What they read.
        model: WebModel,
    },
    /// UDP in pulses, which nobody takes; nothing is seen of it.
    Pulses(Pulses),
    /// ICMP echo requests.
    Ping {
        /// Time between two.
        interval: Duration,
        /// Bytes of payload.
        payload: usize,
    },
}

/// How TCP connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSetup {
    /// How both ends find their rates.
    pub congestion_control: CongestionControl,
    /// Bytes of the longest packet, from the IP header on.
    pub mtu: usize,
    /// Bytes that can be on their way in each direction.
    pub buffer: usize,
    /// Whether packets can be marked instead of dropped (ECN, RFC 3168).
    pub ecn: bool,
}

impl TcpSetup {
    fn settings(self) -> Settings {
        let Self { congestion_control, mtu, buffer, ecn } = self;
        Settings { congestion_control, buffer, mtu, ecn, keep: false, timeout: None, keep_alive: None }
    }
}

/// Something that is seen of traffic where it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Of which stream.
    pub traffic: TrafficId,
    /// When.
    pub at: Instant,
    /// What.
    pub what: Seen,
}

/// What can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// So many bytes of payload have arrived.
    Delivered(u64),
    /// A datagram, a request or a ping was sent, or a transfer has begun.
    Sent,
    /// The first bytes have come of what was asked for at this time.
    Begun {
        /// When it was asked for.
        sent_at: Instant,
    },
    /// What was sent at this time has arrived, or was answered; `late` if something sent after it was before it.
    Arrived {
        /// When it was sent.
        sent_at: Instant,
        /// Whether something sent later has overtaken it.
        late: bool,
    },
    /// It is done before its time.
    Done,
    /// A connection broke, or never came about.
    Broken,
}

/// What a kind of traffic does.
trait Generator {
    /// It is time to start, or for the next step.
    fn handle_timeout(&mut self, desk: &mut Desk<'_>);

    /// Something has happened to a connection.
    fn handle_stream(&mut self, _stream: StreamId, _desk: &mut Desk<'_>) {}

    /// A datagram has arrived.
    fn handle_datagram(&mut self, _packet: &Packet, _desk: &mut Desk<'_>) {}

    /// The answer to a ping has arrived.
    fn handle_echo_reply(&mut self, _packet: &Packet, _desk: &mut Desk<'_>) {}

    /// When there is something to do; never before the start.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// What a generator works with.
struct Desk<'a> {
    id: TrafficId,
    now: Instant,
    place: Place,
    stack: &'a mut Stack,
    rng: &'a mut Pcg64Mcg,
    seen: &'a mut VecDeque<Observation>,
}

/// Between whom traffic flows.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: HostId,
    to: HostId,
    remote: SocketAddr,
    start: Instant,
    stop: Instant,
}

impl Desk<'_> {
    fn note(&mut self, what: Seen) {
        self.seen.push_back(Observation { traffic: self.id, at: self.now, what });
    }
}

/// A stream of traffic.
struct Stream {
    place: Place,
    generator: Box<dyn Generator>,
    rng: Pcg64Mcg,
}

/// All streams of traffic.
pub(crate) struct Traffics {
    streams: Vec<Stream>,
    agenda: Agenda<TrafficId>,
    seen: VecDeque<Observation>,
    rng: Pcg64Mcg,
}

impl Traffics {
    /// None.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            streams: Vec::new(),
            agenda: Agenda::default(),
            seen: VecDeque::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Adds a stream that starts and ends by itself.
    pub(crate) fn add(&mut self, setup: TrafficSetup) -> TrafficId {
        let id = TrafficId(self.streams.len());
        let TrafficSetup { kind, from, to, address, start, stop } = setup;
        let port = FIRST_PORT.wrapping_add(u16::try_from(id.0 % usize::from(u16::MAX)).unwrap_or_default());
        let remote = SocketAddr::new(address, port);
        let rng = Pcg64Mcg::seed_from_u64(self.rng.next_u64());
        let place = Place { from, to, remote, start, stop };
        self.streams.push(Stream { place, generator: build(kind, &place, id), rng });
        self.agenda.set(id, Some(start));
        id
    }

    /// Something has happened to a connection.
    pub(crate) fn handle_stream(&mut self, id: TrafficId, stream: StreamId, stack: &mut Stack) {
        self.with(id, stack, |generator, desk| generator.handle_stream(stream, desk));
    }

    /// A datagram has arrived.
    pub(crate) fn handle_datagram(&mut self, id: TrafficId, packet: &Packet, stack: &mut Stack) {
        self.with(id, stack, |generator, desk| generator.handle_datagram(packet, desk));
    }

    /// The answer to a ping has arrived at a host.
    pub(crate) fn handle_echo_reply(&mut self, packet: &Packet, stack: &mut Stack) {
        let id = TrafficId(packet.echo_ident().into());
        self.with(id, stack, |generator, desk| generator.handle_echo_reply(packet, desk));
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, stack: &mut Stack) {
        while let Some(id) = self.agenda.pop(stack.now) {
            self.with(id, stack, |generator, desk| generator.handle_timeout(desk));
        }
    }

    /// The next thing that was seen.
    pub(crate) fn poll_observation(&mut self) -> Option<Observation> {
        self.seen.pop_front()
    }

    /// When there is something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    fn with(
        &mut self,
        id: TrafficId,
        stack: &mut Stack,
        work: impl FnOnce(&mut dyn Generator, &mut Desk<'_>),
    ) {
        let Some(Stream { place, generator, rng }) = self.streams.get_mut(id.0) else {
            return;
        };
        let (now, place) = (stack.now, *place);
        let mut desk = Desk { id, now, place, stack, rng, seen: &mut self.seen };
        work(generator.as_mut(), &mut desk);
        let next = generator.poll_timeout();
        self.agenda.set(id, next.map(|next| next.max(place.start)));
    }
}

fn build(kind: TrafficKind, place: &Place, id: TrafficId) -> Box<dyn Generator> {
    match kind {
        TrafficKind::Tcp { congestion_control, flows, bytes, buffer } => {
            Box::new(Bulk::new(place, congestion_control, flows, bytes, buffer))
        }
        TrafficKind::Udp { rate, payload } => Box::new(Datagrams::new(place, rate, payload)),
        TrafficKind::Requests { rate, request, response, congestion_control } => {
            Box::new(Requests::new(place, rate, request, response, congestion_control))
        }
        TrafficKind::Transfers { tcp, users, mean_bytes, mean_pause } => {
            Box::new(Transfers::new(place, tcp, users, mean_bytes, mean_pause))
        }
        TrafficKind::Telnet { tcp, users, packets, payload, mean_gap } => {
            Box::new(Telnet::new(place, tcp, users, packets, payload, mean_gap))
        }
        TrafficKind::Web { tcp, users, model } => Box::new(Web::new(place, tcp, users, model)),
        TrafficKind::Pulses(pulses) => Box::new(PulseTrain::new(place, pulses)),
        TrafficKind::Ping { interval, payload } => Box::new(Ping::new(place, interval, payload, id)),
    }
}
