//! The routers on the way to an address: datagrams that may pass so many of them, and what ICMP says of each.
//!
//! The sockets are those of [`udp`](crate::udp): bound to an interface, and marked, so that what is traced is the way outside the
//! tunnel. Answers come by the socket's queue of errors (`IP_RECVERR`), for which no rights are needed.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::Socket;

use crate::probe::{IcmpError, IcmpKind, next_error};
use crate::udp::open_as;

/// The most routers that are looked for: half as many are on most ways through the Internet.
pub const MAX_HOPS: u8 = 32;

/// Datagrams that leave at once, each of which may pass one router more.
const WAVE: u8 = 8;

/// How often a router is asked that says nothing: it may have had other things to do.
const TRIES: u8 = 2;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The shortest time that can be waited for.
const SHORTEST: Duration = Duration::from_millis(1);

/// The port of the first datagram, at which nobody listens (that of traceroute). Each has its own, which tells the answers apart.
const FIRST_PORT: u16 = 33_434;

/// What a datagram holds: nothing of use.
const PAYLOAD: [u8; 24] = [0; 24];

/// A place on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// How many it is from here, from 1.
    pub distance: u8,
    /// Who has answered there, and how long that took; `None` if nobody has.
    pub answer: Option<(IpAddr, Duration)>,
}

/// How the way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the address itself.
    Arrived,
    /// At somebody who says that it goes no further, or may not.
    Unreachable,
    /// Nobody answers beyond the last hop.
    Silent,
}

/// A way to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Who is on it, the nearest first. Those at the end who say nothing are left out.
    pub hops: Vec<Hop>,
    /// How it ends.
    pub end: End,
}

/// What somebody says of a datagram.
#[derive(Clone, Copy, Debug)]
struct Answer {
    from: IpAddr,
    rtt: Duration,
    is_on_the_way: bool,
}

/// Finds the routers on the way to `remote`, by one interface if it is named, and from one address if it is given. It takes some
/// seconds at most.
///
/// # Errors
/// Those of the system: that there is no such interface or address, no route, or no right to mark packets.
pub fn trace(interface: Option<&str>, local: Option<IpAddr>, remote: IpAddr) -> io::Result<Trace> {
    let socket = open(interface, local, remote)?;
    let mut tracer = Tracer { socket, remote, sent: BTreeMap::new(), answers: BTreeMap::new() };
    let mut reached = 0;
    while reached < MAX_HOPS && tracer.last().is_none() {
        let wave = reached + 1..=reached + WAVE;
        for attempt in 0..TRIES {
            tracer.ask(wave.clone(), attempt)?;
        }
        reached += WAVE;
        if tracer.answers.last_key_value().is_none_or(|(farthest, _)| farthest < wave.start()) {
            break;
        }
    }
    Ok(tracer.finish())
}

fn open(interface: Option<&str>, local: Option<IpAddr>, remote: IpAddr) -> io::Result<Socket> {
    let socket = open_as(SocketAddr::new(remote, FIRST_PORT))?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    let any = if remote.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(local.unwrap_or(any), 0).into())?;
    if remote.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
    } else {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
    }
    Ok(socket)
}

struct Tracer {
    socket: Socket,
    remote: IpAddr,
    /// What has left, by its port.
    sent: BTreeMap<u16, (u8, Instant)>,
    answers: BTreeMap<u8, Answer>,
}

impl Tracer {
    /// The nearest place from which it goes no further.
    fn last(&self) -> Option<u8> {
        let end = |(distance, answer): (&u8, &Answer)| (!answer.is_on_the_way).then_some(*distance);
        self.answers.iter().find_map(end)
    }

    /// Asks those of a wave who have said nothing yet, as far as the way goes, and waits for them.
    fn ask(&mut self, wave: std::ops::RangeInclusive<u8>, attempt: u8) -> io::Result<()> {
        for distance in wave.clone().filter(|distance| !self.answers.contains_key(distance)) {
            if self.last().is_some_and(|last| last < distance) {
                break;
            }
            let port = FIRST_PORT + u16::from(attempt) * u16::from(MAX_HOPS) + u16::from(distance);
            if self.remote.is_ipv6() {
                self.socket.set_unicast_hops_v6(distance.into())?;
            } else {
                self.socket.set_ttl_v4(distance.into())?;
            }
            self.sent.insert(port, (distance, Instant::now()));
            self.send(port)?;
        }
        self.hear(wave, Instant::now() + PATIENCE)
    }

    /// Sends a datagram. What the kernel still has to say of one before comes instead, once.
    fn send(&self, port: u16) -> io::Result<()> {
        let to = SocketAddr::new(self.remote, port).into();
        let send = || self.socket.send_to(&PAYLOAD, &to).map(|_| ());
        send().or_else(|_| send())
    }

    /// Hears answers, until those that are missing can only be of no use.
    fn hear(&mut self, wave: std::ops::RangeInclusive<u8>, end: Instant) -> io::Result<()> {
        loop {
            while let Some((port, answer)) = self.next_answer()? {
                let Some(&(distance, sent_at)) = self.sent.get(&port) else { continue };
                let rtt = Instant::now().saturating_duration_since(sent_at);
                self.answers.entry(distance).or_insert(Answer { rtt, ..answer });
            }
            let last = self.last().unwrap_or(*wave.end()).min(*wave.end());
            let is_complete = (*wave.start()..=last).all(|distance| self.answers.contains_key(&distance));
            let left = end.saturating_duration_since(Instant::now());
            if is_complete || left.is_zero() {
                return Ok(());
            }
            // None at all would be for ever.
            self.socket.set_read_timeout(Some(left.max(SHORTEST)))?;
            // Whatever ends it, there may be an answer: an error is what wakes it, and data that comes says nothing.
            let _ = io::Read::read(&mut &self.socket, &mut [0; 1]);
        }
    }

