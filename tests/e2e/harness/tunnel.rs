//! Both sites, and the links between them.

use std::fs;
use std::thread::panicking;
use std::time::Duration;

use ipnet::IpNet;
use psmc_api::PathState;
use psmc_lab::emulator::{self, Emulator};
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::{Queue, link_pair};
use psmc_testbed::steadily::{Turn, turn};
use tempfile::TempDir;

use super::Site;
use super::plan::{Dials, End, Family, HQ, PORT, Plan, VAN, path_name};

/// How long a tunnel may take to come up: far longer than it needs.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a shaped link may send at once.
const BURST: u32 = 16_000;

/// What a shaped link queues: that of a decent modem.
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// How much of a log a failed test shows.
const LOG_LINES: usize = 60;

/// Another van, and the number of its link at the headquarters.
const TWIN: End = End { name: "twin", inside: 2, outside: 3, interface: 'v' };
const TWIN_LINK: u8 = 9;

/// A site behind the headquarters, and the number of its link there.
const BRANCH: End = End { name: "branch", inside: 3, outside: 4, interface: 'b' };
const BRANCH_LINK: u8 = 8;

/// Two sites. Everything vanishes on drop.
pub(crate) struct Tunnel {
    pub(crate) van: Site,
    pub(crate) hq: Site,
    pub(crate) plan: Plan,
    directory: TempDir,
    _turn: Turn,
}

impl Tunnel {
    /// The hosts, joined and configured, with no daemon running yet.
    pub(crate) fn prepare(plan: Plan) -> Self {
        let tunnel = Self::unlinked(plan);
        for link in 1..=tunnel.plan.links {
            tunnel.lay(link);
        }
        tunnel
    }

    /// The same with one link that delays in either direction.
    pub(crate) fn prepare_delayed(delay: Duration) -> (Self, Emulator) {
        Self::prepare_emulated(&[LinkConfig { delay, ..LinkConfig::default() }])
    }

    /// The same with links that are like these in either direction.
    pub(crate) fn prepare_emulated(configs: &[LinkConfig]) -> (Self, Emulator) {
        let links = u8::try_from(configs.len()).unwrap();
        let (tunnel, mut builder) =
            (Self::unlinked(Plan { links, ..Plan::default() }), Emulator::builder().unwrap());
        for (link, config) in (1..=links).zip(configs) {
            let names = [VAN, HQ].map(|end| end.link(link));
            let ends = [(&tunnel.van.namespace, &*names[0]), (&tunnel.hq.namespace, &*names[1])];
            let seeds = [2 * u64::from(link), 2 * u64::from(link) + 1];
            let directions = [config.clone(), config.clone()];
            builder.link(emulator::Plan { ends, directions, seeds, captures: None }).unwrap();
        }
        let emulator = builder.start().unwrap();
        for link in 1..=links {
            tunnel.address(&tunnel.van, link);
            tunnel.address(&tunnel.hq, link);
        }
        (tunnel, emulator)
    }

    /// The hosts without links.
    fn unlinked(plan: Plan) -> Self {
        let turn = turn();
        let directory = tempfile::Builder::new().prefix("psmc-e2e-").tempdir().unwrap();
        let van = Site::new(VAN, directory.path());
        let hq = Site::new(HQ, directory.path());
        for (site, other) in [(&van, &hq), (&hq, &van)] {
            let peer = (other.end, &other.key.public());
            site.configure(&plan.file(site.end, &site.key, peer, directory.path()));
        }
        Self { van, hq, plan, directory, _turn: turn }
    }

    /// Both daemons running, and every path in use at both ends.
    pub(crate) fn start(plan: Plan) -> Self {
        let mut tunnel = Self::prepare(plan);
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        tunnel
    }

    /// Makes a link and gives it its addresses.
    pub(crate) fn lay(&self, link: u8) {
        link_pair(&self.van.namespace, &VAN.link(link), &self.hq.namespace, &HQ.link(link)).unwrap();
        self.address(&self.van, link);
        self.address(&self.hq, link);
    }

    /// Makes a link whose interface has its address, at the van, before it gets the name of link `link` and goes up.
    /// Else the kernel would ask for the address of the other end too early, and for a second not again.
    pub(crate) fn lay_anew(&self, link: u8) {
        let (name, for_now) = (VAN.link(link), "new");
        link_pair(&self.van.namespace, for_now, &self.hq.namespace, &HQ.link(link)).unwrap();
        self.address(&self.hq, link);
        self.van.namespace.set_link(for_now, false).unwrap();
        self.van.run(&["ip", "link", "set", for_now, "name", &name]);
        self.address(&self.van, link);
        self.van.namespace.set_link(&name, true).unwrap();
    }

