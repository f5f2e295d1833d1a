//! Two gateways to one network: what goes there moves to the other one when the first fails, and back.

use std::net::IpAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_testbed::netns::link_pair;
use psmc_testbed::steadily::{Measured, Turn, steadily, turn};
use tempfile::TempDir;

use crate::harness::{End, HQ, Site, Stream, VAN, wait_for};

/// For what takes no time to speak of on a machine that has any.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long flows to the network may stand still when their gateway is killed.
const MOVED_WITHIN: Duration = Duration::from_millis(150);

/// The second gateway, and a host of the network behind both.
const HQ2: End = End { name: "hq2", inside: 3, outside: 3, interface: 'g' };
const SERVER: End = End { name: "server", inside: 9, outside: 9, interface: 's' };
const SERVER_ADDRESS: &str = "10.9.0.9";

/// A van, both gateways, and the host behind them. Everything vanishes on drop.
struct World {
    van: Site,
    gateways: [Site; 2],
    server: Site,
    _directory: TempDir,
    _turn: Turn,
}

impl World {
    /// All daemons run, and the van reaches the network; `keys` are in its `[[peer]]` for the first gateway.
    fn start(keys: &str) -> Self {
        let turn = turn();
        let directory = tempfile::Builder::new().prefix("psmc-e2e-").tempdir().unwrap();
        let [van, hq, hq2, server] = [VAN, HQ, HQ2, SERVER].map(|end| Site::new(end, directory.path()));
        let mut world = Self { van, gateways: [hq, hq2], server, _directory: directory, _turn: turn };
        world.lay_links();
        let mut of_van = world.site(&world.van);
        for (number, gateway) in (1..).zip(&world.gateways) {
            let (inside, key) = (gateway.end.inside, gateway.key.public());
            let more = if number == 1 { keys.to_owned() } else { "priority = 2\n".to_owned() };
            of_van += &format!(
                "[[peer]]\nname = \"{}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.{inside}/32\", \"10.9.0.0/24\"]\n\
                 {more}[[peer.path]]\nname = \"link{number}\"\nendpoint = \"10.200.{number}.2:5115\"\n",
                gateway.end.name
            );
            let van = format!(
                "[[peer]]\nname = \"van\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.2/32\"]\n",
                world.van.key.public()
            );
            gateway.configure(&(world.site(gateway) + &van));
        }
        world.van.configure(&of_van);
        world.gateways.iter_mut().for_each(Site::start);
        world.van.start();
        world.wait_until_by(0);
        world
    }

    fn site(&self, site: &Site) -> String {
        format!(
            "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.{}/24\"]\ncontrol_socket = '{}'\n\n",
            site.end.name,
            site.key.to_base64().as_str(),
            site.end.inside,
            site.file("sock").display(),
        )
    }

    fn lay_links(&self) {
        for (number, gateway) in (1..).zip(&self.gateways) {
            let [outer, inner] = [VAN.link(number), SERVER.link(number)];
            let [to_van, to_server] = [gateway.end.link(1), gateway.end.link(2)];
            link_pair(&self.van.namespace, &outer, &gateway.namespace, &to_van).unwrap();
            link_pair(&self.server.namespace, &inner, &gateway.namespace, &to_server).unwrap();
            for (site, name, address) in [
                (&self.van, &outer, format!("10.200.{number}.1/24")),
                (gateway, &to_van, format!("10.200.{number}.2/24")),
                (gateway, &to_server, format!("10.9.{number}.1/24")),
                (&self.server, &inner, format!("10.9.{number}.2/24")),
            ] {
                site.run(&["ip", "addr", "add", &address, "dev", name]);
            }
            gateway.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
            gateway.run(&["ip", "route", "add", "10.9.0.0/24", "via", &format!("10.9.{number}.2")]);
            // As a routing daemon would have it, with the second gateway as the dearer one.
            let (via, metric) = (format!("10.9.{number}.1"), number.to_string());
            self.server.run(&["ip", "route", "add", "10.77.0.2", "via", &via, "metric", &metric]);
        }
        self.server.run(&["ip", "addr", "add", &format!("{SERVER_ADDRESS}/32"), "dev", "lo"]);
    }

