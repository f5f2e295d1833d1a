//! What arrives on interfaces, counted for each service.
//!
//! A packet socket with a ring of the kernel's takes the heads of packets as they arrive, before any filter. It is
//! emptied at each sample. A ring holds what some 400,000 packets a second bring between two samples; of a larger flood it has
//! a part, and the kernel counts the rest, so that what a flood costs here is bounded, and counts become estimates.

pub mod packet;
mod sources;

use std::fs;
use std::time::Duration;

use psmc_net::packet::{PacketError, PacketPort};
use psmc_toml::InterfaceName;

use crate::config::Service;
use crate::detect::{Sample, Signal};
use packet::{Link, PacketHead};
use sources::SourceMemory;

/// Bytes of a packet that are looked at: Ethernet, IPv6 with a few extension headers, TCP.
const HEAD: usize = 128;

/// Packets of a sample at most, so that it ends however fast more come: more than the ring holds.
const MAX_PACKETS: u32 = 50_000;

/// Watches interfaces for services.
///
/// Call [`Observer::sample`] at regular times. An interface that is down or gone counts nothing until it is opened anew with
/// [`Observer::reopen`].
#[derive(Debug)]
pub struct Observer {
    lines: Vec<Line>,
    services: Vec<Metered>,
    seen: u64,
    missed: u64,
}

#[derive(Debug)]
struct Line {
    interface: InterfaceName,
    link: Link,
    port: Option<PacketPort>,
}

/// What has arrived for a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Per second.
    pub sample: Sample,
    /// The place of the target that most packets were for; `None` if there were none.
    pub busiest: Option<usize>,
}

#[derive(Debug)]
struct Metered {
    service: Service,
    sources: SourceMemory,
    /// Packets that were seen for each of its targets.
    by_target: Vec<u64>,
    /// Of the port that is being emptied.
    tally: Tally,
}

/// Packets and what they were, as often as they were seen or are estimated to have come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    packets: f64,
    bytes: f64,
    syns: f64,
    new_sources: f64,
}

impl Observer {
    /// Opens the interfaces.
    ///
    /// # Errors
    /// [`PacketError`], where one cannot be watched.
    pub fn open(interfaces: &[InterfaceName], services: &[Service]) -> Result<Self, PacketError> {
        let mut lines = Vec::new();
        for interface in interfaces {
            let port = PacketPort::open(interface.as_str(), HEAD)?;
            lines.push(Line { interface: interface.clone(), link: link_of(interface), port: Some(port) });
        }
        Ok(Self { lines, services: services.iter().map(Metered::new).collect(), seen: 0, missed: 0 })
    }

    /// What has arrived since the last call, which was `elapsed` ago, for each service in the order of the configuration.
    pub fn sample(&mut self, elapsed: Duration) -> Vec<Observed> {
        let mut sums = vec![Tally::default(); self.services.len()];
        for line in &mut self.lines {
            let Some(port) = &mut line.port else { continue };
            let seen = empty(port, line.link, &mut self.services);
            let Some(missed) = missed(port) else {
                line.port = None;
                continue;
            };
            self.seen += u64::from(seen);
            self.missed += u64::from(missed);
            let share = 1.0 + f64::from(missed) / f64::from(seen.max(1));
            for (sum, watched) in sums.iter_mut().zip(&mut self.services) {
                sum.add(&std::mem::take(&mut watched.tally), share);
            }
        }
        for watched in &mut self.services {
            watched.sources.age(elapsed);
        }
        let observed = |(sum, watched): (&Tally, &mut Metered)| Observed {
            sample: sum.per_second(elapsed),
            busiest: watched.take_busiest(),
        };
        sums.iter().zip(&mut self.services).map(observed).collect()
    }

    /// Opens the interfaces anew that were lost; says which are there again.
    pub fn reopen(&mut self) -> Vec<InterfaceName> {
        let mut back = Vec::new();
        for line in self.lines.iter_mut().filter(|line| line.port.is_none()) {
            // One that is still down says so at once.
            let port = PacketPort::open(line.interface.as_str(), HEAD).ok();
            if let Some(port) = port.filter(|port| missed(port).is_some()) {
                (line.link, line.port) = (link_of(&line.interface), Some(port));
                back.push(line.interface.clone());
            }
        }
        back
    }

    /// Interfaces that cannot be watched at present.
    pub fn blind(&self) -> impl Iterator<Item = &InterfaceName> {
        self.lines.iter().filter(|line| line.port.is_none()).map(|line| &line.interface)
    }

    /// Packets that were looked at, and those that were only counted, since the start.
    #[must_use]
    pub fn packets(&self) -> (u64, u64) {
        (self.seen, self.missed)
    }
}

/// Takes what waits in the ring of a port, and says how many packets that were.
fn empty(port: &mut PacketPort, link: Link, services: &mut [Metered]) -> u32 {
    let mut seen = 0;
    while seen < MAX_PACKETS
        && let Some(frame) = port.recv()
    {
        seen += 1;
        if let Some(arrival) = PacketHead::parse(link, frame.bytes()) {
            count(&arrival, services);
        }
    }
    seen
}

fn count(arrival: &PacketHead, services: &mut [Metered]) {
    for watched in services {
        if let Some(target) = watched.service.target_of(arrival) {
            watched.count(arrival, target);
        }
    }
}

/// Packets that found no room in the ring; `None` where the interface is down, or gone, which look alike from here.
fn missed(port: &PacketPort) -> Option<u32> {
    let is_well = matches!(port.take_error(), Ok(None));
    if is_well { port.lost().ok() } else { None }
}

