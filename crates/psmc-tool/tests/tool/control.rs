//! `psmc` talking to a daemon that does as it is told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Output;

use psmc_api::{
    Batches, Carrier, ClassStatus, ControlStatus, PathEcn, PathSlot, PathSpec, PathState, PathStatus,
    PeerPaths, PeerReport, PeerRoutes, PeerSpec, PeerState, PeerStatus, RateLimit, RegisterSpec, Request,
    Response, RouteSpec, RouteStatus, RoutesStatus, Server, SiteStatus, Status, WaitFor, WaitingPath,
    WantedState,
};
use tempfile::TempDir;
use tokio::process::Command;

/// A daemon's socket in a directory of its own.
struct Daemon {
    server: Server,
    path: PathBuf,
    _directory: TempDir,
}

impl Daemon {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("van.sock");
        Self { server: Server::bind(&path).unwrap(), path, _directory: directory }
    }

    /// Runs the tool, answers its one request with `response`, and returns both what was asked and what was printed.
    async fn run(&mut self, args: &[&str], response: Response) -> (Request, Output) {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc"));
        tool.arg("--socket").arg(&self.path).args(args);
        let serve = async {
            let call = self.server.next_call().await.unwrap();
            let request = call.request().clone();
            call.respond(response);
            request
        };
        let (request, output) = tokio::join!(serve, tool.output());
        (request, output.unwrap())
    }

    /// What the tool asks for when all goes well.
    async fn asked(&mut self, args: &[&str]) -> Request {
        let (request, output) = self.run(args, Response::Ok).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
        request
    }
}

fn path(name: &str) -> PathStatus {
    PathStatus {
        name: name.to_owned(),
        id: 1,
        state: PathState::Probing,
        since_s: 12.3,
        why: Some("no UDP reply from 203.0.113.5:5115 for 12 s".to_owned()),
        portal: None,
        added: false,
        local: None,
        local_port: None,
        seen_as: None,
        remote: Some("203.0.113.5:5115".to_owned()),
        relays: Vec::new(),
        ip_in_ip: false,
        in_stream: false,
        relay_error: None,
        uplink: None,
        interface: None,
        weight: 1,
        tier: "primary".to_owned(),
        direction: "both".to_owned(),
        quota: None,
        max_rate_mbps: None,
        rtt_ms: None,
        rtt_var_ms: None,
        mtu: 1500,
        narrower_than: None,
        loss_pct: 0.0,
        ecn: PathEcn::Trying,
        marked_pct: 0.0,
        slot: None,
        bottleneck: None,
        rate_mbps: None,
        tx_bytes: 240,
        rx_bytes: 0,
        tx_packets: 3,
        rx_packets: 0,
        lost_packets: 0,
        undelivered: 0,
    }
}

fn busy_path() -> PathStatus {
    PathStatus {
        state: PathState::Active,
        since_s: 0.0,
        why: None,
        portal: None,
        added: false,
        local: Some("192.168.1.7:5115".to_owned()),
        local_port: Some(5115),
        seen_as: Some("198.51.100.7:4711".to_owned()),
        interface: Some("wlan0".to_owned()),
        max_rate_mbps: Some(20.0),
        rtt_ms: Some(31.27),
        rtt_var_ms: Some(2.5),
        mtu: 1500,
        narrower_than: None,
        loss_pct: 0.42,
        ecn: PathEcn::Capable,
        marked_pct: 1.3,
        slot: Some(PathSlot { period_s: 15.0, length_ms: 150.0, next_s: 7.2 }),
        rate_mbps: Some(18.3),
        tx_bytes: 1_234_567_890,
        rx_bytes: 98_765_432,
        tx_packets: 900_000,
        rx_packets: 80_000,
        lost_packets: 3780,
        ..path("wifi")
    }
}

fn class(name: &str, tx_packets: u64, waiting: u64) -> ClassStatus {
    ClassStatus {
        name: name.to_owned(),
        queued_packets: waiting,
        queued_bytes: waiting * 1400,
        is_stuck: false,
        tx_packets,
        marked_packets: waiting * 2,
        put_out_packets: waiting * 3,
        superseded_packets: waiting,
        drops: BTreeMap::from([("codel".to_owned(), waiting * 4), ("full".to_owned(), 0)]),
    }
}

