//! What smoltcp takes for a network device: a packet in, packets out.

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// A device of one connection.
#[derive(Debug)]
pub(super) struct Port {
    mtu: usize,
    /// What is to be received next.
    pub(super) incoming: Option<Vec<u8>>,
    /// What was sent.
    pub(super) outgoing: VecDeque<Vec<u8>>,
}

impl Port {
    /// A device that carries packets of up to `mtu` bytes.
    pub(super) fn new(mtu: usize) -> Self {
        Self { mtu, incoming: None, outgoing: VecDeque::new() }
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Room<'_>)> {
        let packet = self.incoming.take()?;
        Some((Received(packet), Room(&mut self.outgoing)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Room<'_>> {
        Some(Room(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // A packet that was damaged on its way bears a mark instead.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

/// A packet that has arrived.
pub(super) struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for a packet to be sent.
pub(super) struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}
