//! Ten changes of the network by chance, one after the other: traffic is back soon after the last one, whenever a daemon that is
//! started only then has any.
//!
//! `PSMC_TEST_SEEDS=17` does the sequence of that seed again, `PSMC_TEST_SEEDS=1-60` those of sixty.

use std::fs;
use std::net::IpAddr;
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use nix::sys::signal::Signal;
use psmc_testbed::netns::link_pair;
use tempfile::TempDir;

use crate::harness::{Family, HQ, Site, VAN, Wiretap, wait_for};
use psmc_testbed::steadily::{attempt, turn};

/// What is done in an ordinary run.
const SEEDS: (u64, u64) = (1, 16);

/// How many sequences are under way at a time. Most of the time each waits.
const AT_A_TIME: usize = 4;

/// Changes of a sequence.
const CHANGES: usize = 10;

/// Within this time traffic is back.
const BACK_WITHIN: Duration = Duration::from_secs(3);

/// How long it is waited for where it is late, to tell late from never.
const LATE: Duration = Duration::from_secs(5);

/// How long a new daemon may take until there is traffic.
const START: Duration = Duration::from_secs(5);

/// Within this time the daemon knows that an address is gone.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// How long a host is asked for an answer, and after how long it is asked again.
const ANSWER: &str = "0.3";
const PAUSE: Duration = Duration::from_millis(20);

/// What the file of the van calls the headquarters.
const NAME: &str = "hq.example";

/// What only the tunnel leads to.
const BEYOND: [&str; 2] = ["198.51.100.7", "2001:db8:7::7"];
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The headquarters take what is for what is behind them from the tunnel only.
const ONLY_BY_TUNNEL: &str = "table inet only { chain in { type filter hook input priority 0; \
    ip daddr 198.51.100.7 iifname != \"psmc0\" drop; ip6 daddr 2001:db8:7::7 iifname != \"psmc0\" drop; }; }";

/// What can happen. Uplinks are numbered from 1.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// As DHCP and a router do it: the uplink is there, up, with addresses and routes.
    UplinkComes(u8),
    LinkGoesDown(u8),
    LinkGoesUp(u8),
    LinkIsDeleted(u8),
    /// It gets another name, or its own again.
    LinkIsRenamed(u8),
    CarrierIsLost(u8),
    CarrierIsBack(u8),
    AddressComes(u8, Family),
    AddressGoes(u8, Family),
    AnotherAddressComes(u8, Family),
    DefaultRouteComes(u8, Family),
    DefaultRouteGoes(u8, Family),
    /// By another gateway.
    DefaultRouteIsReplaced(u8, Family),
    /// Packets of an uplink's address leave by it, as people do it who have two.
    RuleBySource(u8),
    /// The main table is asked first, but for its default route.
    RuleForMain,
    RulesGo,
    /// For all interfaces, or for one.
    ReversePathFilter(u8, Option<u8>),
    TunIsDeleted,
    TunGoesDown,
    TunLosesAddresses,
    TunLosesRoutes,
    TunLosesRules,
    DaemonIsKilled,
    DaemonRereads,
    /// The headquarters have other addresses, and so has their name.
    PeerMoves,
}

/// A sequence of changes, each with the pause before it.
#[derive(Clone, Debug)]
struct Sequence {
    is_full: bool,
    /// The families of which the headquarters' name has addresses.
    named: &'static [Family],
    changes: Vec<(Duration, Change)>,
}

/// xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        let mut this = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        this.below(1);
        this
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let position = self.below(all.len() as u64);
        all[usize::try_from(position).unwrap()]
    }

    fn change(&mut self) -> Change {
        use Change::*;
        let (uplink, family) = (self.one_of(&[1, 2]), self.one_of(&FAMILIES));
        let filter = ReversePathFilter(self.one_of(&[0, 1, 2]), self.one_of(&[None, Some(1), Some(2)]));
        self.one_of(&[
            UplinkComes(uplink),
            UplinkComes(uplink),
            UplinkComes(uplink),
            LinkGoesDown(uplink),
            LinkGoesUp(uplink),
            LinkIsDeleted(uplink),
            LinkIsRenamed(uplink),
            CarrierIsLost(uplink),
            CarrierIsBack(uplink),
            AddressComes(uplink, family),
            AddressGoes(uplink, family),
            AnotherAddressComes(uplink, family),
            DefaultRouteComes(uplink, family),
            DefaultRouteGoes(uplink, family),
            DefaultRouteIsReplaced(uplink, family),
            RuleBySource(uplink),
            RuleForMain,
            RulesGo,
            filter,
            filter,
            TunIsDeleted,
            TunGoesDown,
            TunLosesAddresses,
            TunLosesRoutes,
            TunLosesRules,
            DaemonIsKilled,
            DaemonRereads,
            PeerMoves,
        ])
    }
}

impl Sequence {
    /// The one of a seed: every second one is of a full tunnel.
    fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let pauses = [0, 0, 30, 100, 300, 800].map(Duration::from_millis);
        Self {
            is_full: seed.is_multiple_of(2),
            named: chance.one_of(&[&FAMILIES[..], &FAMILIES[..1], &FAMILIES[1..]]),
            changes: (0..CHANGES).map(|_| (chance.one_of(&pauses), chance.change())).collect(),
        }
    }
}

/// Two hosts and their daemons.
struct World {
    van: Site,
    hq: Site,
    sequence: Sequence,
    /// What the van calls its uplinks.
    names: [String; 2],
    /// The last part of the headquarters' addresses.
    place: u8,
    /// When uplinks that stayed up have lost addresses.
    addresses_went: Vec<Instant>,
    _directory: TempDir,
}

impl World {
    /// The hosts, with two uplinks and without daemons.
    fn new(sequence: Sequence) -> Self {
        let directory = tempfile::Builder::new().prefix("psmc-e2e-").tempdir().unwrap();
        let (van, hq) = (Site::new(VAN, directory.path()), Site::new(HQ, directory.path()));
        let names = [1, 2].map(|uplink| VAN.link(uplink));
        let mut this =
            Self { van, hq, sequence, names, place: 5, addresses_went: Vec::new(), _directory: directory };
        this.configure();
        this.hq.run(&["nft", ONLY_BY_TUNNEL]);
        for address in BEYOND {
            this.hq.run(&["ip", "address", "add", address, "dev", "lo"]);
        }
        this.move_peer();
        for uplink in [1, 2] {
            this.bring_uplink(uplink);
        }
        this
    }