fn peer() -> PeerStatus {
    PeerStatus {
        shedding: BTreeMap::new(),
        name: "hq".to_owned(),
        public_key: "Wr25hYcZ+LpWAmV9UsHFlkYynPzniCWtPa/Hrx5z6cc=".to_owned(),
        software: Some("psmcd 0.1.0".to_owned()),
        state: PeerState::Connected,
        control: ControlStatus { connected: true, since_s: 754.0, last_error: None },
        allowed_ips: vec!["10.77.0.1/32".to_owned(), "192.168.10.0/24".to_owned()],
        stands_by_for: Vec::new(),
        added: false,
        routes: None,
        scheduler: "earliest".to_owned(),
        key_age_s: Some(35.5),
        epoch: Some(7),
        key_generations: 1,
        key_exchanges: 0,
        keys_expired_s: None,
        tx_bytes: 1_200_000_000,
        rx_bytes: 95_000_000,
        tx_packets: 890_000,
        rx_packets: 79_000,
        udp_rate_limit_mbps: Some(20.0),
        drops: BTreeMap::from([("queue_full".to_owned(), 12), ("too_large".to_owned(), 0)]),
        parts: BTreeMap::new(),
        reorder: BTreeMap::new(),
        repair: BTreeMap::new(),
        unresponsive: BTreeMap::new(),
        streams: None,
        classes: vec![class("best-effort", 888_000, 3), class("voice", 2_000, 0), class("background", 0, 0)],
        heard_s: Some(0.2),
        waiting: Vec::new(),
        paths: [busy_path(), path("lte")].map(|path| PathStatus { bottleneck: Some(0), ..path }).into(),
    }
}

fn status() -> Status {
    let down = PeerStatus {
        name: "depot".to_owned(),
        software: None,
        state: PeerState::Down,
        control: ControlStatus {
            connected: false,
            since_s: 90_000.0,
            last_error: Some("connection refused".to_owned()),
        },
        key_age_s: None,
        epoch: None,
        drops: BTreeMap::new(),
        parts: BTreeMap::new(),
        reorder: BTreeMap::new(),
        repair: BTreeMap::new(),
        streams: None,
        classes: Vec::new(),
        heard_s: None,
        paths: Vec::new(),
        waiting: vec![WaitingPath {
            name: Some("dsl".to_owned()),
            why: "cannot resolve `depot.example:5115`: check the name, or the resolver".to_owned(),
            since_s: 4.0,
        }],
        ..peer()
    };
    Status {
        site: SiteStatus {
            name: "van".to_owned(),
            public_key: "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=".to_owned(),
            interface: "psmc0".to_owned(),
            addresses: vec!["10.77.0.2/24".to_owned(), "fd77::2/64".to_owned()],
            listen: "[::]:5115".to_owned(),
            registered: Vec::new(),
            invitations: Vec::new(),
            notices: Vec::new(),
            uptime_s: 11_520.4,
            version: "0.1.0".to_owned(),
        },
        peers: vec![peer(), down],
        counters: BTreeMap::from(
            [
                ("authentication_failed", 3),
                ("control_accepted", 7),
                ("control_unknown_key", 2),
                ("no_route", 5),
                ("unknown_label", 41),
            ]
            .map(|(name, count)| (name.to_owned(), count)),
        ),
        batches: Batches::default(),
        conditioners: Vec::new(),
        sla: Vec::new(),
        ipfix: None,
    }
}

