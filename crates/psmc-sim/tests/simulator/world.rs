//! Small worlds, and what is seen in them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_core::{
    CongestionConfig, PathConfig, PeerConfig, ReorderPolicy, SchedulerKind, SiteConfig, SocketId, Tier,
};
use psmc_sim::link::{LinkConfig, Loss, Probability, QueueLimit, Rate};
use psmc_sim::{
    CongestionControl, HostId, Identity, LinkEnd, LinkId, LinkSetup, PathSetup, PeerSetup, Seen, SiteId,
    SiteSetup, TrafficId, TrafficKind, TrafficSetup, World,
};
use psmc_wire::crypto::Aead;

/// What runs with these seeds result in, in their order. As many are under way as there are processors.
pub(crate) fn side_by_side<T: Send>(seeds: RangeInclusive<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let left = Mutex::new(seeds);
    let run_on = || {
        let next = || left.lock().expect("nobody panics with it").next();
        std::iter::from_fn(next).map(|seed| (seed, run(seed))).collect::<Vec<_>>()
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let mut results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(run_on)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it runs")).collect()
    });
    results.sort_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Where sites listen.
pub(crate) const LISTEN: u16 = 5115;

pub(crate) fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub(crate) fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

/// A direction of so many Mb/s and so much delay, with a queue of `queue` packets.
pub(crate) fn direction(mbit: u64, delay: Duration, queue: usize) -> LinkConfig {
    let rate = Rate::Fixed(mbit * 1_000_000);
    LinkConfig { rate, delay, queue: QueueLimit::Packets(queue), ..LinkConfig::default() }
}

/// The same with random loss.
pub(crate) fn lossy(config: LinkConfig, percent: f64) -> LinkConfig {
    let chance = Probability::new(percent / 100.0).expect("a chance");
    LinkConfig { loss: Loss::Random(chance), ..config }
}

/// What was seen of a stream of traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    pub(crate) sent: u64,
    pub(crate) begun: u64,
    pub(crate) arrived: u64,
    pub(crate) late: u64,
    pub(crate) done: bool,
    pub(crate) broken: u64,
    pub(crate) delays: Vec<Duration>,
    pub(crate) longest_gap: Duration,
    /// Since the start of the world.
    last: Option<Duration>,
}

/// A world with what was seen in it so far.
pub(crate) struct Lab {
    pub(crate) world: World,
    pub(crate) start: Instant,
    pub(crate) tallies: BTreeMap<TrafficId, Tally>,
}

impl Lab {
    pub(crate) fn new(seed: u64) -> Self {
        let start = Instant::now();
        Self { world: World::new(seed, start), start, tallies: BTreeMap::new() }
    }

    /// A link between two hosts.
    pub(crate) fn link(&mut self, ends: [(HostId, &str); 2], directions: [LinkConfig; 2]) -> LinkId {
        let ends = ends.map(|(host, address)| LinkEnd { host, addresses: vec![net(address)] });
        self.world.add_link(LinkSetup { ends, directions })
    }

    pub(crate) fn traffic(
        &mut self,
        kind: TrafficKind,
        from: HostId,
        to: HostId,
        address: &str,
        span: [Duration; 2],
    ) -> TrafficId {
        let [start, stop] = span.map(|time| self.start + time);
        self.world.add_traffic(TrafficSetup { kind, from, to, address: ip(address), start, stop })
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.world.run_until(end.min(self.world.now() + ms(100)));
            self.look();
        }
    }

    fn look(&mut self) {
        while let Some(observation) = self.world.poll_observation() {
            let at = observation.at - self.start;
            let tally = self.tallies.entry(observation.traffic).or_default();
            match observation.what {
                Seen::Delivered(bytes) => {
                    tally.bytes += bytes;
                    let since = tally.last.map_or(Duration::ZERO, |last| at - last);
                    tally.longest_gap = tally.longest_gap.max(since);
                    tally.last = Some(at);
                }
                Seen::Sent => tally.sent += 1,
                Seen::Arrived { sent_at, late } => {
                    tally.arrived += 1;
                    tally.late += u64::from(late);
                    tally.delays.push(observation.at - sent_at);
                }
                Seen::Begun { .. } => tally.begun += 1,
                Seen::Done => tally.done = true,
                Seen::Broken => tally.broken += 1,
            }
        }
    }

    pub(crate) fn tally(&self, traffic: TrafficId) -> Tally {
        self.tallies.get(&traffic).cloned().unwrap_or_default()
    }

    /// What a stream delivers in Mb/s while the world runs for this time.
    pub(crate) fn goodput(&mut self, traffic: TrafficId, time: Duration) -> f64 {
        let before = self.tally(traffic).bytes;
        self.run_for(time);
        (self.tally(traffic).bytes - before) as f64 * 8.0 / 1e6 / time.as_secs_f64()
    }

    /// Starts two sites with a path for each link, the first of which opens the paths.
    pub(crate) fn tunnel(&mut self, hosts: [HostId; 2], links: &[LinkId], number: u8) -> [SiteId; 2] {
        self.tunnel_of(hosts, links, number, |_| {})
    }

    /// The same, with other settings.
    pub(crate) fn tunnel_of(
        &mut self,
        hosts: [HostId; 2],
        links: &[LinkId],
        number: u8,
        adjust: impl Fn(&mut PeerSetup),
    ) -> [SiteId; 2] {
        let sites = [0, 1].map(|end| {
            let mut setup = site_setup(hosts, links, number, end);
            setup.peers.iter_mut().for_each(&adjust);
            self.world.add_site(setup)
        });
        for site in sites {
            self.world.start_site(site).expect("a good setup");
        }
        sites
    }
}

