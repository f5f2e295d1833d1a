//! All that passes an interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use psmc_net::packet::PacketPort;
use psmc_testbed::netns::Namespace;

/// The longest frame of an interface without offloading.
const LARGEST_FRAME: usize = 2048;

/// How often what came is taken.
const INTERVAL: Duration = Duration::from_millis(1);

/// Takes all frames that an interface receives.
pub(crate) struct Tap {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Tap {
    pub(crate) fn start(namespace: &Namespace, interface: &str) -> Self {
        let mut port = namespace.run(|| PacketPort::open(interface, LARGEST_FRAME)).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = spawn(move || {
            let mut frames = Vec::new();
            while !end.load(Ordering::Relaxed) {
                while let Some(frame) = port.recv() {
                    frames.push(frame.bytes().to_vec());
                }
                sleep(INTERVAL);
            }
            assert_eq!(port.lost().unwrap(), 0);
            frames
        });
        Self { ended, thread }
    }

    /// The frames, in their order.
    pub(crate) fn finish(self) -> Vec<Vec<u8>> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Whether some bytes have others in them.
pub(crate) fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
