//! Many flows at once.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use super::{Family, Site, Tunnel};

/// Ports and sockets of the flows: a thousand flows in all.
const PORTS: [u16; 4] = [7001, 7002, 7003, 7004];
const SOCKETS: usize = 250;

/// A thousand flows of UDP from the van to the headquarters, of a packet per second each.
pub(crate) struct Flows {
    sources: Vec<UdpSocket>,
    sinks: Vec<UdpSocket>,
}

impl Flows {
    pub(crate) fn prepare(tunnel: &Tunnel) -> Self {
        let bind = |site: &Site, port: u16| UdpSocket::bind((site.inner(Family::V4), port)).unwrap();
        Self {
            sources: tunnel.van.namespace.run(|| (0..SOCKETS).map(|_| bind(&tunnel.van, 0)).collect()),
            sinks: tunnel.hq.namespace.run(|| PORTS.map(|port| bind(&tunnel.hq, port)).into()),
        }
    }

    /// Does something while they flow.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        scope(|scope| {
            // They end even if the work panics.
            let _ends = Ends(&over);
            scope.spawn(|| self.send_until(&over));
            work()
        })
    }

    fn send_until(&self, over: &AtomicBool) {
        let pause = Duration::from_secs(1) / u32::try_from(SOCKETS).unwrap();
        while !over.load(Ordering::Relaxed) {
            for source in &self.sources {
                for sink in &self.sinks {
                    source.send_to(&[0; 200], sink.local_addr().unwrap()).unwrap();
                }
                sleep(pause);
            }
        }
    }
}

/// Says on drop that something is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
