//! One end of a TCP connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl as NoControl, Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint, TcpTimestampGenerator};

use super::congestion::CongestionControl;
use super::notification::Notification;
use super::segment::Port;
use super::segment::{Segment, distance};
use super::sender::{Ack, Sender};
use crate::packet::ecn_of;

/// How long a lone segment waits for company before it is acknowledged.
const ACK_DELAY: smoltcp::time::Duration = smoltcp::time::Duration::from_millis(10);

/// Bytes of the timestamp option, which Linux sends in every segment (RFC 7323 §3.2).
const TIMESTAMP_OPTION: usize = 12;

/// A place for the time, which is filled in afterwards: smoltcp's generator has no clock.
const TIMESTAMPS: TcpTimestampGenerator = || 0;

/// Time that smoltcp can't tell from none.
const TICK: Duration = Duration::from_micros(1);

/// What an end of a connection is like. Its MTU is at most that of the way it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How it finds its rate.
    pub(crate) congestion_control: CongestionControl,
    /// Bytes that can be on their way in each direction.
    pub(crate) buffer: usize,
    /// The longest packet it sends.
    pub(crate) mtu: usize,
    /// Whether it would have its packets marked instead of dropped (RFC 3168), if the peer would, too.
    pub(crate) ecn: bool,
    /// Whether what arrives is kept to be read, or only counted.
    pub(crate) keep: bool,
    /// Without any answer for so long the connection is dead.
    pub(crate) timeout: Option<Duration>,
    /// A silent peer is asked this often whether it is still there.
    pub(crate) keep_alive: Option<Duration>,
}

impl Settings {
    /// With packets that fit.
    pub(super) fn fitted(self, mtu: usize) -> Self {
        Self { mtu: self.mtu.min(mtu), ..self }
    }
}

/// What is given to a new end besides its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    /// Where its first sequence number comes from.
    pub(crate) seed: u64,
    /// When time began.
    pub(crate) origin: Instant,
}

/// One end of a TCP connection.
///
/// smoltcp opens and closes it, cuts the stream into segments, puts it together again and controls its flow. When
/// what is sent, and what is sent again, is the [`Sender`]'s business: smoltcp recovers one segment a round trip and
/// waits a second for its timeouts, which no system in use does. To smoltcp the network never loses anything; its own
/// repairs are kept from the network.
///
/// After every call: [`poll_transmit`](Self::poll_transmit) until `None`, then [`poll_timeout`](Self::poll_timeout).
pub(crate) struct Tcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    port: Port,
    origin: Instant,
    sender: Sender,
    notification: Notification,
    mss: usize,
    keep: bool,
    /// Whether what arrives stays in its buffer, so that the peer's window closes.
    held: bool,
    /// The sequence numbers of both ends are counted from here.
    first: Option<u32>,
    /// Everything before is acknowledged.
    acknowledged: u64,
    /// Bytes that smoltcp was given to send.
    given: u64,
    /// The window that the peer told last.
    window: u16,
    /// What the last segment told the peer: the acknowledgement and the window.
    told: (u32, u16),
    backlog: Backlog,
    closing: bool,
    received: u64,
    inbox: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
}

/// What is still to be given to smoltcp.
#[derive(Debug, Default)]
struct Backlog {
    bytes: VecDeque<u8>,
    /// As many bytes that mean nothing.
    filler: u64,
}

impl Tcp {
    /// Opens a connection.
    pub(crate) fn connect(
        local: SocketAddr,
        remote: SocketAddr,
        settings: Settings,
        birth: Birth,
        now: Instant,
    ) -> Self {
        let mut tcp = Self::new(local, settings, birth, now);
        let socket = tcp.sockets.get_mut::<Socket<'_>>(tcp.handle);
        // It is refused only of a socket in use, or to an address that is none.
        let opened = socket.connect(tcp.interface.context(), endpoint(remote), endpoint(local));
        debug_assert_eq!(opened, Ok(()), "{local} -> {remote}");
        tcp.pump(now);
        tcp
    }