/// Tunnels and the like have no Ethernet header. Where sysfs does not know an interface, it most likely has one.
fn link_of(interface: &InterfaceName) -> Link {
    let kind = fs::read_to_string(format!("/sys/class/net/{interface}/type")).unwrap_or_default();
    match kind.trim() {
        // ARPHRD_PPP, ARPHRD_TUNNEL, ARPHRD_TUNNEL6, ARPHRD_SIT, ARPHRD_IPGRE, ARPHRD_RAWIP, ARPHRD_NONE
        "512" | "768" | "769" | "776" | "778" | "519" | "65534" => Link::Ip,
        _ => Link::Ethernet,
    }
}

impl Service {
    /// The place of the target that a packet is for. What has no port, such as ICMP and later fragments, is for all ports.
    fn target_of(&self, arrival: &PacketHead) -> Option<usize> {
        let is_meant = self.ports.is_empty() || arrival.port.is_none_or(|port| self.ports.contains(&port));
        let target = self.targets.iter().position(|target| target.contains(&arrival.destination));
        target.filter(|_| is_meant)
    }
}

impl Metered {
    fn new(service: &Service) -> Self {
        let by_target = vec![0; service.targets.len()];
        Self { service: service.clone(), sources: SourceMemory::new(), by_target, tally: Tally::default() }
    }

    /// The target that most packets were for since this was last asked.
    fn take_busiest(&mut self) -> Option<usize> {
        let counted = self.by_target.iter_mut().map(std::mem::take).enumerate();
        counted.filter(|(_, packets)| *packets > 0).max_by_key(|(_, packets)| *packets).map(|(at, _)| at)
    }

    fn count(&mut self, arrival: &PacketHead, target: usize) {
        self.by_target[target] += 1;
        self.tally.packets += 1.0;
        self.tally.bytes += f64::from(arrival.length);
        self.tally.syns += f64::from(u8::from(arrival.is_syn));
        self.tally.new_sources += f64::from(u8::from(self.sources.is_new(arrival.source)));
    }
}

impl Tally {
    fn add(&mut self, other: &Self, share: f64) {
        self.packets += other.packets * share;
        self.bytes += other.bytes * share;
        self.syns += other.syns * share;
        self.new_sources += other.new_sources * share;
    }

    fn per_second(&self, elapsed: Duration) -> Sample {
        let seconds = elapsed.as_secs_f64().max(MIN_SECONDS);
        let mut sample = Sample::default();
        sample.set(Signal::Packets, self.packets / seconds);
        sample.set(Signal::Bits, self.bytes * 8.0 / seconds);
        sample.set(Signal::Syns, self.syns / seconds);
        sample.set(Signal::NewSources, self.new_sources / seconds);
        sample
    }
}

/// A sample is never so short: nothing is divided by zero.
const MIN_SECONDS: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::packet::Source;
    use super::*;
    use crate::detect::Policy;

    fn watched(targets: &[&str], ports: &[u16]) -> Metered {
        Metered::new(&Service {
            name: "www.example.com".to_owned(),
            targets: targets.iter().map(|target| target.parse().unwrap()).collect(),
            ports: ports.to_vec(),
            policy: Policy::default(),
        })
    }

    fn arrival(destination: &str, port: Option<u16>) -> PacketHead {
        let destination = destination.parse().unwrap();
        PacketHead { source: Source::V4([192, 0, 2, 1]), destination, port, length: 100, is_syn: true }
    }

    #[test]
    fn a_packet_counts_for_each_service_that_it_is_for() {
        let mut services = [
            watched(&["203.0.113.10/32", "2001:db8::/64"], &[443]),
            watched(&["203.0.113.0/24"], &[]),
            watched(&["198.51.100.0/24"], &[]),
        ];
        for (destination, port) in [
            ("203.0.113.10", Some(443)),
            ("203.0.113.10", Some(80)),
            ("203.0.113.10", None),
            ("2001:db8::5", Some(443)),
        ] {
            count(&arrival(destination, port), &mut services);
        }
        assert_eq!(services.each_ref().map(|watched| watched.tally.packets), [3.0, 3.0, 0.0]);
        // One source, twice: what it is new to is each service.
        assert_eq!(services.each_ref().map(|watched| watched.tally.new_sources), [1.0, 1.0, 0.0]);
        assert_eq!(services[0].tally.bytes, 300.0);
        // Two to the first target, one to the second.
        assert_eq!(services.each_mut().map(Metered::take_busiest), [Some(0), Some(0), None]);
        count(&arrival("2001:db8::5", Some(443)), &mut services);
        assert_eq!(services[0].take_busiest(), Some(1));
    }

    /// A flood that gives each address of a prefix no more than a visitor is as large for the prefix as any other.
    #[test]
    fn a_carpet_over_a_prefix_is_one_flood() {
        let mut services = [watched(&["203.0.113.0/24"], &[]), watched(&["203.0.113.10/32"], &[])];
        for host in 0..=255 {
            for _ in 0..10 {
                count(&arrival(&format!("203.0.113.{host}"), Some(443)), &mut services);
            }
        }
        assert_eq!(services.each_ref().map(|watched| watched.tally.syns), [2560.0, 10.0]);
    }

    #[test]
    fn what_was_missed_is_estimated() {
        let tally = Tally { packets: 100.0, bytes: 5000.0, syns: 50.0, new_sources: 10.0 };
        let mut sum = Tally::default();
        sum.add(&tally, 4.0);
        let sample = sum.per_second(Duration::from_millis(100));
        let values = [Signal::Packets, Signal::Bits, Signal::Syns, Signal::NewSources]
            .map(|signal| sample.get(signal));
        assert_eq!(values, [Some(4000.0), Some(1_600_000.0), Some(2000.0), Some(400.0)]);
        assert_eq!(sample.get(Signal::Loss), None);
    }
}