/// The address of an end of a tunnel, and of a link between two sites.
pub(crate) fn tunnel_address(number: u8, end: usize) -> String {
    format!("10.77.{number}.{}", end + 1)
}

pub(crate) fn link_address(number: u8, end: usize) -> String {
    format!("10.{number}.0.{}", end + 1)
}

pub(crate) fn site_setup(hosts: [HostId; 2], links: &[LinkId], number: u8, end: usize) -> SiteSetup {
    let identity = |end: usize| Identity(2 * u64::from(number) + end as u64);
    let paths = links.iter().enumerate().filter(|_| end == 0).map(|(index, &link)| PathSetup {
        config: path_config(index),
        link: Some(link),
        address: None,
    });
    let peer = PeerSetup {
        identity: identity(1 - end),
        config: peer_config(number, end),
        endpoint: None,
        paths: paths.collect(),
    };
    SiteSetup {
        host: hosts[end],
        identity: identity(end),
        config: SiteConfig {
            name: format!("site{number}.{end}"),
            software: "simulator".to_owned(),
            mtu: 1400,
            aead: Aead::Aes256Gcm,
            hidden: false,
            broadcasts: Vec::new(),
            classes: psmc_core::ClassConfig::defaults(),
            clamp_mss: psmc_core::ClampMss::Auto,
            key_limits: psmc_core::KeyLimits::default(),
            seed: [0; 32],
        },
        addresses: vec![net(&format!("{}/24", tunnel_address(number, end)))],
        listen: LISTEN,
        peers: vec![peer],
    }
}

fn peer_config(number: u8, end: usize) -> PeerConfig {
    PeerConfig {
        name: format!("peer{number}.{end}"),
        allowed_ips: vec![net(&format!("{}/32", tunnel_address(number, 1 - end)))],
        gateway: psmc_core::Gateway::default(),
        can_dial: end == 0,
        smaller_key: end == 0,
        scheduler: SchedulerKind::Earliest,
        reorder: ReorderPolicy::Deadline,
        ordered_udp: false,
        repair: psmc_core::RepairKind::Auto,
        split: false,
        bad_path_rule: false,
        udp_rate_limit: None,
        keepalive: secs(10),
    }
}

pub(crate) fn path_config(index: usize) -> PathConfig {
    let link = u8::try_from(index).expect("few paths") + 1;
    PathConfig {
        name: format!("link{index}"),
        socket: SocketId(0),
        remote: SocketAddr::new(ip(&link_address(link, 1)), LISTEN),
        weight: 1,
        tier: Tier::Primary,
        direction: psmc_core::Direction::Both,
        max_rate: None,
        mtu: 1500,
        congestion: CongestionConfig::Model,
    }
}

/// Bulk transfer by one connection, without end.
pub(crate) fn bulk() -> TrafficKind {
    TrafficKind::Tcp { congestion_control: CongestionControl::Cubic, flows: 1, bytes: None, buffer: 4 << 20 }
}

/// Two hosts with a link for each pair of directions between them: `10.1.0.1` to `10.1.0.2`, `10.2.0.1` …
pub(crate) fn pair(seed: u64, links: &[[LinkConfig; 2]]) -> (Lab, [HostId; 2], Vec<LinkId>) {
    let mut lab = Lab::new(seed);
    let hosts = [lab.world.add_host(), lab.world.add_host()];
    let ids = (1..).zip(links).map(|(number, directions)| {
        let [a, b] = [0, 1].map(|end| format!("{}/24", link_address(number, end)));
        lab.link([(hosts[0], &a), (hosts[1], &b)], directions.clone())
    });
    let ids = ids.collect();
    (lab, hosts, ids)
}
