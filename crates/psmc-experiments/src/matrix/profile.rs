//! The pairs of paths that everything is measured on.

use super::trial::Inner;
use psmc_lab::headers;

/// Two paths between two sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Profile {
    /// As `--profile` takes it.
    pub(crate) name: &'static str,
    /// Path A and path B.
    pub(crate) paths: [Path; 2],
}

/// A path: half of its delay in each direction, jitter and loss in the direction of the data, the rate in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path {
    /// The round trip without any queue.
    pub(crate) round_trip_ms: u32,
    /// The standard deviation of the delay, which is normally distributed.
    pub(crate) jitter_ms: u32,
    /// The chance of a packet to get lost.
    pub(crate) loss_percent: f64,
    /// Its rate, headers from IP's on included.
    pub(crate) mbps: u32,
}

impl Profile {
    /// The profile of that name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }
}

impl Path {
    const fn new(round_trip_ms: u32, mbps: u32) -> Self {
        Self { round_trip_ms, jitter_ms: 0, loss_percent: 0.0, mbps }
    }

    const fn jitter(self, jitter_ms: u32) -> Self {
        Self { jitter_ms, ..self }
    }

    const fn loss(self, loss_percent: f64) -> Self {
        Self { loss_percent, ..self }
    }

    /// How many packets its queue holds: its bandwidth-delay product, but never too few for a burst.
    pub(crate) fn queue_packets(self) -> u32 {
        let kilobits = self.mbps * self.round_trip_ms;
        (kilobits * 1000).div_ceil(PACKET_BITS).max(LEAST_QUEUE)
    }

    /// The most that a tunnel can get of such a flow over it, in Mbit/s of payload: its rate without all headers, and
    /// without what gets lost, which took its share of the rate.
    pub(crate) fn capacity_mbps(self, inner: Inner) -> f64 {
        let payload = headers::PACKET - headers::TUNNEL - inner.headers();
        let arrives = 1.0 - self.loss_percent / 100.0;
        f64::from(self.mbps) * arrives * f64::from(payload) / f64::from(headers::PACKET)
    }

    /// The settings of its link, as a scenario takes them.
    pub(crate) fn link_settings(self) -> String {
        let mut settings = format!(
            "rate = \"{}mbit\"\ndelay = \"{}ms\"\nqueue = \"{} packets\"\n",
            self.mbps,
            f64::from(self.round_trip_ms) / 2.0,
            self.queue_packets()
        );
        if self.jitter_ms > 0 {
            settings += &format!("forward.jitter = \"{}ms\"\n", self.jitter_ms);
        }
        if self.loss_percent > 0.0 {
            settings += &format!("forward.loss = \"{}%\"\n", self.loss_percent);
        }
        settings
    }
}

/// From two lines as good as each other to two that are hard to use even by themselves.
pub(crate) const PROFILES: [Profile; 13] = [
    alike("baseline", Path::new(20, 50)),
    Profile { name: "rtt_40", paths: [Path::new(20, 50), Path::new(40, 50)] },
    Profile { name: "rtt_120", paths: [Path::new(20, 50), Path::new(120, 50)] },
    alike("jit_5", Path::new(20, 50).jitter(5)),
    alike("loss_05", Path::new(20, 50).loss(0.5)),
    alike("loss_2", Path::new(20, 50).loss(2.0)),
    Profile { name: "bw_4to1", paths: [Path::new(20, 50), Path::new(20, 12)] },
    Profile {
        name: "dual_lte",
        paths: [Path::new(30, 40).jitter(5).loss(0.5), Path::new(45, 25).jitter(8).loss(0.5)],
    },
    Profile { name: "fiber_lte", paths: [Path::new(8, 300), Path::new(40, 30).jitter(8).loss(0.5)] },
    Profile {
        name: "congested",
        paths: [Path::new(50, 20).jitter(20).loss(2.0), Path::new(60, 15).jitter(25).loss(2.0)],
    },
    Profile { name: "lte_sat", paths: [Path::new(35, 40).jitter(8), Path::new(55, 90).jitter(20).loss(1.0)] },
    Profile { name: "far", paths: [Path::new(20, 50), Path::new(300, 50)] },
    alike("wild", Path::new(20, 50).jitter(15)),
];

