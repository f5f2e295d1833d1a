//! TCP connections that a site ends, as the daemon does: on one side a host, on the other a stream to a peer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use psmc_core::{PeerId, Site, StreamEvent, StreamHandle};
use psmc_wire::StreamId;
use psmc_wire::frame::{StreamOpening, StreamOutcome};
use psmc_wire::ip::tcp::{self, Ends};

use crate::agenda::Agenda;
use crate::packet::Packet;
use crate::stack::Stack;
use crate::transport::{Birth, CongestionControl, Settings, Tcp, refusal};
use crate::world::SiteId;

/// Bytes that a site keeps of a connection in each direction.
const BUFFER: usize = 1 << 20;

/// Bytes of a stream that wait for their host.
const MAX_UNSENT: u64 = 256 << 10;

/// The end of a connection towards a host.
struct Connection {
    peer: PeerId,
    stream: StreamId,
    opening: StreamOpening,
    /// Near its client; otherwise near its server.
    is_near: bool,
    /// `None` until the server has answered, near the client.
    tcp: Option<Tcp>,
    /// The client's first packet, until then.
    syn: Option<Packet>,
    /// Whether the peer knows that the server has answered.
    stands: bool,
    /// Whether the host sends no more, and the peer knows.
    is_finished: bool,
}

/// All connections that a site ends, by the ends of the packets that the host at its side sends.
#[derive(Default)]
pub(super) struct Splits {
    connections: BTreeMap<Ends, Connection>,
    streams: BTreeMap<(PeerId, StreamId), Ends>,
    agenda: Agenda<Ends>,
    due: BTreeSet<Ends>,
    out: Vec<Packet>,
    born: u64,
}

impl Splits {
    /// Takes a packet of a host, if it belongs to a connection that is ended here, or begins one.
    pub(super) fn takes(&mut self, packet: &Packet, site: &mut Site, now: Instant) -> bool {
        let Some(ends) = tcp::ends(packet.bytes()) else { return false };
        if let Some(connection) = self.connections.get_mut(&ends) {
            if let Some(tcp) = &mut connection.tcp {
                tcp.handle_packet(packet.bytes().to_vec(), now);
                self.due.insert(ends);
            }
            return true;
        }
        let Some((peer, opening)) = site.connection_to_split(packet.bytes()) else { return false };
        let Some(Ok(stream)) = site.peer(peer).ok().map(|mut peer| peer.open_stream(opening, now)) else {
            return false;
        };
        let syn = Packet::from_bytes(packet.bytes().to_vec());
        self.insert(Connection { syn, is_near: true, ..Connection::new(peer, stream, opening) });
        true
    }

    fn insert(&mut self, connection: Connection) {
        let ends = connection.ends();
        self.streams.insert((connection.peer, connection.stream), ends);
        self.connections.insert(ends, connection);
    }

    fn birth(&mut self, now: Instant) -> Birth {
        self.born += 1;
        Birth { seed: self.born, origin: now }
    }

    /// Something has happened to a stream.
    pub(super) fn on_event(
        &mut self,
        key: (PeerId, StreamId),
        event: StreamEvent,
        mtu: usize,
        site: &mut Site,
        now: Instant,
    ) {
        if let StreamEvent::Opened(opening) = event {
            let tcp = Tcp::connect(opening.client, opening.server, settings(mtu), self.birth(now), now);
            let connection = Connection { tcp: Some(tcp), ..Connection::new(key.0, key.1, opening) };
            self.due.insert(connection.ends());
            return self.insert(connection);
        }
        let Some(&ends) = self.streams.get(&key) else { return };
        match event {
            StreamEvent::Answered(outcome) => self.on_answer(ends, outcome, mtu, site, now),
            StreamEvent::Readable | StreamEvent::Writable => drop(self.due.insert(ends)),
            StreamEvent::Reset => {
                if let Some(mut tcp) = self.remove(ends).and_then(|gone| gone.tcp) {
                    tcp.abort(now);
                    self.out.extend(sent(&mut tcp));
                }
            }
            StreamEvent::Opened(_) => {}
        }
    }

    fn on_answer(&mut self, ends: Ends, outcome: StreamOutcome, mtu: usize, site: &mut Site, now: Instant) {
        let birth = self.birth(now);
        let Some(connection) = self.connections.get_mut(&ends) else { return };
        let Some(syn) = connection.syn.take() else { return };
        let server = connection.opening.server;
        if outcome == StreamOutcome::Open {
            let mut tcp = Tcp::accept(server, settings(mtu), birth, now);
            tcp.handle_packet(syn.into_bytes(), now);
            (connection.tcp, connection.stands) = (Some(tcp), true);
            self.due.insert(ends);
            return;
        }
        self.remove(ends);
        match outcome {
            StreamOutcome::Refused => {
                self.out.extend(refusal(syn.into_bytes(), server, now).and_then(Packet::from_bytes));
            }
            StreamOutcome::Prohibited | StreamOutcome::Full => {
                let mut buf = site.pool().take();
                buf.fill(syn.bytes());
                site.handle_packet(buf, now);
            }
            StreamOutcome::Unreachable | StreamOutcome::TimedOut | StreamOutcome::Open => {}
        }
    }