#[tokio::test]
async fn status_for_people() {
    let (request, output) = Daemon::new().run(&["status"], Response::Status(Box::new(status()))).await;
    assert_eq!(request, Request::Status);
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[tokio::test]
async fn status_for_scripts_is_the_whole_object() {
    let (_, output) = Daemon::new().run(&["status", "--json"], Response::Status(Box::new(status()))).await;
    assert_eq!(serde_json::from_slice::<Status>(&output.stdout).unwrap(), status());
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[tokio::test]
async fn paths_are_listed() {
    let paths = vec![PeerPaths { peer: "hq".to_owned(), paths: vec![path("lte")] }];
    let (request, output) = Daemon::new().run(&["path", "list", "hq"], Response::Paths(paths)).await;
    assert_eq!(request, Request::PathList { peer: Some("hq".to_owned()) });
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[tokio::test]
async fn paths_are_changed_as_the_user_says() {
    let mut daemon = Daemon::new();
    let (peer, path) = ("hq".to_owned(), "lte".to_owned());
    let spec = PathSpec {
        name: path.clone(),
        interface: Some("wwan0".to_owned()),
        max_rate_bits_per_second: Some(1_500_000),
        ..PathSpec::default()
    };
    let add =
        daemon.asked(&["path", "add", "hq", "lte", "--interface", "wwan0", "--max-rate", "1.5mbit"]).await;
    assert_eq!(add, Request::PathAdd { peer: peer.clone(), path: spec });

    let set = daemon.asked(&["path", "set", "hq", "lte", "--max-rate", "none", "--state", "standby"]).await;
    let (max_rate, state) = (Some(RateLimit::None), Some(WantedState::Standby));
    let request = |max_rate, state, congestion| {
        let (peer, path) = (peer.clone(), path.clone());
        Request::PathSet {
            peer,
            path,
            weight: None,
            max_rate,
            tier: None,
            direction: None,
            state,
            congestion,
        }
    };
    assert_eq!(set, request(max_rate, state, None));

    let set =
        daemon.asked(&["path", "set", "hq", "lte", "--congestion", "fixed", "--max-rate", "2mbit"]).await;
    let max_rate = Some(RateLimit::BitsPerSecond(2_000_000));
    assert_eq!(set, request(max_rate, None, Some("fixed".to_owned())));

    let quota = ["path", "add", "hq", "lte", "--quota", "50GB/month/12,backup"];
    let add = daemon.asked(&quota).await;
    let quota = Some("50GB/month/12,backup".to_owned());
    let spec = PathSpec { name: path.clone(), quota, ..PathSpec::default() };
    assert_eq!(add, Request::PathAdd { peer: peer.clone(), path: spec });
    let add = daemon.asked(&["path", "add", "hq", "lte", "--transport", "auto"]).await;
    let spec = PathSpec { name: path.clone(), transport: Some("auto".to_owned()), ..PathSpec::default() };
    assert_eq!(add, Request::PathAdd { peer: peer.clone(), path: spec });
    let used = daemon.asked(&["path", "quota", "hq", "lte", "--used", "12.3GB"]).await;
    let (to, name) = (peer.clone(), path.clone());
    assert_eq!(used, Request::PathQuota { peer: to, path: name, used_bytes: 12_300_000_000 });

    let remove = daemon.asked(&["path", "remove", "hq", "lte"]).await;
    assert_eq!(remove, Request::PathRemove { peer, path });
}

#[tokio::test]
async fn a_peer_is_changed_as_the_user_says() {
    let asked = Daemon::new().asked(&["peer", "set", "hq", "--scheduler", "wrr-adaptive"]).await;
    let (peer, scheduler) = ("hq".to_owned(), "wrr-adaptive".to_owned());
    assert_eq!(asked, Request::PeerSet { peer, scheduler });
}

/// Two public keys.
const KEY: &str = "Wr25hYcZ+LpWAmV9UsHFlkYynPzniCWtPa/Hrx5z6cc=";
const OTHER: &str = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

#[tokio::test]
async fn routes_are_set_and_ended_as_the_user_says() {
    let mut daemon = Daemon::new();
    let (one, two) = (format!("198.51.100.7:5115={KEY}"), format!("[2001:db8::8]:99={KEY},{OTHER}"));
    let args = ["routes", "set", "hq", "--relay", &one, "--relay", &two, "--for", "10m", "--serial", "7"];
    let set = daemon.asked(&[&args[..], &["--policy", "on-failure", "--grant", "abc"]].concat()).await;
    let Request::RoutesSet { peer, routes, expires, serial, policy, grants } = set else { panic!("{set:?}") };
    assert_eq!((peer.as_str(), serial, policy.as_deref()), ("hq", 7, Some("on-failure")));
    assert_eq!(grants, ["abc"]);
    let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!((since_1970..=since_1970 + 600).contains(&expires));
    let route = |address: &str, gateway: Option<&str>| RouteSpec {
        address: address.parse().unwrap(),
        public_key: KEY.to_owned(),
        gateway: gateway.map(str::to_owned),
    };
    assert_eq!(routes, [route("198.51.100.7:5115", None), route("[2001:db8::8]:99", Some(OTHER))]);
    let clear = daemon.asked(&["routes", "clear", "hq"]).await;
    assert_eq!(clear, Request::RoutesClear { peer: "hq".to_owned() });
}

#[tokio::test]
async fn routes_are_shown_with_their_paths() {
    let routes = RoutesStatus {
        policy: "prefer-direct".to_owned(),
        serial: Some(9),
        expires: None,
        carrier: Carrier::Learned,
        direct_well: false,
        routes: vec![RouteStatus {
            relay: "fra1".to_owned(),
            address: "198.51.100.7:5115".to_owned(),
            public_key: KEY.to_owned(),
            paths: vec!["alt-1".to_owned(), "alt-2".to_owned()],
            failed: Some("nothing received through it any more".to_owned()),
        }],
    };
    let routes = vec![PeerRoutes { peer: "hq".to_owned(), routes }];
    let (request, output) = Daemon::new().run(&["routes", "hq"], Response::Routes(routes)).await;
    assert_eq!(request, Request::RoutesList { peer: Some("hq".to_owned()) });
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!(
            "peer hq: 1 learned route, prefer-direct, serial 9, the direct path is unhealthy\n  \
             fra1  198.51.100.7:5115  {KEY}  alt-1, alt-2  (nothing received through it any more)\n"
        )
    );
}

#[tokio::test]
async fn peers_come_and_go_and_are_waited_for_as_the_user_says() {
    let mut daemon = Daemon::new();
    let add = ["peer", "add", "hq", "--public-key", KEY, "--allowed-ips", "10.77.0.1/32,fd77::1/128"];
    let expected = Request::PeerAdd(PeerSpec {
        name: "hq".to_owned(),
        public_key: KEY.to_owned(),
        allowed_ips: vec!["10.77.0.1/32".to_owned(), "fd77::1/128".to_owned()],
        endpoint: None,
    });
    assert_eq!(daemon.asked(&add).await, expected);
    let remove = daemon.asked(&["peer", "remove", "hq"]).await;
    assert_eq!(remove, Request::PeerRemove { name: "hq".to_owned() });
    for reached in [true, false] {
        let report = PeerReport {
            peer: "hq".to_owned(),
            reached,
            usable: true,
            direct_well: false,
            learned_up: 2,
            serial: None,
            expires: None,
        };
        let args = ["peer", "wait", "hq", "--until", "trouble", "--for", "5s"];
        let (request, output) = daemon.run(&args, Response::Peer(report)).await;
        let (peer, until) = ("hq".to_owned(), WaitFor::Trouble);
        assert_eq!(request, Request::PeerWait { peer, until, timeout_ms: 5000 });
        assert_eq!(output.status.success(), reached);
    }
}

#[tokio::test]
async fn registrations_are_set_as_the_user_says() {
    let mut daemon = Daemon::new();
    let relays = ["", ",192.0.2.9", ",eth1"].map(|uplink| format!("198.51.100.7:5115={KEY}{uplink}"));
    let spec = |local: Option<&str>, interface: Option<&str>| RegisterSpec {
        address: "198.51.100.7:5115".parse().unwrap(),
        public_key: KEY.to_owned(),
        local: local.map(|local| local.parse().unwrap()),
        interface: interface.map(str::to_owned),
    };
    let expected = [spec(None, None), spec(Some("192.0.2.9"), None), spec(None, Some("eth1"))];
    for (relay, expected) in relays.iter().zip(expected) {
        let set = daemon.asked(&["register", "set", "--relay", relay]).await;
        assert_eq!(set, Request::RegisterSet { relays: vec![expected], grants: Vec::new() });
    }
    let leave = daemon.asked(&["register", "set"]).await;
    assert_eq!(leave, Request::RegisterSet { relays: Vec::new(), grants: Vec::new() });
}

#[tokio::test]
async fn a_refusal_is_passed_on() {
    let refusal = Response::error("there is no peer \"hq\"; the peers are depot, lab");
    let (_, output) = Daemon::new().run(&["path", "remove", "hq", "lte"], refusal).await;
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "error: there is no peer \"hq\"; the peers are depot, lab\n");
}