    /// The next answer that has come, and the port of what it answers.
    fn next_answer(&self) -> io::Result<Option<(u16, Answer)>> {
        loop {
            match next_error(&self.socket) {
                Ok((Some(to), IcmpError { from: Some(from), kind })) => {
                    let is_on_the_way = kind == IcmpKind::Expired;
                    return Ok(Some((to.port(), Answer { from, rtt: Duration::ZERO, is_on_the_way })));
                }
                // This host says so, and nobody on the way.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn finish(self) -> Trace {
        let last = self.last();
        let farthest = last.or_else(|| self.answers.keys().next_back().copied()).unwrap_or(0);
        let hop = |distance: u8| Hop {
            distance,
            answer: self.answers.get(&distance).map(|answer| (answer.from, answer.rtt)),
        };
        let end = match last.and_then(|last| self.answers.get(&last)) {
            Some(answer) if answer.from == self.remote => End::Arrived,
            Some(_) => End::Unreachable,
            None => End::Silent,
        };
        Trace { hops: (1..=farthest).map(hop).collect(), end }
    }
}

#[cfg(test)]
mod tests {
    use psmc_testbed::netns::{Namespace, link_pair};

    use super::*;

    /// Hosts in a row, each a router for those at its sides. The network between two of them has the number of the first.
    fn row(count: u8) -> Vec<Namespace> {
        let hosts: Vec<_> = (0..count).map(|_| Namespace::new().unwrap()).collect();
        for (number, pair) in (0u8..).zip(hosts.windows(2)) {
            link_pair(&pair[0], "right", &pair[1], "left").unwrap();
            for (host, name, end) in [(&pair[0], "right", 1), (&pair[1], "left", 2)] {
                for address in [format!("10.9.{number}.{end}/24"), format!("fd09:{number}::{end}/64")] {
                    host.add_address(name, address.parse().unwrap()).unwrap();
                }
            }
        }
        for (at, host) in (0u8..).zip(&hosts) {
            for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
                host.sysctl(key, "1").unwrap();
            }
            // What is further away lies behind whoever is next to this one on that side.
            for network in 0..count - 1 {
                let gateway = match network {
                    nearer if nearer + 1 < at => at.checked_sub(1).map(|left| (left, 1)),
                    further if further > at => Some((at, 2)),
                    _ => None,
                };
                let Some((between, end)) = gateway else { continue };
                for (net, via) in [
                    (format!("10.9.{network}.0/24"), format!("10.9.{between}.{end}")),
                    (format!("fd09:{network}::/64"), format!("fd09:{between}::{end}")),
                ] {
                    host.add_route(net.parse().unwrap(), via.parse().unwrap()).unwrap();
                }
            }
        }
        hosts
    }

    fn addresses(trace: &Trace) -> Vec<Option<String>> {
        trace.hops.iter().map(|hop| hop.answer.map(|(from, _)| from.to_string())).collect()
    }

    fn some(addresses: &[&str]) -> Vec<Option<String>> {
        addresses.iter().map(|address| Some((*address).to_owned())).collect()
    }

    #[test]
    fn the_way_is_that_of_the_routers_in_either_version() {
        let hosts = row(5);
        for (remote, expected) in [
            ("10.9.3.2", ["10.9.0.2", "10.9.1.2", "10.9.2.2", "10.9.3.2"]),
            ("fd09:3::2", ["fd09::2", "fd09:1::2", "fd09:2::2", "fd09:3::2"]),
        ] {
            let traced = hosts[0].run(|| trace(Some("right"), None, remote.parse().unwrap()).unwrap());
            assert_eq!((addresses(&traced), traced.end), (some(&expected), End::Arrived));
            assert!(traced.hops.iter().all(|hop| hop.answer.is_some_and(|(_, rtt)| rtt < PATIENCE)));
        }
    }

    #[test]
    fn a_way_that_ends_early_is_said_to() {
        let hosts = row(4);
        let to = |remote: &str| {
            let remote = remote.parse().unwrap();
            hosts[0].run(|| trace(Some("right"), None, remote).unwrap())
        };
        // The second one has no way there.
        hosts[0].add_route("192.0.2.0/24".parse().unwrap(), "10.9.0.2".parse().unwrap()).unwrap();
        let traced = to("192.0.2.1");
        assert_eq!((addresses(&traced), traced.end), (some(&["10.9.0.2"]), End::Unreachable));
        // It hands on what the third one takes and says nothing of.
        let rule = "table inet mute { chain in { type filter hook prerouting priority -300; udp dport 33434-33600 drop; }; }";
        let mut command = std::process::Command::new("nft");
        let muted = hosts[2].run(|| command.arg(rule).output()).expect("nft is there: apt install nftables");
        assert!(muted.status.success(), "{muted:?}");
        let traced = to("10.9.2.2");
        assert_eq!((addresses(&traced), traced.end), (some(&["10.9.0.2"]), End::Silent));
    }

    #[test]
    fn without_an_interface_there_is_no_way() {
        let host = Namespace::new().unwrap();
        let error = host.run(|| trace(Some("wlan7"), None, "192.0.2.1".parse().unwrap())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENODEV));
        let error = host.run(|| trace(None, None, "192.0.2.1".parse().unwrap())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENETUNREACH));
    }
}
