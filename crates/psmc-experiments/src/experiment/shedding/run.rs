//! A network in motion, and what is seen of it.

use std::time::Duration;

use psmc_sim::crowd::{Control, Crowd, CrowdSetup, Kind, Packet, Seen};

use super::{literature, ours};

/// Who sheds load upstream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    /// Nobody.
    None,
    Seed(literature::Parameters),
    Ours(ours::Parameters),
}

/// What servers have seen: for each window each server, of TCP and UDP.
pub(super) struct Course {
    windows: Vec<Vec<[Seen; 2]>>,
}

/// What is counted together.
pub(super) const WINDOW: Duration = Duration::from_millis(200);

const WINDOWS_PER_SECOND: usize = 5;

const SETTLED: usize = 10;

impl Course {
    /// So many seconds of a network.
    pub(super) fn play(setup: CrowdSetup, method: Method, seconds: u32, seed: u64) -> Self {
        let accepted = setup.servers.clone();
        match method {
            Method::None => play(setup, Nobody, seconds, seed),
            Method::Seed(parameters) => {
                play(setup, literature::NetDraino::new(parameters, &accepted, seed), seconds, seed)
            }
            Method::Ours(parameters) => {
                play(setup, ours::Shedding::new(parameters, &accepted, seed), seconds, seed)
            }
        }
    }

    /// How many seconds there are.
    pub(super) fn seconds(&self) -> usize {
        self.windows.len() / WINDOWS_PER_SECOND
    }

    /// From which second on is measured: by then what starts at the begin has settled, or half of a short course is over.
    pub(super) fn settled(&self) -> usize {
        SETTLED.min(self.seconds() / 2)
    }

    /// What all servers have accepted per second once it has settled.
    pub(super) fn throughput(&self) -> f64 {
        let from = self.settled();
        let windows = self.windows.iter().skip(from * WINDOWS_PER_SECOND);
        let accepted = windows.flatten().flatten().map(|seen| seen.accepted as f64).sum::<f64>();
        accepted / (self.seconds() - from) as f64
    }

    /// What has arrived at the overloaded server, and what it has accepted, per second, between two seconds.
    pub(super) fn first_server(&self, from: usize, until: usize) -> (f64, f64) {
        let windows = &self.windows[from * WINDOWS_PER_SECOND..until * WINDOWS_PER_SECOND];
        let seconds = (until - from) as f64;
        let mut sums = (0.0, 0.0);
        for seen in windows.iter().flat_map(|servers| servers[0]) {
            sums.0 += seen.arrived as f64 / seconds;
            sums.1 += seen.accepted as f64 / seconds;
        }
        sums
    }

    /// What it has accepted of UDP per second, between two seconds.
    pub(super) fn udp_of_first_server(&self, from: usize, until: usize) -> f64 {
        let windows = &self.windows[from * WINDOWS_PER_SECOND..until * WINDOWS_PER_SECOND];
        let accepted: u64 = windows.iter().map(|servers| servers[0][Kind::Udp as usize].accepted).sum();
        accepted as f64 / (until - from) as f64
    }
}

fn play<C: Control>(setup: CrowdSetup, control: C, seconds: u32, seed: u64) -> Course {
    let mut crowd = Crowd::new(setup, control, seed);
    let windows = u32::try_from(WINDOWS_PER_SECOND).unwrap_or(0) * seconds;
    Course { windows: (1..=windows).map(|window| crowd.play(WINDOW * window)).collect() }
}

struct Nobody;

impl Control for Nobody {
    type Tag = ();

    fn admit(&mut self, _packet: &Packet<()>, _now: Duration) -> bool {
        true
    }

    fn leave(&mut self, _packet: &mut Packet<()>, _queue: usize, _now: Duration) {}

    fn come(&mut self, _packet: &Packet<()>, _is_accepted: bool, _now: Duration) {}

    fn acknowledged(&mut self, _packet: &Packet<()>, _now: Duration) {}

    fn tick(&mut self, _now: Duration) {}
}
