//! Answers that no daemon gave, for the tests of the model and of what is drawn.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::civil::{Time, time};
use psmc_api::{
    Batches, ClassStatus, ControlStatus, PathEcn, PathState, PathStatus, PeerState, PeerStatus, SiteStatus,
    Status,
};

use super::model::Model;

/// When a test begins.
const MORNING: Time = time(9, 0, 0, 0);

pub(super) fn path(name: &str, id: u32) -> PathStatus {
    PathStatus {
        name: name.to_owned(),
        id,
        state: PathState::Active,
        since_s: 100.0,
        why: None,
        portal: None,
        added: false,
        local: Some("192.168.1.7:5115".to_owned()),
        local_port: Some(40_011),
        seen_as: Some("198.51.100.7:40011".to_owned()),
        remote: Some("203.0.113.5:5115".to_owned()),
        relays: Vec::new(),
        ip_in_ip: false,
        in_stream: false,
        relay_error: None,
        interface: Some("wlan0".to_owned()),
        uplink: Some("wlan0".to_owned()),
        weight: 1,
        tier: "primary".to_owned(),
        direction: "both".to_owned(),
        quota: None,
        max_rate_mbps: None,
        mtu: 1500,
        narrower_than: None,
        rtt_ms: Some(31.27),
        rtt_var_ms: Some(2.5),
        loss_pct: 0.42,
        ecn: PathEcn::Capable,
        marked_pct: 0.0,
        slot: None,
        bottleneck: None,
        rate_mbps: Some(18.3),
        tx_bytes: 1_000_000,
        rx_bytes: 1_000_000,
        tx_packets: 1000,
        rx_packets: 1000,
        lost_packets: 4,
        undelivered: 0,
    }
}

pub(in crate::cli) fn peer(name: &str, paths: Vec<PathStatus>) -> PeerStatus {
    PeerStatus {
        name: name.to_owned(),
        public_key: "Wr25hYcZ+LpWAmV9UsHFlkYynPzniCWtPa/Hrx5z6cc=".to_owned(),
        software: Some("psmcd 0.1.0".to_owned()),
        state: PeerState::Connected,
        control: ControlStatus { connected: true, since_s: 754.0, last_error: None },
        allowed_ips: vec!["10.77.0.1/32".to_owned()],
        stands_by_for: Vec::new(),
        added: false,
        routes: None,
        scheduler: "earliest".to_owned(),
        key_age_s: Some(35.5),
        epoch: Some(7),
        key_generations: 1,
        key_exchanges: 0,
        keys_expired_s: None,
        tx_bytes: 1_000_000,
        rx_bytes: 1_000_000,
        tx_packets: 1000,
        rx_packets: 1000,
        udp_rate_limit_mbps: None,
        drops: BTreeMap::new(),
        parts: BTreeMap::new(),
        reorder: BTreeMap::new(),
        repair: BTreeMap::from([("resent".to_owned(), 10), ("tx_copies".to_owned(), 0)]),
        unresponsive: BTreeMap::new(),
        shedding: BTreeMap::new(),
        streams: None,
        classes: ["best-effort", "background"].map(class).into(),
        heard_s: Some(0.2),
        paths,
        waiting: Vec::new(),
    }
}

fn class(name: &str) -> ClassStatus {
    ClassStatus {
        name: name.to_owned(),
        queued_packets: 0,
        queued_bytes: 0,
        is_stuck: false,
        tx_packets: if name == "background" { 0 } else { 1000 },
        marked_packets: 0,
        put_out_packets: 0,
        superseded_packets: 0,
        drops: BTreeMap::new(),
    }
}

pub(in crate::cli) fn status(peers: Vec<PeerStatus>) -> Status {
    Status {
        site: SiteStatus {
            name: "van".to_owned(),
            public_key: "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=".to_owned(),
            interface: "psmc0".to_owned(),
            addresses: vec!["10.77.0.2/24".to_owned()],
            listen: "[::]:5115".to_owned(),
            registered: Vec::new(),
            invitations: Vec::new(),
            notices: Vec::new(),
            uptime_s: 11_520.0,
            version: "0.1.0".to_owned(),
        },
        peers,
        counters: BTreeMap::new(),
        batches: Batches::default(),
        conditioners: Vec::new(),
        sla: Vec::new(),
        ipfix: None,
    }
}

/// A daemon that answers once a second, and the model of what it says.
pub(super) struct Watched {
    pub(super) model: Model,
    /// What it will answer next.
    pub(super) status: Status,
    begun: Instant,
    seconds: u64,
}

impl Watched {
    /// One that has answered once.
    pub(super) fn new(peers: Vec<PeerStatus>) -> Self {
        let model = Model::new(Duration::from_secs(1));
        let mut watched = Self { model, status: status(peers), begun: Instant::now(), seconds: 0 };
        watched.answer();
        watched
    }

    /// The next answer, after what has become of the peers in a second.
    pub(super) fn after(&mut self, change: impl FnOnce(&mut Vec<PeerStatus>)) {
        self.seconds += 1;
        self.status.site.uptime_s += 1.0;
        for path in self.status.peers.iter_mut().flat_map(|peer| &mut peer.paths) {
            path.since_s += 1.0;
        }
        change(&mut self.status.peers);
        self.answer();
    }

    /// No answer, for a second.
    pub(super) fn silent(&mut self) {
        self.seconds += 1;
        self.model.away("no psmcd answers on /run/psmc/van.sock; is it running?".to_owned(), self.clock());
    }

    fn answer(&mut self) {
        let at = self.begun + Duration::from_secs(self.seconds);
        self.model.answered(self.status.clone(), at, self.clock());
    }

    fn clock(&self) -> Time {
        MORNING.wrapping_add(Duration::from_secs(self.seconds))
    }

    /// What has happened so far.
    pub(super) fn events(&self) -> Vec<String> {
        let line = |event: &super::model::Event| format!("{} {}", event.at.strftime("%T"), event.what);
        self.model.events(usize::MAX).map(line).collect()
    }
}
