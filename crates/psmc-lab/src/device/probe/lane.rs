//! Ports, and how packets find their way from one to another through the device.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ipnet::Ipv4Net;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use psmc_net::packet::{Card, ETHERNET_HEADER, Meter, PacketPort, VLAN_TAG};

use super::ProbeError;
use super::frame::{self, Address, PORT, Probe};

/// How often the device is asked for its hardware address, and how long it has for each answer.
const ARP_TRIES: usize = 3;
const ARP_PATIENCE: Duration = Duration::from_millis(700);

/// How long a port has to see what is at its other end: the kernel looks once a second. And how often we ask.
const CARRIER_PATIENCE: Duration = Duration::from_secs(2);
const CARRIER_PAUSE: Duration = Duration::from_millis(50);

/// How often each port sends to each other one before anything is measured, so that the device knows all of them, and how long
/// after each.
const WARM_UPS: usize = 3;
const WARM_UP_PAUSE: Duration = Duration::from_millis(100);

/// A port.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) meter: Meter,
    pub(super) name: String,
    own: Address,
    /// The hardware address of the router there; none if the device is a switch, or a cable.
    gateway: Option<[u8; 6]>,
}

/// All ports.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    /// The number of the next trial.
    pub(super) trial: u32,
}

/// What the kernel says of ports, if they can be used for packets of these lengths.
pub(super) fn cards(ports: &[String], sizes: &[usize]) -> Result<Vec<Card>, ProbeError> {
    if ports.len() < 2 || ports.iter().collect::<BTreeSet<_>>().len() < ports.len() {
        return Err(ProbeError::Ports);
    }
    let mut cards = known(ports)?;
    let end = Instant::now() + CARRIER_PATIENCE;
    while cards.iter().any(|card| !card.is_running) && Instant::now() < end {
        std::thread::sleep(CARRIER_PAUSE);
        cards = known(ports)?;
    }
    if let Some(down) = cards.iter().find(|card| !card.is_running) {
        return Err(ProbeError::Down(down.name.clone()));
    }
    let longest = sizes.last().copied().unwrap_or(0);
    match cards.iter().find(|card| card.mtu < longest) {
        Some(card) => Err(ProbeError::Mtu { port: card.name.clone(), mtu: card.mtu, bytes: longest }),
        None => Ok(cards),
    }
}

fn known(ports: &[String]) -> Result<Vec<Card>, ProbeError> {
    Ok(ports.iter().map(|name| Card::named(name)).collect::<Result<_, _>>()?)
}

/// Bits per second of the slowest port, unless the user knows.
pub(super) fn rate(cards: &[Card], given: Option<u64>) -> Result<u64, ProbeError> {
    if let Some(rate) = given {
        return Ok(rate);
    }
    let rates = cards.iter().map(|card| card.rate.ok_or_else(|| ProbeError::NoRate(card.name.clone())));
    let rates = rates.collect::<Result<Vec<_>, _>>()?;
    Ok(rates.into_iter().min().unwrap_or(0))
}

impl Lane {
    /// A port with a cable, or a switch.
    pub(super) fn beside_cable(card: &Card) -> Result<Self, ProbeError> {
        let own = Address { hardware: card.hardware, ip: Ipv4Addr::new(198, 18, 0, 1) };
        let meter = Meter::open(&card.name, PORT)?;
        Ok(Self { meter, name: card.name.clone(), own, gateway: None })
    }

    /// A port with a router, whose address there is known.
    fn beside_router(card: &Card, ip: Ipv4Addr, gateway: Ipv4Addr) -> Result<Self, ProbeError> {
        let own = Address { hardware: card.hardware, ip };
        let hardware = resolve(card, own, gateway)?;
        let meter = Meter::open(&card.name, PORT)?;
        Ok(Self { meter, name: card.name.clone(), own, gateway: Some(hardware) })
    }
}