const fn alike(name: &'static str, path: Path) -> Profile {
    Profile { name, paths: [path, path] }
}

/// The packets that fill queues are full-size ones.
const PACKET_BITS: u32 = headers::PACKET * 8;

/// A bandwidth-delay product of a slow or near path is less than one burst of a sender with segmentation offload.
const LEAST_QUEUE: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of profiles as it is given to everybody who compares with it.
    const TABLE: &str = "
        baseline | 20 ms, 50 Mb/s | 20 ms, 50 Mb/s
        rtt_40 | 20 ms, 50 Mb/s | 40 ms, 50 Mb/s
        rtt_120 | 20 ms, 50 Mb/s | 120 ms, 50 Mb/s
        jit_5 | 20 ± 5 ms, 50 Mb/s | 20 ± 5 ms, 50 Mb/s
        loss_05 | 20 ms, 0.5 % loss, 50 Mb/s | 20 ms, 0.5 % loss, 50 Mb/s
        loss_2 | 20 ms, 2 % loss, 50 Mb/s | 20 ms, 2 % loss, 50 Mb/s
        bw_4to1 | 20 ms, 50 Mb/s | 20 ms, 12 Mb/s
        dual_lte | 30 ± 5 ms, 0.5 % loss, 40 Mb/s | 45 ± 8 ms, 0.5 % loss, 25 Mb/s
        fiber_lte | 8 ms, 300 Mb/s | 40 ± 8 ms, 0.5 % loss, 30 Mb/s
        congested | 50 ± 20 ms, 2 % loss, 20 Mb/s | 60 ± 25 ms, 2 % loss, 15 Mb/s
        lte_sat | 35 ± 8 ms, 40 Mb/s | 55 ± 20 ms, 1 % loss, 90 Mb/s
        far | 20 ms, 50 Mb/s | 300 ms, 50 Mb/s
        wild | 20 ± 15 ms, 50 Mb/s | 20 ± 15 ms, 50 Mb/s";

    fn words(path: Path) -> String {
        let jitter = if path.jitter_ms > 0 { format!(" ± {}", path.jitter_ms) } else { String::new() };
        let loss =
            if path.loss_percent > 0.0 { format!(", {} % loss", path.loss_percent) } else { String::new() };
        format!("{}{jitter} ms{loss}, {} Mb/s", path.round_trip_ms, path.mbps)
    }

    #[test]
    fn the_profiles_are_those_of_the_table() {
        let lines =
            PROFILES.map(|Profile { name, paths: [a, b] }| format!("{name} | {} | {}", words(a), words(b)));
        let table: Vec<_> = TABLE.trim().lines().map(str::trim).collect();
        assert_eq!(lines.to_vec(), table);
    }

    #[test]
    fn a_queue_holds_a_bandwidth_delay_product() {
        let queue = |round_trip_ms, mbps| Path::new(round_trip_ms, mbps).queue_packets();
        assert_eq!([queue(20, 50), queue(120, 50), queue(8, 300), queue(20, 12)], [84, 500, 200, 64]);
    }

    #[test]
    fn a_path_carries_its_rate_without_headers_and_losses() {
        let path = Path::new(20, 100);
        // 1500 bytes on the link are 1381 of TCP's payload.
        let expected = 100.0 * 1381.0 / 1500.0;
        assert!((path.capacity_mbps(Inner::Cubic) - expected).abs() < 1e-9);
        assert!((path.loss(2.0).capacity_mbps(Inner::Bbr) - 0.98 * expected).abs() < 1e-9);
        assert!(path.capacity_mbps(Inner::Quic) < expected);
    }

    #[test]
    fn chance_acts_on_the_data_only() {
        let settings = Path::new(45, 25).jitter(8).loss(0.5).link_settings();
        let expected = "rate = \"25mbit\"\ndelay = \"22.5ms\"\nqueue = \"94 packets\"\n\
                        forward.jitter = \"8ms\"\nforward.loss = \"0.5%\"\n";
        assert_eq!(settings, expected);
    }
}