    /// Starts both daemons, and waits for traffic.
    fn start(&mut self) -> Result<(), String> {
        self.hq.start();
        self.start_van();
        let missing = self.wait(&FAMILIES, 2 * START);
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("no traffic by {missing:?}\n{}", self.van.log()))
        }
    }

    /// Whether anything of the tunnel was seen in itself. What is sent before the daemon has heard that an address is gone comes from
    /// one that the kernel has chosen; never does it go through the tunnel.
    fn judge(&self, wiretap: Wiretap) -> Result<(), String> {
        let mut seen = wiretap.finish();
        let is_excused =
            |at: Instant| self.addresses_went.iter().any(|&went| at >= went && at < went + NOTICED_WITHIN);
        seen.in_itself.retain(|packet| packet.is_in_tunnel || !is_excused(packet.at));
        if seen.outer > 0 && seen.in_itself.is_empty() {
            return Ok(());
        }
        let (first, all) = (&seen.in_itself[..seen.in_itself.len().min(5)], seen.outer);
        Err(format!("the tunnel in itself: {first:?} of {all}\n{}", self.van.log()))
    }

    fn tap(&self) -> Wiretap {
        Wiretap::start(&self.van.namespace, &["10.77.0.0/24", "fd77::/64"].map(|net| net.parse().unwrap()))
    }

    fn configure(&self) {
        let networks = if self.sequence.is_full {
            "\"0.0.0.0/0\", \"::/0\"".to_owned()
        } else {
            format!("\"{}/32\", \"{}/128\"", BEYOND[0], BEYOND[1])
        };
        let van = "\"10.77.0.2/32\", \"fd77::2/128\"".to_owned();
        for (site, other, networks, endpoint) in [
            (&self.van, &self.hq, networks, format!("endpoint = \"{NAME}:5115\"\n")),
            (&self.hq, &self.van, van, String::new()),
        ] {
            site.configure(&format!(
                "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"{}/24\", \"{}/64\"]\n\
                 control_socket = '{}'\n\n[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\n\
                 allowed_ips = [{networks}]\n{endpoint}",
                site.end.name,
                site.key.to_base64().as_str(),
                site.inner(Family::V4),
                site.inner(Family::V6),
                site.file("sock").display(),
                other.end.name,
                other.key.public(),
            ));
        }
    }

    fn start_van(&mut self) {
        self.van.start_with_file("/etc/hosts", "hosts");
    }

    fn do_to(&mut self, change: Change) {
        if let Change::AddressGoes(..) = change {
            self.addresses_went.push(Instant::now());
        }
        match change {
            Change::UplinkComes(uplink) => self.bring_uplink(uplink),
            Change::LinkGoesDown(uplink) => self.van(&format!("link set {} down", self.name(uplink))),
            Change::LinkGoesUp(uplink) => self.van(&format!("link set {} up", self.name(uplink))),
            Change::LinkIsDeleted(uplink) => self.van(&format!("link del {}", self.name(uplink))),
            Change::LinkIsRenamed(uplink) => self.rename(uplink),
            Change::CarrierIsLost(uplink) => self.hq(&format!("link set {} down", HQ.link(uplink))),
            Change::CarrierIsBack(uplink) => self.bring_gateway(uplink),
            Change::AddressComes(uplink, family) => self.van(&self.address("replace", uplink, family, 1)),
            Change::AddressGoes(uplink, family) => self.van(&self.address("del", uplink, family, 1)),
            Change::AnotherAddressComes(uplink, family) => {
                self.van(&self.address("replace", uplink, family, 11));
            }
            Change::DefaultRouteComes(uplink, family) => self.van(&self.route("add", uplink, family, 2)),
            Change::DefaultRouteGoes(uplink, family) => {
                let version = version(family);
                self.van(&format!("{version} route del default dev {}", self.name(uplink)));
            }
            Change::DefaultRouteIsReplaced(uplink, family) => {
                self.van(&self.route("replace", uplink, family, 3));
            }
            Change::RuleBySource(uplink) => self.rule_by_source(uplink),
            Change::RuleForMain => self.van("rule add pref 100 lookup main suppress_prefixlength 0"),
            Change::RulesGo => {
                [100, 201, 202].iter().for_each(|rule| self.van(&format!("rule del pref {rule}")))
            }
            Change::ReversePathFilter(value, uplink) => {
                let interface = uplink.map_or("all", |uplink| self.name(uplink));
                // An interface that is not there has none.
                drop(
                    self.van
                        .namespace
                        .sysctl(&format!("net/ipv4/conf/{interface}/rp_filter"), &value.to_string()),
                );
            }
            Change::TunIsDeleted => self.van("link del psmc0"),
            Change::TunGoesDown => self.van("link set psmc0 down"),
            Change::TunLosesAddresses => self.van("address flush dev psmc0"),
            Change::TunLosesRoutes => self.flush_routes(),
            Change::TunLosesRules => self.delete_rules(),
            Change::DaemonIsKilled => {
                self.van.kill();
                self.start_van();
            }
            Change::DaemonRereads => self.van.signal(Signal::SIGHUP),
            Change::PeerMoves => self.move_peer(),
        }
    }

    fn name(&self, uplink: u8) -> &str {
        &self.names[usize::from(uplink) - 1]
    }

    /// Runs `ip` with that at the van. It may be impossible.
    fn van(&self, words: &str) {
        ip(&self.van, words);
    }

    fn hq(&self, words: &str) {
        ip(&self.hq, words);
    }

    fn address(&self, verb: &str, uplink: u8, family: Family, last: u8) -> String {
        format!("address {verb} {} dev {}", outer(uplink, family, last), self.name(uplink))
    }

    fn route(&self, verb: &str, uplink: u8, family: Family, gateway: u8) -> String {
        let (version, gateway) = (version(family), outer(uplink, family, gateway).addr());
        format!("{version} route {verb} default via {gateway} dev {} metric {uplink}00", self.name(uplink))
    }

    fn bring_uplink(&mut self, uplink: u8) {
        if !has_link(&self.van, self.name(uplink)) {
            let name = self.name(uplink);
            link_pair(&self.van.namespace, name, &self.hq.namespace, &HQ.link(uplink)).unwrap();
        }
        self.bring_gateway(uplink);
        self.van(&format!("link set {} up", self.name(uplink)));
        for family in FAMILIES {
            self.van(&self.address("replace", uplink, family, 1));
            self.van(&self.route("replace", uplink, family, 2));
        }
    }

    fn bring_gateway(&self, uplink: u8) {
        let name = HQ.link(uplink);
        self.hq(&format!("link set {name} up"));
        for (family, last) in [(Family::V4, 2), (Family::V4, 3), (Family::V6, 2), (Family::V6, 3)] {
            self.hq(&format!("address replace {} dev {name}", outer(uplink, family, last)));
        }
    }

    fn rename(&mut self, uplink: u8) {
        let (own, other) = (VAN.link(uplink), format!("usb{uplink}"));
        let name = if self.name(uplink) == own { other } else { own };
        if has_link(&self.van, self.name(uplink)) {
            self.van(&format!("link set {} name {name}", self.name(uplink)));
        }
        self.names[usize::from(uplink) - 1] = name;
    }

    fn rule_by_source(&self, uplink: u8) {
        let (table, name) = (100 + uplink, self.name(uplink));
        let from = outer(uplink, Family::V4, 1).addr();
        let gateway = outer(uplink, Family::V4, 2).addr();
        self.van(&format!("route replace default via {gateway} dev {name} table {table}"));
        self.van(&format!("rule add pref 20{uplink} from {from} lookup {table}"));
    }

    /// The van's own rules, of either family.
    fn own_rules(&self) -> Vec<(&'static str, String)> {
        let of = |version| {
            let rules = self.van.run(&["ip", version, "rule"]);
            let own = rules.lines().filter(|line| line.starts_with("511")).map(str::to_owned);
            own.map(|line| (version, line)).collect::<Vec<_>>()
        };
        FAMILIES.map(version).map(of).concat()
    }

    fn flush_routes(&self) {
        for (version, rule) in self.own_rules() {
            let table = rule.split_whitespace().skip_while(|word| *word != "lookup").nth(1);
            if let Some(table) = table.filter(|table| *table != "main") {
                self.van(&format!("{version} route flush table {table}"));
            }
        }
    }

    fn delete_rules(&self) {
        for (version, rule) in self.own_rules() {
            let priority = rule.split(':').next().unwrap_or_default();
            self.van(&format!("{version} rule del pref {priority}"));
        }
    }

    fn move_peer(&mut self) {
        let before = self.place;
        self.place += 1;
        let mut hosts = String::new();
        for family in FAMILIES {
            let (old, new) = (hq_address(family, before), hq_address(family, self.place));
            self.hq(&format!("address del {old} dev lo"));
            self.hq(&format!("address add {new} dev lo"));
            if self.sequence.named.contains(&family) {
                hosts += &format!("{new} {NAME}\n");
            }
        }
        fs::write(self.van.file("hosts"), hosts).unwrap();
    }

    /// Waits until what is behind the tunnel answers by these families. Says by which it does not in that time.
    fn wait(&self, families: &[Family], time: Duration) -> Vec<Family> {
        let start = Instant::now();
        let mut missing = families.to_vec();
        loop {
            missing.retain(|&family| !self.answers(family));
            if missing.is_empty() || start.elapsed() >= time {
                return missing;
            }
            sleep(PAUSE);
        }
    }

    /// All that a daemon could leave behind in the van's network.
    fn network(&self) -> Vec<String> {
        let commands: [&[&str]; 7] = [
            &["ip", "-d", "-oneline", "address"],
            &["ip", "-d", "-4", "rule"],
            &["ip", "-d", "-6", "rule"],
            &["ip", "-d", "-4", "route", "show", "table", "all"],
            &["ip", "-d", "-6", "route", "show", "table", "all"],
            &["nft", "list", "ruleset"],
            // It complains of what cannot be read.
            &["grep", "-rs", "", "/proc/sys/net/ipv4/conf", "/proc/sys/net/ipv6/conf"],
        ];
        let outputs = commands.map(|command| self.van.try_run(command).stdout);
        assert!(outputs.iter().enumerate().all(|(number, output)| number == 5 || !output.is_empty()));
        let mut lines: Vec<_> =
            String::from_utf8_lossy(&outputs.concat()).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// The same without what the kernel has settings for.
    fn network_for_people(&self) -> String {
        let lines = self.network().into_iter().filter(|line| !line.starts_with("/proc"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn answers(&self, family: Family) -> bool {
        let beyond = BEYOND[usize::from(family == Family::V6)];
        self.van.try_run(&["ping", "-c", "1", "-W", ANSWER, beyond]).status.success()
    }
}

/// How a sequence has ended.
#[derive(Debug)]
enum End {
    /// There was traffic again after this time.
    Back(Duration),
    /// There was none, nor had a new daemon any.
    Nothing,
}

fn play(sequence: &Sequence) -> Result<End, String> {
    let mut world = World::new(sequence.clone());
    world.start()?;
    let wiretap = world.tap();
    for (pause, change) in &sequence.changes {
        sleep(*pause);
        world.do_to(*change);
    }
    let start = Instant::now();
    let late = world.wait(&FAMILIES, BACK_WITHIN);
    let taken = start.elapsed();
    let mut end = Ok(End::Back(taken));
    if !late.is_empty() {
        let state = format!("{:#?}\n{}", world.van.try_status(), world.network_for_people());
        let never = world.wait(&late, LATE);
        let came = start.elapsed();
        let log = world.van.log();
        world.van.kill();
        world.start_van();
        let fresh_lacks = world.wait(&late, START);
        let expected: Vec<_> = late.iter().filter(|family| !fresh_lacks.contains(family)).collect();
        end = if expected.is_empty() {
            Ok(if late.len() < FAMILIES.len() { End::Back(taken) } else { End::Nothing })
        } else {
            let when =
                if never.is_empty() { format!("after {came:.1?}") } else { format!("never {never:?}") };
            Err(format!("a new daemon has traffic by {expected:?}, which was back {when}\n{state}\n{log}"))
        };
    }
    world.judge(wiretap).and(end)
}

#[test]
fn traffic_is_back_after_whatever_happens() {
    let _turn = turn();
    let (first, last) = seeds();
    let next = Mutex::new(first..=last);
    let ends = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else { return };
                    let end = attempt(|| play(&Sequence::of(seed)));
                    if let Ok(end) = &end {
                        println!("seed {seed}: {end:.2?}");
                    }
                    ends.lock().unwrap().push((seed, end));
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap();
    let times =
        ends.iter().filter_map(|(_, end)| if let Ok(End::Back(time)) = end { Some(*time) } else { None });
    println!(
        "traffic was back after {} of {} sequences, the last time after {:.2?}",
        times.clone().count(),
        ends.len(),
        times.max().unwrap_or_default()
    );
    for (seed, end) in &ends {
        if let Err(error) = end {
            eprintln!("--- seed {seed}: {:?}\n{error}", Sequence::of(*seed));
        }
    }
    let failed: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).map(|(seed, _)| seed).collect();
    assert!(failed.is_empty(), "these failed: {failed:?}");
}

/// What chance has found, in few changes.
fn regression(is_full: bool, named: &'static [Family], changes: &[Change]) {
    let _turn = turn();
    let changes = changes.iter().map(|&change| (NOTICED_WITHIN, change)).collect();
    let sequence = Sequence { is_full, named, changes };
    let end = attempt(|| play(&sequence));
    assert!(end.is_ok(), "{}", end.unwrap_err());
}

#[test]
fn regression_a_path_leads_to_another_address_if_it_has_none_for_the_first() {
    regression(false, &FAMILIES, &[Change::LinkIsDeleted(2), Change::AddressGoes(1, Family::V4)]);
}

#[test]
fn regression_nothing_is_sent_over_an_uplink_without_an_address() {
    let (v4, v6) = (Family::V4, Family::V6);
    regression(false, &FAMILIES[..1], &[Change::AddressGoes(1, v4), Change::LinkIsDeleted(2)]);
    regression(true, &FAMILIES[1..], &[Change::AddressGoes(1, v6), Change::LinkIsDeleted(2)]);
}

#[test]
fn regression_nothing_is_sent_by_an_old_name() {
    let changes = [Change::LinkIsRenamed(1), Change::LinkIsDeleted(2), Change::AddressGoes(1, Family::V4)];
    regression(true, &FAMILIES[..1], &changes);
}

/// Uplinks fail and come back, the van roams, interfaces get other names, the headquarters move, and daemons end in every way.
#[test]
fn a_full_tunnel_is_never_in_itself_and_leaves_nothing_behind() {
    let _turn = turn();
    let mut world = World::new(Sequence { is_full: true, named: &FAMILIES, changes: Vec::new() });
    // The kernel first looks whether others have these addresses (RFC 4862 §5.4).
    let before = wait_for("addresses that are ready", START, || {
        let network = world.network();
        (!network.iter().any(|line| line.contains("tentative"))).then_some(network)
    });
    world.start().unwrap();
    let wiretap = world.tap();
    let v4 = Family::V4;
    for change in [
        Change::LinkGoesDown(1),
        Change::UplinkComes(1),
        Change::CarrierIsLost(2),
        Change::DaemonIsKilled,
        Change::PeerMoves,
        Change::CarrierIsBack(2),
        Change::UplinkComes(2),
        Change::DefaultRouteGoes(1, v4),
        Change::LinkIsRenamed(2),
        Change::AddressGoes(2, v4),
        Change::LinkIsRenamed(2),
        Change::ReversePathFilter(1, None),
        Change::UplinkComes(1),
        Change::UplinkComes(2),
        Change::TunIsDeleted,
        Change::DaemonRereads,
        Change::TunLosesRoutes,
        Change::ReversePathFilter(0, None),
    ] {
        world.do_to(change);
        let missing = world.wait(&FAMILIES, LATE);
        assert!(missing.is_empty(), "no traffic by {missing:?} after {change:?}: {}", world.van.log());
    }
    assert!(world.van.terminate().success());
    assert_eq!(difference(&before, &world.network()), [""; 0]);
    world.start_van();
    assert!(world.wait(&FAMILIES, LATE).is_empty());
    world.do_to(Change::DaemonIsKilled);
    assert!(world.wait(&FAMILIES, LATE).is_empty());
    assert!(world.van.terminate().success());
    assert_eq!(difference(&before, &world.network()), [""; 0]);
    world.judge(wiretap).unwrap();
}

/// The lines that only one of them has.
fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
    let come = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}

/// The first and the last seed.
fn seeds() -> (u64, u64) {
    let Ok(text) = std::env::var("PSMC_TEST_SEEDS") else { return SEEDS };
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    (first.parse().unwrap(), last.parse().unwrap())
}

/// Runs `ip` with that on a host. It may be impossible.
fn ip(site: &Site, words: &str) {
    let all: Vec<_> = ["ip"].into_iter().chain(words.split_whitespace()).collect();
    drop(site.try_run(&all));
}

fn has_link(site: &Site, name: &str) -> bool {
    site.try_run(&["ip", "link", "show", name]).status.success()
}

fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

/// An address on an uplink's link.
fn outer(uplink: u8, family: Family, last: u8) -> IpNet {
    match family {
        Family::V4 => format!("10.200.{uplink}.{last}/24"),
        Family::V6 => format!("fd00:200:{uplink}::{last}/64"),
    }
    .parse()
    .unwrap()
}

fn hq_address(family: Family, place: u8) -> IpAddr {
    match family {
        Family::V4 => format!("203.0.113.{place}"),
        Family::V6 => format!("2001:db8:5::{place}"),
    }
    .parse()
    .unwrap()
}
