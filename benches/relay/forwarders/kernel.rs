//! The kernel's own forwarding: what nobody in user space can beat.

use std::error::Error;
use std::net::SocketAddr;

use super::{Forwarder, Raised};
use crate::lane::{Envelope, Lane, socket};
use crate::network::{FAR, NEAR, Network};

pub(super) struct Kernel;

impl Forwarder for Kernel {
    fn name(&self) -> String {
        "kernel".to_owned()
    }

    fn origin(&self) -> String {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        format!("Linux {}, net.ipv4.ip_forward", release.trim())
    }

    fn raise(&self, network: &Network, sessions: usize) -> Result<Raised, Box<dyn Error>> {
        network.middle.sysctl("net.ipv4.ip_forward", "1")?;
        let lane = |_| -> Result<Lane, Box<dyn Error>> {
            let far = socket(&network.far, FAR, None)?;
            let near =
                socket(&network.near, NEAR, Some(SocketAddr::new(FAR.into(), far.local_addr()?.port())))?;
            Lane::new(near, far, Box::new(Bare))
        };
        let lanes = (0..sessions).map(lane).collect::<Result<_, _>>()?;
        Ok(Raised { processes: Vec::new(), lanes, _parts: Vec::new() })
    }
}

/// Nothing in front.
struct Bare;

impl Envelope for Bare {
    fn len(&self) -> usize {
        0
    }

    fn write(&mut self, _datagram: &mut [u8]) {}
}