    fn remove(&mut self, ends: Ends) -> Option<Connection> {
        let connection = self.connections.remove(&ends)?;
        self.streams.remove(&(connection.peer, connection.stream));
        self.agenda.set(ends, None);
        Some(connection)
    }

    /// Does what is due by now.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some(ends) = self.agenda.pop(now) {
            if let Some(tcp) = self.connections.get_mut(&ends).and_then(|connection| connection.tcp.as_mut())
            {
                tcp.handle_timeout(now);
                self.due.insert(ends);
            }
        }
    }

    /// When there is something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// Moves bytes between hosts and streams, and gives hosts what is sent to them. Whether there was anything to do.
    pub(super) fn settle(&mut self, id: SiteId, site: &mut Site, stack: &mut Stack) -> bool {
        let is_any_due = !self.due.is_empty() || !self.out.is_empty();
        let now = stack.now;
        while let Some(ends) = self.due.pop_first() {
            let Some(connection) = self.connections.get_mut(&ends) else { continue };
            let is_over = connection.serve(site, now);
            let Some(tcp) = &mut connection.tcp else { continue };
            self.out.extend(sent(tcp));
            let timeout = tcp.poll_timeout(now);
            self.agenda.set(ends, timeout);
            if is_over {
                self.remove(ends);
            }
        }
        for packet in self.out.drain(..) {
            stack.network.inject(id, packet, now);
        }
        is_any_due
    }
}

impl Connection {
    fn new(peer: PeerId, stream: StreamId, opening: StreamOpening) -> Self {
        let (is_near, stands, is_finished) = (false, false, false);
        Self { peer, stream, opening, is_near, tcp: None, syn: None, stands, is_finished }
    }

    /// The ends of packets that the host at this side sends.
    fn ends(&self) -> Ends {
        let StreamOpening { client, server, .. } = self.opening;
        if self.is_near { [client, server] } else { [server, client] }
    }

    /// Moves what can be moved; says whether nothing will come of the connection any more.
    fn serve(&mut self, site: &mut Site, now: Instant) -> bool {
        let key = (self.peer, self.stream);
        let Some(tcp) = &mut self.tcp else { return false };
        if !self.stands {
            let outcome = match (tcp.is_open(), tcp.is_over()) {
                (true, _) => StreamOutcome::Open,
                (false, true) => StreamOutcome::Refused,
                (false, false) => return false,
            };
            let Some(stream) = stream_of(site, key) else { return true };
            stream.answer(outcome, now);
            self.stands = true;
            if outcome != StreamOutcome::Open {
                return true;
            }
        }
        // It has ended in both directions.
        let Some(mut stream) = stream_of(site, key) else {
            tcp.close(now);
            return tcp.is_over();
        };
        while tcp.unsent() < MAX_UNSENT {
            let Some(bytes) = first_chunk(&stream) else { break };
            tcp.write(&bytes, now);
            stream.consume(bytes.len(), now);
        }
        if stream.take_end() {
            tcp.close(now);
        }
        let Some(mut stream) = stream_of(site, key) else { return false };
        tcp.hold(stream.room() == 0, now);
        let received = tcp.take_received();
        for bytes in received.chunks(stream.chunk()) {
            let mut buf = stream.pool().take();
            buf.fill(bytes);
            stream.write(buf, now);
        }
        if tcp.peer_has_finished() && !std::mem::replace(&mut self.is_finished, true) {
            stream.finish(now);
        }
        false
    }
}

fn first_chunk(stream: &StreamHandle<'_>) -> Option<Vec<u8>> {
    stream.chunks().next().map(<[u8]>::to_vec)
}

fn stream_of(site: &mut Site, (peer, stream): (PeerId, StreamId)) -> Option<StreamHandle<'_>> {
    site.peer(peer).ok()?.stream(stream).ok()
}

/// What an end has to send.
fn sent(tcp: &mut Tcp) -> impl Iterator<Item = Packet> + '_ {
    std::iter::from_fn(|| tcp.poll_transmit()).filter_map(Packet::from_bytes)
}

fn settings(mtu: usize) -> Settings {
    Settings {
        congestion_control: CongestionControl::Cubic,
        buffer: BUFFER,
        mtu,
        ecn: false,
        keep: true,
        timeout: None,
        keep_alive: None,
    }
}