    /// Waits for the connection that the next packet opens.
    pub(crate) fn accept(local: SocketAddr, settings: Settings, birth: Birth, now: Instant) -> Self {
        let mut tcp = Self::new(local, settings, birth, now);
        let listening = tcp.socket_mut().listen(endpoint(local));
        debug_assert_eq!(listening, Ok(()), "{local}");
        tcp
    }

    fn new(local: SocketAddr, settings: Settings, birth: Birth, now: Instant) -> Self {
        let mut port = Port::new(settings.mtu);
        let interface = interface(&mut port, local, birth, now);
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket(settings));
        let headers = if local.is_ipv4() { 20 } else { 40 } + 20 + TIMESTAMP_OPTION;
        let mss = settings.mtu.saturating_sub(headers).max(1);
        Self {
            interface,
            sockets,
            handle,
            port,
            origin: birth.origin,
            sender: Sender::new(settings.congestion_control, mss as u64, birth.seed),
            notification: Notification::new(settings.ecn),
            mss,
            keep: settings.keep,
            held: false,
            first: None,
            acknowledged: 0,
            given: 0,
            window: 0,
            told: (0, 0),
            backlog: Backlog::default(),
            closing: false,
            received: 0,
            inbox: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// A packet has arrived.
    pub(crate) fn handle_packet(&mut self, packet: Vec<u8>, now: Instant) {
        let Some(segment) = Segment::parse(&packet) else {
            return;
        };
        if let Some(mss) = segment.mss {
            self.mss = self.mss.min(usize::from(mss).saturating_sub(TIMESTAMP_OPTION)).max(1);
            self.sender.set_mss(self.mss as u64);
        }
        let echoes = self.notification.on_segment(&segment, ecn_of(&packet));
        if self.is_news(&segment, echoes, now) {
            self.port.incoming = Some(packet);
            let time = self.time(now);
            self.interface.poll_ingress_single(time, &mut self.port, &mut self.sockets);
            self.receive();
        }
        self.pump(now);
    }

    /// Tells the sender what was acknowledged, and whether marks were; says whether there is anything in it for smoltcp.
    fn is_news(&mut self, segment: &Segment, echoes: bool, now: Instant) -> bool {
        let (Some(first), Some(ack)) = (self.first, segment.ack) else {
            return true;
        };
        let offset =
            |sequence| self.acknowledged.saturating_add_signed(distance(sequence, first, self.acknowledged));
        let repeats = segment.is_plain
            && (ack, segment.window) == (self.last_taken(first), self.window)
            && (!self.sender.is_idle() || self.has_unacknowledged_fin());
        self.window = segment.window;
        // An acknowledgement of the FIN counts one more than there are bytes.
        let up_to = offset(ack).min(self.sender.next());
        if !segment.is_reset && distance(ack, first, self.acknowledged) >= 0 {
            let ranges: Vec<_> =
                segment.sacked.iter().flatten().map(|&(a, b)| (offset(a), offset(b))).collect();
            self.acknowledged = up_to;
            let answers = segment.echo.map(|stamp| self.moment(stamp, now));
            self.sender.handle_ack(&Ack { up_to, ranges: &ranges, answers, echoes }, now);
        }
        !repeats
    }

    /// The last acknowledgement that smoltcp took, leaving out that of the FIN: of segments that others have overtaken it takes
    /// none.
    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap")]
    fn last_taken(&self, first: u32) -> u32 {
        let bytes = self.given - self.socket().send_queue() as u64;
        first.wrapping_add(bytes as u32)
    }

    /// smoltcp forgets about a FIN that is on its way when acknowledgements repeat.
    fn has_unacknowledged_fin(&self) -> bool {
        matches!(self.socket().state(), State::FinWait1 | State::Closing | State::LastAck)
    }

    fn receive(&mut self) {
        let Self { sockets, handle, keep, held, inbox, received, .. } = self;
        let socket = sockets.get_mut::<Socket<'_>>(*handle);
        while !*held && socket.can_recv() {
            let taken = socket.recv(|data| {
                if *keep {
                    inbox.extend_from_slice(data);
                }
                (data.len(), data.len())
            });
            *received += taken.unwrap_or(0) as u64;
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
        self.pump(now);
    }

    /// Sends bytes, after those that were given before.
    pub(crate) fn write(&mut self, bytes: &[u8], now: Instant) {
        self.backlog.bytes.extend(bytes);
        self.pump(now);
    }

    /// Sends so many bytes that mean nothing, after all bytes that do.
    pub(crate) fn fill(&mut self, count: u64, now: Instant) {
        self.backlog.filler = self.backlog.filler.saturating_add(count);
        self.pump(now);
    }

    /// Ends the connection once everything is sent.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing = true;
        self.pump(now);
    }

    /// Ends the connection at once.
    pub(crate) fn abort(&mut self, now: Instant) {
        self.socket_mut().abort();
        self.pump(now);
    }

    /// What has arrived since it was last taken.
    pub(crate) fn take_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// Leaves what arrives in its buffer from now on, or takes it out of there.
    pub(crate) fn hold(&mut self, held: bool, now: Instant) {
        if std::mem::replace(&mut self.held, held) && !held {
            self.receive();
            self.pump(now);
        }
    }

    /// Bytes that it was given and has not begun to send.
    pub(crate) fn unsent(&self) -> u64 {
        self.backlog.len()
    }

    /// A packet to be sent.
    pub(crate) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// When there is something to do.
    pub(crate) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(self.time(now), &self.sockets);
        let at = at.map(|at| self.origin + Duration::from_micros(at.total_micros().max(0).cast_unsigned()));
        // What smoltcp could do at once it has done already.
        let at = at.map(|at| at.max(now + TICK));
        [at, self.sender.poll_timeout()].into_iter().flatten().min()
    }