    fn address(&self, site: &Site, link: u8) {
        let name = site.end.link(link);
        for (family, length) in [(Family::V4, 24), (Family::V6, 64)] {
            let address = IpNet::new(site.end.outer(link, family), length).unwrap();
            site.namespace.add_address(&name, address).unwrap();
        }
        if let Some(mbit) = self.plan.mbit {
            site.namespace.shape(&name, mbit * 1_000_000, BURST, QUEUE).unwrap();
        }
    }

    /// Another host with the van's key and configuration, and a link of its own to the headquarters; its daemon runs.
    pub(crate) fn start_twin_of_van(&self) -> Site {
        let mut twin = Site::new(TWIN, self.directory.path());
        let (inside, outside) = (TWIN.link(1), HQ.link(TWIN_LINK));
        link_pair(&twin.namespace, &inside, &self.hq.namespace, &outside).unwrap();
        let address = TWIN.outer(1, Family::V4);
        twin.namespace.add_address(&inside, IpNet::new(address, 24).unwrap()).unwrap();
        self.hq.run(&["ip", "route", "add", &address.to_string(), "dev", &outside]);
        let text = fs::read_to_string(self.van.file("toml")).unwrap();
        let [own, other] = [&twin, &self.van].map(|site| site.file("sock").display().to_string());
        twin.configure(&text.replace(&other, &own));
        twin.start();
        twin
    }

    /// Another site, with a link of `mbit` Mbit/s to the headquarters, through which the van and it reach each other; its daemon runs.
    /// Those of the tunnel do not run yet.
    pub(crate) fn start_branch(&self, mbit: u64) -> Site {
        let mut branch = Site::new(BRANCH, self.directory.path());
        let names = [&branch, &self.hq].map(|site| site.end.link(BRANCH_LINK));
        link_pair(&branch.namespace, &names[0], &self.hq.namespace, &names[1]).unwrap();
        for (site, name) in [&branch, &self.hq].into_iter().zip(&names) {
            let address = IpNet::new(site.end.outer(BRANCH_LINK, Family::V4), 24).unwrap();
            site.namespace.add_address(name, address).unwrap();
            site.namespace.shape(name, mbit * 1_000_000, BURST, QUEUE).unwrap();
        }
        self.hq.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        let [van, hq, inside] = [VAN, HQ, BRANCH].map(|end| format!("\"{}/32\"", end.inner(Family::V4)));
        let of_hq = self.plan.file(BRANCH, &branch.key, (HQ, &self.hq.key.public()), self.directory.path());
        let path = format!(
            "[[peer.path]]\nname = \"{}\"\nendpoint = \"{}:{PORT}\"\n",
            path_name(BRANCH, BRANCH_LINK),
            HQ.outer(BRANCH_LINK, Family::V4)
        );
        let before_classes = |text: &str, more: &str| match text.strip_suffix(self.plan.classes) {
            Some(peers) => format!("{peers}\n{more}{}", self.plan.classes),
            None => unreachable!("the classes are at the end"),
        };
        branch.configure(&before_classes(&of_hq.replace(&hq, &format!("{hq}, {van}")), &path));
        let text = fs::read_to_string(self.van.file("toml")).unwrap();
        self.van.configure(&text.replace(&hq, &format!("{hq}, {inside}")));
        let text = fs::read_to_string(self.hq.file("toml")).unwrap();
        let peer = format!(
            "[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\nallowed_ips = [{inside}]\n",
            BRANCH.name,
            branch.key.public()
        );
        self.hq.configure(&before_classes(&text, &peer));
        branch.start();
        branch
    }

    /// The names of all paths.
    pub(crate) fn paths(&self) -> Vec<String> {
        let of = |end: End| (1..=self.plan.links).map(move |link| path_name(end, link));
        match self.plan.dials {
            Dials::Van => of(VAN).collect(),
            Dials::Both => of(VAN).chain(of(HQ)).collect(),
        }
    }

    /// Waits until every path is in use at both ends.
    pub(crate) fn wait_until_up(&self) {
        for site in [&self.van, &self.hq] {
            for path in self.paths() {
                site.wait_for_path(&path, &[PathState::Active], PATIENCE);
            }
        }
    }

    /// Pings the headquarters until it has answered ten times. Losses are counted by [`Stream`](super::Stream): ping waits
    /// for its last answer no longer than twice the longest round trip, which on a busy machine is too short.
    pub(crate) fn ping(&self, family: Family) {
        let address = self.hq.inner(family).to_string();
        self.van.run(&["ping", "-c", "10", "-i", "0.02", "-w", "10", &address]);
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if !panicking() {
            return;
        }
        for site in [&self.van, &self.hq] {
            let log = site.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
            eprintln!("--- the log of {}:\n{}", site.end.name, tail.join("\n"));
            eprintln!("--- its state: {:#?}", site.try_status());
        }
    }
}
