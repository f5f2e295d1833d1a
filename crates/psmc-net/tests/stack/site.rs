//! Two hosts and, between them, a site that ends their TCP: it moves packets between their links and two stacks, and bytes between
//! these.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use psmc_net::poller::{Poller, Wakeup, Wants};
use psmc_net::stack::{self, ConnectError, Stack, StackConfig};
use psmc_net::tun::{Tun, TunConfig};
use psmc_testbed::netns::Namespace;
use psmc_wire::buf::{BufPool, PacketBuf};
use psmc_wire::ip::tcp::{self, Ends, Syn};
use tokio::runtime::Builder;

pub(crate) const CLIENT: [&str; 2] = ["10.1.0.1", "fd01::1"];
pub(crate) const SERVER: [&str; 2] = ["10.2.0.1", "fd02::1"];

/// What neither host has, and what says that a host cannot be reached.
const ROUTER: [&str; 2] = ["10.3.0.1", "fd03::1"];

pub(crate) const MTU: u16 = 1500;

/// What a direction of a connection keeps in between.
const CHUNK: usize = 128 << 10;

const TO_ACCEPT: u64 = 0;
const FROM_CLIENT: u64 = 1;
const FROM_SERVER: u64 = 2;
const FROM_NEAR: u64 = 3;
const FROM_FAR: u64 = 4;

/// From here on a number is that of a connection, twice, plus one for its far end.
const FIRST_FLOW: u64 = 16;

/// Hosts with a site in between.
pub(crate) struct World {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    pub(crate) control: Arc<Control>,
    site: Option<JoinHandle<Seen>>,
    waker: Waker,
}

/// What a test and the site say to each other meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Control {
    is_over: AtomicBool,
    /// Whether what the server sends is lost.
    pub(crate) loses_answers: AtomicBool,
    /// Packets lost so.
    pub(crate) lost: AtomicUsize,
    /// Packets that the near stack has sent.
    pub(crate) answers: AtomicUsize,
}

/// What a site has seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// Packets that a stack sent and that are no TCP between the two hosts: nobody asked for any.
    pub(crate) odd: usize,
    /// The clients of SYNs that came out of the far stack, with each one's code point.
    pub(crate) asked: BTreeSet<(SocketAddr, u8)>,
    /// The clients of packets that came out of the near stack, with each one's code point.
    pub(crate) answered: BTreeSet<(SocketAddr, u8)>,
}