impl Lanes {
    pub(super) fn of(mut lanes: Vec<Lane>) -> Self {
        // Those of switches and cables get addresses of the range for such measurements (RFC 2544 §C.2.2).
        for (lane, number) in lanes.iter_mut().zip(1..).filter(|(lane, _)| lane.gateway.is_none()) {
            lane.own.ip = Ipv4Addr::new(198, 18, 0, number);
        }
        Self { lanes, trial: 0 }
    }

    /// The device is a router if the ports have addresses, and a switch if none has.
    pub(super) fn open(cards: Vec<Card>, gateways: &[Ipv4Addr]) -> Result<Self, ProbeError> {
        if cards.iter().all(|card| card.address.is_none()) && gateways.is_empty() {
            let lanes = cards.iter().map(Lane::beside_cable);
            return Ok(Self::of(lanes.collect::<Result<_, _>>()?));
        }
        if !gateways.is_empty() && gateways.len() != cards.len() {
            return Err(ProbeError::Gateways { ports: cards.len(), gateways: gateways.len() });
        }
        let mut networks: Vec<Ipv4Net> = Vec::new();
        let mut lanes = Vec::new();
        for (index, card) in cards.iter().enumerate() {
            let (ip, prefix) = card.address.ok_or_else(|| ProbeError::Addresses(card.name.clone()))?;
            let network = Ipv4Net::new_assert(ip, prefix.min(32));
            if let Some(other) = networks.iter().position(|other| other.contains(&ip)) {
                return Err(ProbeError::OneNetwork(cards[other].name.clone(), card.name.clone()));
            }
            networks.push(network);
            let gateway = gateways.get(index).copied().or_else(|| network.hosts().find(|host| *host != ip));
            lanes.push(Lane::beside_router(card, ip, gateway.unwrap_or(ip))?);
        }
        Ok(Self::of(lanes))
    }

    /// A frame of a stream.
    pub(super) fn template(&self, [input, output]: [usize; 2], len: usize, probe: Probe) -> Vec<u8> {
        let (from, to) = (&self.lanes[input], &self.lanes[output]);
        let hardware = from.gateway.unwrap_or(to.own.hardware);
        frame::template(from.own, Address { hardware, ip: to.own.ip }, len, probe)
    }

    /// Lets the device learn where everybody is.
    pub(super) fn warm_up(&mut self) -> Result<(), ProbeError> {
        let (trial, count) = (self.trial, self.lanes.len());
        self.trial += 1;
        for _ in 0..WARM_UPS {
            for (input, output) in (0..count).flat_map(|input| (0..count).map(move |output| (input, output)))
            {
                if input != output {
                    let frame = self.template([input, output], 46, Probe { trial, stream: 0, number: 0 });
                    self.send(input, &[IoSlice::new(&frame)])?;
                }
            }
            std::thread::sleep(WARM_UP_PAUSE);
        }
        Ok(())
    }

    fn send(&self, input: usize, frames: &[IoSlice<'_>]) -> Result<(), ProbeError> {
        let lane = &self.lanes[input];
        match lane.meter.send(frames) {
            taken if taken == frames.len() => Ok(()),
            taken => Err(ProbeError::Refused {
                port: lane.name.clone(),
                refused: frames.len() - taken,
                sent: frames.len(),
            }),
        }
    }
}

/// Asks for the hardware address of the router at a port.
fn resolve(card: &Card, own: Address, gateway: Ipv4Addr) -> Result<[u8; 6], ProbeError> {
    let mut port = PacketPort::open(&card.name, ETHERNET_HEADER + VLAN_TAG + card.mtu)?;
    let request = frame::arp_request(own, gateway);
    for _ in 0..ARP_TRIES {
        let _ = port.send(&[IoSlice::new(&request)]);
        let end = Instant::now() + ARP_PATIENCE;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            while let Some(frame) = port.recv() {
                if let Some(hardware) = frame::arp_answer(frame.bytes(), gateway) {
                    return Ok(hardware);
                }
            }
            let patience = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            // An interrupted wait is a short one.
            let _ = poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], patience);
        }
    }
    Err(ProbeError::Unanswered { port: card.name.clone(), gateway })
}