    /// Bytes that have arrived so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether the connection is up, in this direction at least.
    pub(crate) fn is_open(&self) -> bool {
        self.socket().may_send()
    }

    /// Whether the peer will send no more.
    pub(crate) fn peer_has_finished(&self) -> bool {
        match self.socket().state() {
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed => true,
            State::Listen
            | State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2 => false,
        }
    }

    /// Whether everything that it had to send is acknowledged, its end included.
    pub(crate) fn has_finished(&self) -> bool {
        self.closing && self.backlog.is_empty() && self.sender.is_idle()
    }

    /// Whether nothing will come of it any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.socket().state(), State::Closed | State::TimeWait)
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn time(&self, now: Instant) -> smoltcp::time::Instant {
        time(self.origin, now)
    }

    /// The time in microseconds, which wraps at 32 bits: after more than an hour.
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    fn stamp(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.origin).as_micros() as u32
    }

    /// The moment in the last hour that has this stamp, or just after it: never before.
    fn moment(&self, stamp: u32, now: Instant) -> Instant {
        let ago = self.stamp(now).wrapping_sub(stamp);
        now.checked_sub(Duration::from_micros(ago.into())).unwrap_or(self.origin) + TICK
    }

    /// Sends what may be sent.
    fn pump(&mut self, now: Instant) {
        if self.sender.take_reduced() {
            self.notification.on_reduced();
        }
        loop {
            while let Some(mut packet) = self.sender.poll_retransmit(now) {
                Segment::renew(&mut packet, self.told, self.stamp(now));
                self.notification.mark_repair(&mut packet);
                self.ready.push_back(packet);
            }
            let offered = self.offer(now);
            let time = self.time(now);
            self.interface.poll(time, &mut self.port, &mut self.sockets);
            self.collect(now);
            if offered == 0 {
                break;
            }
        }
        if self.backlog.is_empty() && self.given == self.sender.next() {
            self.sender.on_nothing_to_send();
        }
    }

    /// Gives smoltcp as much as may leave now, in full segments as long as there are any; says how much that was.
    fn offer(&mut self, now: Instant) -> usize {
        let Self { sockets, handle, backlog, sender, given, .. } = self;
        let socket = sockets.get_mut::<Socket<'_>>(*handle);
        if !socket.may_send() {
            return 0;
        }
        if backlog.is_empty() {
            if self.closing {
                socket.close();
            }
            return 0;
        }
        let unsent = given.saturating_sub(sender.next());
        let budget = sender.budget(now).saturating_sub(unsent);
        let whole = budget - budget % self.mss as u64;
        let wanted = usize::try_from(whole.min(backlog.len())).unwrap_or(usize::MAX);
        if wanted == 0 {
            return 0;
        }
        let taken = socket.send(|room| {
            let count = wanted.min(room.len());
            (backlog.take(&mut room[..count]), count)
        });
        let taken = taken.unwrap_or(0);
        *given += taken as u64;
        taken
    }

    /// Passes on what smoltcp sends, but for its repairs.
    fn collect(&mut self, now: Instant) {
        while let Some(mut packet) = self.port.outgoing.pop_front() {
            Segment::stamp(&mut packet, self.stamp(now));
            let Some(segment) = Segment::parse(&packet) else {
                continue;
            };
            if segment.is_syn {
                self.first = Some(segment.sequence.wrapping_add(1));
            }
            self.told = (segment.ack.unwrap_or(0), segment.window);
            if segment.len > 0
                && let Some(first) = self.first
            {
                let beyond = distance(segment.sequence, first, self.sender.next());
                let new = u64::try_from(beyond + segment.len.cast_signed()).unwrap_or(0);
                // What repeats nothing that is on its way asks whether the peer is still there.
                if new == 0 && !self.sender.is_idle() {
                    continue;
                }
                if new > 0 {
                    self.sender.on_sent(new, packet.clone(), now);
                }
            }
            self.notification.mark_outgoing(&segment, &mut packet);
            self.ready.push_back(packet);
        }
    }
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> u64 {
        self.filler.saturating_add(self.bytes.len() as u64)
    }

    /// Moves as much as there is room for; says how much.
    fn take(&mut self, room: &mut [u8]) -> usize {
        let meant = room.len().min(self.bytes.len());
        for (place, byte) in room.iter_mut().zip(self.bytes.drain(..meant)) {
            *place = byte;
        }
        let filler = ((room.len() - meant) as u64).min(self.filler);
        self.filler -= filler;
        room.len()
    }
}