pub(crate) fn config() -> StackConfig {
    StackConfig { mtu: MTU, congestion: None, buffer: 4 << 20 }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&config())
    }

    pub(crate) fn with(config: &StackConfig) -> Self {
        let [(client, client_link), (server, server_link)] = [CLIENT, SERVER].map(host);
        let [near, far] = [(); 2]
            .map(|()| Stack::new(config).expect("this test needs root, for it makes network namespaces"));
        let poller = Poller::new().unwrap();
        let (waker, control) = (poller.waker(), Arc::<Control>::default());
        let site = Site {
            client: client_link,
            server: server_link,
            near,
            far,
            poller,
            pool: BufPool::new(MTU.into(), 1024),
            known: HashMap::new(),
            flows: HashMap::new(),
            next: FIRST_FLOW / 2,
            seen: Seen::default(),
            control: Arc::clone(&control),
        };
        let site = Some(thread::spawn(move || site.run()));
        Self { client, server, control, site, waker }
    }

    /// Ends the site.
    pub(crate) fn finish(mut self) -> Seen {
        self.end();
        self.site.take().unwrap().join().unwrap()
    }

    fn end(&self) {
        self.control.is_over.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

/// A host whose only link is a device that all leaves by.
fn host(addresses: [&str; 2]) -> (Namespace, Tun) {
    let namespace = Namespace::new().expect("this test needs root, for it makes network namespaces");
    let config = TunConfig {
        name: Some("link".to_owned()),
        mtu: MTU,
        addresses: [(addresses[0], 32), (addresses[1], 128)]
            .map(|(address, length)| format!("{address}/{length}").parse().unwrap())
            .to_vec(),
        routes_networks: false,
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let tun = namespace.run(|| {
        runtime.block_on(async {
            let tun = Tun::create(config).await.unwrap();
            let netlink = psmc_net::netlink::Netlink::new().unwrap();
            for any in ["0.0.0.0/0", "::/0"] {
                netlink.add_route(any.parse().unwrap(), tun.index()).await.unwrap();
            }
            tun
        })
    });
    (namespace, tun)
}

struct Site {
    client: Tun,
    server: Tun,
    near: Stack,
    far: Stack,
    poller: Poller,
    pool: BufPool,
    known: HashMap<Ends, u64>,
    flows: HashMap<u64, Flow>,
    next: u64,
    seen: Seen,
    control: Arc<Control>,
}

struct Flow {
    ends: Ends,
    /// The client's SYN, until the server has answered.
    kept: Option<PacketBuf>,
    near: Option<TcpStream>,
    far: TcpStream,
    to_server: Half,
    to_client: Half,
}

/// One direction.
#[derive(Default)]
struct Half {
    buffer: Vec<u8>,
    written: usize,
    has_ended: bool,
    has_told_end: bool,
}

impl Site {
    fn run(mut self) -> Seen {
        for (token, fd) in [
            (FROM_CLIENT, self.client.as_fd()),
            (FROM_SERVER, self.server.as_fd()),
            (TO_ACCEPT, self.near.as_fd()),
        ] {
            self.poller.add(fd, token).unwrap();
        }
        self.poller.add(self.near.tun().as_fd(), FROM_NEAR).unwrap();
        self.poller.add(self.far.tun().as_fd(), FROM_FAR).unwrap();
        while !self.control.is_over.load(Ordering::Relaxed) {
            let ready: Vec<_> = self.poller.wait(None).unwrap().collect();
            for wakeup in ready {
                match wakeup {
                    Wakeup::Ready(FROM_CLIENT) => self.take_from_client(),
                    Wakeup::Ready(FROM_SERVER) => self.take_from_server(),
                    Wakeup::Ready(FROM_NEAR) => self.take_from_near(),
                    Wakeup::Ready(FROM_FAR) => self.take_from_far(),
                    Wakeup::Ready(TO_ACCEPT) => self.accept(),
                    Wakeup::Ready(token) => self.serve(token / 2),
                    Wakeup::Alarm => {}
                }
            }
        }
        self.seen
    }

    fn take_from_client(&mut self) {
        let mut packets = Vec::new();
        let _ = self.client.try_recv(&mut self.pool, &mut packets);
        let mut rest = Vec::new();
        for packet in packets {
            match Syn::parse(packet.packet()).map(|syn| ([syn.client(), syn.server()], syn.dscp())) {
                Some((ends, dscp)) if !self.known.contains_key(&ends) => self.open(ends, dscp, packet),
                Some((ends, _)) if self.flows[&self.known[&ends]].kept.is_some() => self.pool.put(packet),
                _ => rest.push(packet),
            }
        }
        self.near.tun().send(&mut rest, &mut self.pool, false);
    }

    fn take_from_server(&mut self) {
        if !self.control.loses_answers.load(Ordering::Relaxed) {
            return carry(&mut self.server, self.far.tun(), &mut self.pool, |_| {});
        }
        let mut packets = Vec::new();
        let _ = self.server.try_recv(&mut self.pool, &mut packets);
        self.control.lost.fetch_add(packets.len(), Ordering::Relaxed);
    }

    fn take_from_near(&mut self) {
        let (seen, control) = (&mut self.seen, &self.control);
        carry(self.near.tun(), &mut self.client, &mut self.pool, |packet| {
            control.answers.fetch_add(1, Ordering::Relaxed);
            seen.look_at(packet, SERVER, CLIENT);
            seen.answered.extend(tcp::ends(packet).map(|[_, client]| (client, dscp(packet))));
        });
    }

    fn take_from_far(&mut self) {
        let seen = &mut self.seen;
        carry(self.far.tun(), &mut self.server, &mut self.pool, |packet| {
            seen.look_at(packet, CLIENT, SERVER);
            seen.asked.extend(Syn::parse(packet).map(|syn| (syn.client(), syn.dscp())));
        });
    }

    /// A client asks for a connection: the server is asked first.
    fn open(&mut self, ends: Ends, dscp: u8, syn: PacketBuf) {
        // Without it the client asks again.
        let Ok(far) = self.far.connect(ends[0], ends[1], dscp) else { return };
        self.near.listen(ends[1].port()).unwrap();
        let flow = self.next;
        self.next += 1;
        self.poller.add(far.as_fd(), 2 * flow + 1).unwrap();
        self.poller.set_wants(far.as_fd(), 2 * flow + 1, Wants { data: false, room: true }).unwrap();
        self.known.insert(ends, flow);
        let (to_server, to_client) = Default::default();
        self.flows.insert(flow, Flow { ends, kept: Some(syn), near: None, far, to_server, to_client });
    }

    fn accept(&mut self) {
        let mut accepted = Vec::new();
        self.near.accept(&mut accepted).unwrap();
        for connection in accepted {
            self.near.unlisten(connection.server.port());
            let flow = self.known[&[connection.client, connection.server]];
            self.poller.add(connection.stream.as_fd(), 2 * flow).unwrap();
            self.flows.get_mut(&flow).unwrap().near = Some(connection.stream);
            self.serve(flow);
        }
    }

    fn serve(&mut self, number: u64) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        if flow.kept.is_some() {
            return self.settle(number);
        }
        let Some(near) = &flow.near else { return };
        let ends_by_reset = [near, &flow.far].iter().any(|it| it.take_error().unwrap().is_some())
            || flow.to_server.pump(near, &flow.far).is_err()
            || flow.to_client.pump(&flow.far, near).is_err();
        if ends_by_reset {
            let flow = self.forget(number);
            stack::reset(flow.far);
            if let Some(near) = flow.near {
                stack::reset(near);
            }
            return;
        }
        if flow.to_server.has_told_end && flow.to_client.has_told_end {
            self.forget(number);
            return;
        }
        let near_wants = Wants { data: flow.to_server.wants_data(), room: flow.to_client.wants_room() };
        let far_wants = Wants { data: flow.to_client.wants_data(), room: flow.to_server.wants_room() };
        self.poller.set_wants(near.as_fd(), 2 * number, near_wants).unwrap();
        self.poller.set_wants(flow.far.as_fd(), 2 * number + 1, far_wants).unwrap();
    }

    /// The server has answered, or somebody has in its place.
    fn settle(&mut self, number: u64) {
        let flow = self.flows.get_mut(&number).unwrap();
        let outcome = stack::finish(&flow.far);
        if matches!(outcome, Ok(false)) {
            return;
        }
        let mut syn = flow.kept.take().unwrap();
        let answer = match outcome {
            Ok(_) => {
                let nothing = Wants { data: false, room: false };
                self.poller.set_wants(flow.far.as_fd(), 2 * number + 1, nothing).unwrap();
                self.near.tun().send(&mut vec![syn], &mut self.pool, false);
                return;
            }
            Err(ConnectError::Refused) => Some(Syn::parse(syn.packet()).unwrap().reset()),
            Err(ConnectError::Unreachable(why)) => {
                let syn = Syn::parse(syn.packet()).unwrap();
                let from: IpAddr = ROUTER[usize::from(syn.client().is_ipv6())].parse().unwrap();
                syn.unreachable(why, from)
            }
            Err(ConnectError::TimedOut | ConnectError::Failed(_)) => None,
        };
        if let Some(answer) = answer {
            syn.fill(&answer);
            self.client.send(&mut vec![syn], &mut self.pool, false);
        }
        let flow = self.forget(number);
        self.near.unlisten(flow.ends[1].port());
    }

    fn forget(&mut self, number: u64) -> Flow {
        let flow = self.flows.remove(&number).unwrap();
        self.known.remove(&flow.ends);
        flow
    }
}

impl Seen {
    fn look_at(&mut self, packet: &[u8], from: [&str; 2], to: [&str; 2]) {
        let family = usize::from(packet[0] >> 4 == 6);
        let expected = [from, to].map(|host| host[family].parse::<IpAddr>().unwrap());
        let ends = tcp::ends(packet).map(|ends| ends.map(|end| end.ip()));
        self.odd += usize::from(ends != Some(expected));
    }
}

impl Half {
    fn pump(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        loop {
            if self.buffer.is_empty() && !self.has_ended {
                self.buffer.resize(CHUNK, 0);
                match from.read(&mut self.buffer) {
                    Ok(read) => {
                        self.buffer.truncate(read);
                        self.has_ended = read == 0;
                    }
                    Err(error) => {
                        self.buffer.clear();
                        return if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
                    }
                }
            }
            if self.buffer.is_empty() {
                if !self.has_told_end {
                    self.has_told_end = true;
                    // The host may have gone by itself.
                    let _ = to.shutdown(Shutdown::Write);
                }
                return Ok(());
            }
            match to.write(&self.buffer[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.written == self.buffer.len() {
                self.buffer.clear();
                self.written = 0;
            }
        }
    }

    fn wants_data(&self) -> bool {
        self.buffer.is_empty() && !self.has_ended
    }

    fn wants_room(&self) -> bool {
        !self.buffer.is_empty()
    }
}

/// Moves what a device has.
pub(crate) fn carry(from: &mut Tun, to: &mut Tun, pool: &mut BufPool, mut look: impl FnMut(&[u8])) {
    let mut packets = Vec::new();
    let _ = from.try_recv(pool, &mut packets);
    packets.iter().for_each(|packet| look(packet.packet()));
    to.send(&mut packets, pool, false);
}

fn dscp(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[1] >> 2 } else { (packet[0] << 4 | packet[1] >> 4) >> 2 }
}