    /// Waits until this gateway has the network, by the van's own account and by a datagram that comes through it.
    fn wait_until_by(&self, gateway: usize) {
        let names = [HQ.name, HQ2.name];
        wait_for("the network's gateway", PATIENCE, || {
            let peers = self.van.try_status()?.peers;
            let waits = |name| peers.iter().any(|peer| peer.name == name && !peer.stands_by_for.is_empty());
            (waits(names[1 - gateway]) && !waits(names[gateway])).then_some(())
        });
        let before = self.forwarded(gateway);
        wait_for("a ping through it", PATIENCE, || {
            let ping = self.van.try_run(&["ping", "-c", "1", "-W", "1", SERVER_ADDRESS]);
            (ping.status.success() && self.forwarded(gateway) > before).then_some(())
        });
    }

    /// Packets that a gateway has sent on to the network.
    fn forwarded(&self, gateway: usize) -> u64 {
        let site = &self.gateways[gateway];
        let (all, name) = (site.run(&["cat", "/proc/net/dev"]), format!("{}:", site.end.link(2)));
        let line = all.lines().find_map(|line| line.trim_start().strip_prefix(&name)).unwrap();
        // After eight numbers of what was received come bytes, then packets.
        line.split_whitespace().nth(9).unwrap().parse().unwrap()
    }
}

/// The machine of a gateway that is gone answers nothing, and says nothing of it.
const SILENCE: &str = "table inet fault { chain in { type filter hook input priority 0; drop; }; \
                       chain out { type filter hook output priority 0; drop; }; }";

#[test]
fn flows_move_to_the_other_gateway_when_theirs_fails_and_come_back() {
    for is_silent in [false, true] {
        steadily(Measured::Time, || fails(is_silent));
    }
}

fn fails(is_silent: bool) {
    let mut world = World::start("failback = \"1s\"\n");
    let server: IpAddr = SERVER_ADDRESS.parse().unwrap();
    let stream = Stream::of(200, &world.van, (&world.server, server), Duration::from_millis(5));
    stream.wait_until_back(Instant::now(), PATIENCE);
    if is_silent {
        world.gateways[0].run(&["nft", SILENCE]);
    } else {
        world.gateways[0].kill();
    }
    let gap = stream.wait_until_back(Instant::now(), PATIENCE);
    // Answers to pings would take the route to the gateway that is dead.
    world.server.run(&["ip", "route", "del", "10.77.0.2", "via", "10.9.1.1"]);
    world.wait_until_by(1);
    world.server.run(&["ip", "route", "add", "10.77.0.2", "via", "10.9.1.1", "metric", "1"]);
    if is_silent {
        world.gateways[0].run(&["nft", "delete table inet fault"]);
    } else {
        world.gateways[0].start();
    }
    world.wait_until_by(0);
    let deliveries = stream.finish();
    let how = if is_silent { "silent" } else { "killed" };
    println!(
        "{how}: {gap:.0?} without a datagram, lost {} of {}",
        deliveries.lost().len(),
        deliveries.sent()
    );
    assert!(gap < MOVED_WITHIN, "{how}: {gap:?}");
    let said = "packets to networks of several peers go to this one now";
    let log = world.van.log();
    assert!(log.lines().any(|line| line.contains(said) && line.contains("hq2")), "{log}");
}

#[test]
fn who_shall_not_come_back_by_itself_stands_by_until_the_other_one_fails() {
    let mut world = World::start("failback = \"never\"\n");
    world.gateways[0].kill();
    world.server.run(&["ip", "route", "del", "10.77.0.2", "via", "10.9.1.1"]);
    world.wait_until_by(1);
    world.server.run(&["ip", "route", "add", "10.77.0.2", "via", "10.9.1.1", "metric", "1"]);
    world.gateways[0].start();
    world.van.wait_for_path("link1", &[psmc_api::PathState::Active], PATIENCE);
    // Longer than any time for which it would have to work.
    sleep(Duration::from_secs(6));
    world.wait_until_by(1);
    let shown = String::from_utf8(world.van.psmc(&["status"]).stdout).unwrap();
    assert!(shown.contains("stands by    for 10.9.0.0/24, which another peer has now"), "{shown}");
    world.gateways[1].kill();
    world.wait_until_by(0);
}