/// The answer to a packet for which there is no connection and nobody who takes one.
pub(crate) fn refusal(packet: Vec<u8>, local: SocketAddr, now: Instant) -> Option<Vec<u8>> {
    let mut port = Port::new(packet.len());
    let mut interface = interface(&mut port, local, Birth { seed: 0, origin: now }, now);
    port.incoming = Some(packet);
    interface.poll(time(now, now), &mut port, &mut SocketSet::new(Vec::new()));
    port.outgoing.pop_front()
}

fn interface(port: &mut Port, local: SocketAddr, birth: Birth, now: Instant) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = birth.seed;
    let mut interface = Interface::new(config, port, time(birth.origin, now));
    interface.update_ip_addrs(|addresses| {
        // There is room for two; every address is on the link, as if by a default route.
        let pushed = addresses.push(IpCidr::new(local.ip().into(), 0));
        debug_assert!(pushed.is_ok());
    });
    interface
}

fn socket(settings: Settings) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; settings.buffer]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(NoControl::None);
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(Some(ACK_DELAY));
    socket.set_tsval_generator(Some(TIMESTAMPS));
    socket.set_timeout(settings.timeout.map(Into::into));
    socket.set_keep_alive(settings.keep_alive.map(Into::into));
    socket
}

fn endpoint(address: SocketAddr) -> IpEndpoint {
    IpEndpoint::new(address.ip().into(), address.port())
}

fn time(origin: Instant, now: Instant) -> smoltcp::time::Instant {
    let micros = now.saturating_duration_since(origin).as_micros();
    smoltcp::time::Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
