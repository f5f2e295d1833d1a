//! Sites that only relays join, each relay a host of its own with a `psmc-relay`.

use std::fmt::Write;
use std::fs::{self, OpenOptions, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ipnet::Ipv4Net;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_lab::emulator::{self, Emulator};
use psmc_lab::scenario::LinkId;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::{Namespace, Queue, link_pair};
use tempfile::TempDir;

use super::plan::{End, Family, PORT};
use super::{Plan, Site, Tap, Tunnel, TunnelEnd, wait_for};
use psmc_testbed::programs::program;

/// How long a relay may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a link to a relay may send at once, and what it queues.
const BURST: u32 = 16_000;
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// A queue in bytes that loses every packet.
const NO_PACKET_FITS: u32 = 1;

/// Bits per second that no test fills.
const FAST: u64 = 1_000_000_000;

/// Two sites without a direct link, and relays between them. Everything vanishes on drop.
///
/// The van has a link to each relay, each relay to the next one and to the headquarters, and there are no other routes.
pub(crate) struct Relayed {
    pub(crate) tunnel: Tunnel,
    relays: Vec<RelayHost>,
    emulated: Option<Emulated>,
    directory: TempDir,
}

/// Links with a delay, by the names of their interfaces.
struct Emulated {
    emulator: Emulator,
    links: Vec<(String, LinkId)>,
}

/// A host with a relay.
struct RelayHost {
    namespace: Namespace,
    key: PrivateKey,
    file: PathBuf,
    process: Option<Child>,
}

/// What the van calls a relay.
fn relay_name(relay: usize) -> String {
    format!("r{relay}")
}

/// Another site, which the last relay joins as it does the headquarters, and the number of its link.
const BRANCH: End = End { name: "branch", inside: 3, outside: 3, interface: 'n' };
const BRANCH_LINK: usize = 100;

/// Which two machines a link joins, as the second byte of its addresses; the third is the number of the (first) relay.
const VAN_TO_RELAY: u8 = 210;
const RELAY_TO_HQ: u8 = 211;
const RELAY_TO_RELAY: u8 = 212;

/// The address of an end of a link: 1 is nearer to the van.
fn address(kind: u8, relay: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, kind, u8::try_from(relay).unwrap(), end)
}

impl Relayed {
    /// The hosts with this many relays, which run, and no daemon yet. Links to relays carry so much, if it is said.
    pub(crate) fn prepare(relays: usize, mbit: Option<u64>) -> Self {
        Self::prepare_with(Plan { links: 0, ..Plan::default() }, relays, mbit)
    }

    /// The same with links between the sites as well.
    pub(crate) fn prepare_with(plan: Plan, relays: usize, mbit: Option<u64>) -> Self {
        Self::prepare_by(plan, relays, mbit, &mut link_pair_of)
    }

    /// The same as [`prepare`](Self::prepare) with a delay on each link, which [`delay_segment`](Self::delay_segment) changes.
    pub(crate) fn prepare_delayed(relays: usize, delay: Duration) -> Self {
        let (mut builder, mut links) = (Emulator::builder().unwrap(), Vec::new());
        let config = LinkConfig { delay, ..LinkConfig::default() };
        let mut lay = |ends: [&Namespace; 2], name: &str| {
            let directions = [config.clone(), config.clone()];
            let plan = emulator::Plan {
                ends: ends.map(|end| (end, name)),
                directions,
                seeds: [0, 1],
                captures: None,
            };
            links.push((name.to_owned(), builder.link(plan).unwrap()));
        };
        let plan = Plan { links: 0, ..Plan::default() };
        let mut this = Self::prepare_by(plan, relays, None, &mut lay);
        this.emulated = Some(Emulated { emulator: builder.start().unwrap(), links });
        this
    }

    /// Hosts that are joined by what `lay` puts between two of them, with an interface of that name at both.
    fn prepare_by(
        plan: Plan,
        relays: usize,
        mbit: Option<u64>,
        lay: &mut dyn FnMut([&Namespace; 2], &str),
    ) -> Self {
        let tunnel = Tunnel::prepare(plan);
        let directory = tempfile::Builder::new().prefix("psmc-e2e-relays-").tempdir().unwrap();
        let relays: Vec<_> = (0..relays).map(|number| RelayHost::new(number, &directory)).collect();
        let mut this = Self { tunnel, relays, emulated: None, directory };
        for number in 0..this.relays.len() {
            this.lay(number, mbit, lay);
            let Tunnel { van, hq, .. } = &this.tunnel;
            let allowed =
                allow("van", &van.key.public(), "") + &allow("hq", &hq.key.public(), "gateway = true\n");
            this.relays[number].configure(number, &allowed);
            this.relays[number].start();
        }
        this
    }

    /// Starts both daemons, the van's with `peer` at the end of its `[[peer]]` and `paths` behind that.
    pub(crate) fn start(&mut self, peer: &str, paths: &str) {
        self.configure_van("", peer, paths);
        self.tunnel.hq.start();
        self.tunnel.van.start();
    }

    /// The same with headquarters that only their relays reach. Both files have `site` in their `[site]`.
    pub(crate) fn start_hidden(&mut self, site: &str, peer: &str, paths: &str) {
        self.configure_hidden_hq(site);
        self.configure_van(site, peer, paths);
        self.tunnel.hq.start();
        self.tunnel.van.start();
    }

    /// Starts both daemons with the links between them as paths, which leave by any interface. The headquarters register with all relays and can be
    /// reached straight, too; the van has `peer` in its `[[peer]]`, and knows no relay.
    pub(crate) fn start_registered(&mut self, peer: &str) {
        let Tunnel { van, hq, .. } = &self.tunnel;
        let names: Vec<_> = (0..self.relays.len()).map(relay_name).collect();
        let text = self.file(hq, van, &format!("register = {names:?}\nlisten = {PORT}\n"));
        hq.configure(&format!("{text}\n{}", self.relay_sections(RELAY_TO_HQ, 1)));
        let text = self.file(van, hq, "").replacen("[[peer]]\n", &format!("[[peer]]\n{peer}"), 1);
        // The links to the relays are uplinks of their own here.
        let is_unbound = |line: &&str| !line.starts_with("interface");
        van.configure(&text.lines().filter(is_unbound).collect::<Vec<_>>().join("\n"));
        self.tunnel.hq.start();
        self.tunnel.van.start();
    }

    /// Starts both daemons with nothing that joins them: hidden headquarters without relays or peers, and a van without a
    /// path.
    pub(crate) fn start_unknown(&mut self) {
        let Tunnel { van, hq, .. } = &self.tunnel;
        let text = self.file(hq, van, "register = []\n");
        hq.configure(text.split("[[peer]]").next().unwrap());
        van.configure(&(self.file(van, hq, "") + "routes = \"prefer-indirect\"\n"));
        self.tunnel.hq.start();
        self.tunnel.van.start();
    }

    /// A relay as `psmc routes set` of the van takes it.
    pub(crate) fn route(&self, relay: usize) -> String {
        format!("{}:{PORT}={}", met_address(relay), self.key(relay))
    }

    /// A relay as `psmc register set` of the headquarters takes it, with the address by which they reach it if it is wanted.
    pub(crate) fn registration(&self, relay: usize, with_local: bool) -> String {
        let local = if with_local { format!(",{}", hq_address(relay)) } else { String::new() };
        format!("{}:{PORT}={}{local}", seen_address(relay), self.key(relay))
    }

    /// Writes the van's file, with `site` in its `[site]`.
    pub(crate) fn configure_van(&self, site: &str, peer: &str, paths: &str) {
        let Tunnel { van, hq, .. } = &self.tunnel;
        let text = self.file(van, hq, site);
        // For all but the first of a chain it is where the van's link ends, and leads through the one before.
        van.configure(&format!("{text}{peer}\n{paths}\n{}", self.relay_sections(VAN_TO_RELAY, 2)));
    }

    fn configure_hidden_hq(&self, site: &str) {
        let Tunnel { van, hq, .. } = &self.tunnel;
        let names: Vec<_> = (0..self.relays.len()).map(relay_name).collect();
        let text = self.file(hq, van, &format!("register = {names:?}\n{site}"));
        hq.configure(&format!("{text}\n{}", self.relay_sections(RELAY_TO_HQ, 1)));
    }

    fn file(&self, own: &Site, other: &Site, site: &str) -> String {
        let directory = own.file("toml").parent().unwrap().to_owned();
        let text = self.tunnel.plan.file(own.end, &own.key, (other.end, &other.key.public()), &directory);
        text.replacen("[site]\n", &format!("[site]\n{site}"), 1)
    }

    fn relay_sections(&self, kind: u8, end: u8) -> String {
        let mut text = String::new();
        for (number, relay) in self.relays.iter().enumerate() {
            let (name, address, key) = (relay_name(number), address(kind, number, end), relay.key.public());
            writeln!(
                text,
                "[[relay]]\nname = \"{name}\"\naddress = \"{address}:{PORT}\"\npublic_key = \"{key}\""
            )
            .unwrap();
        }
        text
    }

    /// A `[[peer.path]]` of the van through these relays to where only the last one knows.
    pub(crate) fn hidden_path(relays: &[usize]) -> String {
        let names: Vec<_> = relays.iter().map(|&relay| relay_name(relay)).collect();
        format!("[[peer.path]]\nname = \"{}\"\nrelays = {names:?}\n", names.join("-"))
    }

    /// Changes whom all relays serve from now on, by their `[[allow]]` sections and `key = value` lines of `[relay]`.
    pub(crate) fn serve(&mut self, relay: &str, allowed: &str) {
        for number in 0..self.relays.len() {
            self.relays[number].kill();
            self.relays[number].configure(number, &format!("{relay}\n{allowed}"));
            self.relays[number].start();
        }
    }

    /// The public key of a relay.
    pub(crate) fn key(&self, relay: usize) -> PublicKey {
        self.relays[relay].key.public()
    }

    /// What a relay says of itself.
    pub(crate) fn status(&self, relay: usize) -> psmc_relay::status::Status {
        psmc_relay::status::ask(&self.relays[relay].file.with_extension("relay")).unwrap()
    }

    /// Takes what a relay receives from the headquarters.
    pub(crate) fn tap_beside_hq(&self, relay: usize) -> Tap {
        Tap::start(&self.relays[relay].namespace, &hq_interface(relay))
    }

    /// Takes what a relay receives from the van.
    pub(crate) fn tap(&self, relay: usize) -> Tap {
        Tap::start(&self.relays[relay].namespace, &van_interface(relay))
    }

    /// A `[[peer.path]]` of the van through these relays, called like them.
    pub(crate) fn path(relays: &[usize]) -> String {
        Self::path_to(relays, address(RELAY_TO_HQ, relays[relays.len() - 1], 2))
    }

    fn path_to(relays: &[usize], end: Ipv4Addr) -> String {
        let names: Vec<_> = relays.iter().map(|&relay| relay_name(relay)).collect();
        format!(
            "[[peer.path]]\nname = \"{}\"\nrelays = {names:?}\nendpoint = \"{end}:{PORT}\"\n",
            names.join("-")
        )
    }

    /// The same, by IP-in-IP to the relay.
    pub(crate) fn wrapped_path(relay: usize) -> String {
        Self::path(&[relay]) + "transport = \"ipip\"\n"
    }

    /// A `[[peer.path]]` of the van by IP-in-IP to the host of a relay, which is an ordinary end of a tunnel for this
    /// purpose, and knows the van as `inside`; with the `[[relay]]` for it.
    pub(crate) fn path_by_tunnel_end(relay: usize, inside: Ipv4Addr) -> String {
        let (end, hq) = (met_address(relay), hq_address(relay));
        format!(
            "[[peer.path]]\nname = \"end\"\nrelays = [\"end\"]\ntransport = \"ipip\"\nendpoint = \"{hq}:{PORT}\"\n\
             [[relay]]\nname = \"end\"\naddress = \"{end}\"\ninside = \"{inside}\"\n"
        )
    }

    /// Another site behind the last relay, which knows the van; its daemon runs.
    pub(crate) fn start_branch(&self) -> Site {
        let mut branch = Site::new(BRANCH, self.directory.path());
        let (relay, name) =
            (&self.relays[self.relays.len() - 1].namespace, link_name(RELAY_TO_HQ, BRANCH_LINK));
        link_pair(relay, &name, &branch.namespace, &name).unwrap();
        for (host, end) in [(relay, 1), (&branch.namespace, 2)] {
            let address = Ipv4Net::new_assert(address(RELAY_TO_HQ, BRANCH_LINK, end), 24);
            host.add_address(&name, address.into()).unwrap();
        }
        let Tunnel { van, plan, .. } = &self.tunnel;
        let (peer, directory) = ((van.end, &van.key.public()), self.directory.path());
        branch.configure(&plan.file(BRANCH, &branch.key, peer, directory));
        branch.start();
        branch
    }

    /// The `[[peer]]` of the van for that site, with `peer` in it and a path through these relays.
    pub(crate) fn branch_peer(branch: &Site, peer: &str, relays: &[usize]) -> String {
        let [v4, v6] = [Family::V4, Family::V6].map(|family| branch.inner(family));
        let path = Self::path_to(relays, address(RELAY_TO_HQ, BRANCH_LINK, 2));
        format!(
            "[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\nallowed_ips = [\"{v4}/32\", \"{v6}/128\"]\n{peer}{path}",
            branch.end.name,
            branch.key.public(),
        )
    }

    /// Makes the host of a relay, whose program is killed, an ordinary end of a tunnel to the van.
    pub(crate) fn make_tunnel_end(&mut self, relay: usize, inside: Ipv4Addr) -> TunnelEnd {
        self.kill(relay);
        // Else it would be given what a network card has still to cut, and to sum up.
        self.tunnel.hq.namespace.disable_offloads(&hq_interface(relay)).unwrap();
        let (target, gateway) = (Ipv4Net::new_assert(inside, 32), seen_address(relay));
        self.tunnel.hq.namespace.add_route(target.into(), gateway.into()).unwrap();
        let host = &self.relays[relay].namespace;
        TunnelEnd::start(host, &link_name(RELAY_TO_HQ, relay), van_address(relay), inside)
    }

    /// Kills a relay, without a word.
    pub(crate) fn kill(&mut self, relay: usize) {
        self.relays[relay].kill();
    }

    /// Has a relay stand still, with its connections open.
    pub(crate) fn halt(&self, relay: usize) {
        let process = self.relays[relay].process.as_ref().expect("the relay runs");
        kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGSTOP).unwrap();
    }

    /// Starts a relay once more.
    pub(crate) fn restart(&mut self, relay: usize) {
        self.relays[relay].start();
    }

    /// Loses all packets between the van and a relay, or none: nobody is told.
    pub(crate) fn silence(&self, relay: usize, silent: bool) {
        let queue = if silent { Queue::Bytes(NO_PACKET_FITS) } else { QUEUE };
        for host in [&self.tunnel.van.namespace, &self.relays[relay].namespace] {
            host.shape(&link_name(VAN_TO_RELAY, relay), FAST, BURST, queue).unwrap();
        }
    }

    /// Has a relay lose so many per cent of the datagrams that reach it, and nothing of control connections.
    pub(crate) fn worsen(&self, relay: usize, percent: u8) {
        let rule = format!(
            "table inet bad {{ chain in {{ type filter hook input priority 0; \
             udp dport {PORT} numgen random mod 100 < {percent} drop; }}; }}"
        );
        self.nft(relay, &rule);
    }

    /// Has a relay lose so many per cent of the datagrams that reach it from the relay before it in a chain, and nothing else.
    pub(crate) fn worsen_between(&self, relay: usize, percent: u8) {
        let link = link_name(RELAY_TO_RELAY, relay - 1);
        // What the kernel has still to cut would count as one, and be lost as one.
        for host in [&self.relays[relay - 1], &self.relays[relay]] {
            host.namespace.disable_offloads(&link).unwrap();
        }
        self.nft(
            relay,
            &format!(
                "table inet between {{ chain in {{ type filter hook input priority 0; \
                 iifname \"{link}\" udp dport {PORT} numgen random mod 100 < {percent} counter drop; }}; }}"
            ),
        );
    }

    /// Loses so many per cent of the datagrams on a segment of the way through all relays in a row, and nothing on the way back:
    /// the first is that to the first relay, the last that to the headquarters.
    pub(crate) fn worsen_segment(&self, segment: usize, percent: u8) {
        let [(near, _), (far, link)] = self.segment(segment);
        near.disable_offloads(&link).unwrap();
        far.disable_offloads(&link).unwrap();
        let rule = format!(
            "table inet segment {{ chain in {{ type filter hook input priority 0; \
             iifname \"{link}\" udp dport {PORT} numgen random mod 100 < {percent} drop; }}; }}"
        );
        run_nft(far, &rule);
    }

    /// Lets no more than so many datagrams pass there in a second, and loses the others.
    pub(crate) fn narrow_segment(&self, segment: usize, datagrams: u32) {
        let [(near, _), (far, link)] = self.segment(segment);
        near.disable_offloads(&link).unwrap();
        far.disable_offloads(&link).unwrap();
        let rule = format!(
            "table inet segment {{ chain in {{ type filter hook input priority 0; \
             iifname \"{link}\" udp dport {PORT} limit rate over {datagrams}/second burst 50 packets drop; }}; }}"
        );
        run_nft(far, &rule);
    }

    /// Loses nothing more there.
    pub(crate) fn mend_segment(&self, segment: usize) {
        let [_, (far, _)] = self.segment(segment);
        run_nft(far, "delete table inet segment");
    }

    /// Has what is sent on a segment of the way through all relays in a row take so long from now on, and nothing on the way back.
    pub(crate) fn delay_segment(&self, segment: usize, delay: Duration) {
        let Emulated { emulator, links } = self.emulated.as_ref().expect("links with a delay");
        let [(_, name), _] = self.segment(segment);
        let link = links.iter().find(|(link, _)| *link == name).expect("a link").1;
        // All links are laid from who is nearer to the van to who is farther.
        emulator.change(link, 0, LinkConfig { delay, ..LinkConfig::default() });
    }

    /// The ends of a segment, and its interface there.
    fn segment(&self, segment: usize) -> [(&Namespace, String); 2] {
        let last = self.relays.len();
        let link = match segment {
            0 => link_name(VAN_TO_RELAY, 0),
            _ if segment == last => link_name(RELAY_TO_HQ, last - 1),
            _ => link_name(RELAY_TO_RELAY, segment - 1),
        };
        let host = |at: usize| match at {
            0 => &self.tunnel.van.namespace,
            _ if at > last => &self.tunnel.hq.namespace,
            _ => &self.relays[at - 1].namespace,
        };
        [(host(segment), link.clone()), (host(segment + 1), link)]
    }

    /// How many datagrams it has lost so.
    pub(crate) fn lost_between(&self, relay: usize) -> u64 {
        let listed = self.nft(relay, "list table inet between");
        let mut words = listed.split_whitespace().skip_while(|word| *word != "packets").skip(1);
        words.next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no counter: {listed}"))
    }

    fn nft(&self, relay: usize, order: &str) -> String {
        run_nft(&self.relays[relay].namespace, order)
    }

    /// Has a relay reach the headquarters by the address that these have towards another relay.
    pub(crate) fn route_to_hq(&self, relay: usize, other: usize) {
        let target = Ipv4Net::new_assert(address(RELAY_TO_HQ, other, 2), 32);
        let gateway = address(RELAY_TO_HQ, relay, 2);
        self.relays[relay].namespace.add_route(target.into(), gateway.into()).unwrap();
    }

    /// Makes the links of a relay.
    fn lay(&self, number: usize, mbit: Option<u64>, lay: &mut dyn FnMut([&Namespace; 2], &str)) {
        let mut join = |near: &Namespace, far: &Namespace, kind, relay| {
            let name = link_name(kind, relay);
            lay([near, far], &name);
            for (host, end) in [(near, 1), (far, 2)] {
                host.add_address(&name, Ipv4Net::new_assert(address(kind, relay, end), 24).into()).unwrap();
            }
        };
        let relay = &self.relays[number].namespace;
        let (van, hq) = (&self.tunnel.van.namespace, &self.tunnel.hq.namespace);
        join(van, relay, VAN_TO_RELAY, number);
        join(relay, hq, RELAY_TO_HQ, number);
        for host in [van, relay] {
            if let Some(mbit) = mbit {
                host.shape(&link_name(VAN_TO_RELAY, number), mbit * 1_000_000, BURST, QUEUE).unwrap();
            }
        }
        if let Some(before) = number.checked_sub(1) {
            join(&self.relays[before].namespace, relay, RELAY_TO_RELAY, before);
            // The relay before reaches this one where the van does.
            let target = Ipv4Net::new_assert(address(VAN_TO_RELAY, number, 2), 32);
            let gateway = address(RELAY_TO_RELAY, before, 2);
            self.relays[before].namespace.add_route(target.into(), gateway.into()).unwrap();
        }
    }
}

fn run_nft(host: &Namespace, order: &str) -> String {
    let mut command = Command::new("nft");
    command.arg(order);
    let output = host.run(|| command.output()).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The interface at both ends of a link.
fn link_name(kind: u8, relay: usize) -> String {
    format!("l{kind}-{relay}")
}

/// The interface of a relay and of the van towards each other.
pub(crate) fn van_interface(relay: usize) -> String {
    link_name(VAN_TO_RELAY, relay)
}

/// The headquarters' interface towards a relay.
pub(crate) fn hq_interface(relay: usize) -> String {
    link_name(RELAY_TO_HQ, relay)
}

/// The headquarters' address on their link to a relay.
pub(crate) fn hq_address(relay: usize) -> Ipv4Addr {
    address(RELAY_TO_HQ, relay, 2)
}

/// An `[[allow]]` section.
pub(crate) fn allow(name: &str, key: &PublicKey, more: &str) -> String {
    format!("[[allow]]\nname = \"{name}\"\npublic_key = \"{key}\"\n{more}\n")
}

/// The van's address on its link to a relay.
pub(crate) fn van_address(relay: usize) -> Ipv4Addr {
    address(VAN_TO_RELAY, relay, 1)
}

/// The address of a relay that the van sees.
pub(crate) fn met_address(relay: usize) -> Ipv4Addr {
    address(VAN_TO_RELAY, relay, 2)
}

/// The address of a relay that the headquarters see.
pub(crate) fn seen_address(relay: usize) -> Ipv4Addr {
    address(RELAY_TO_HQ, relay, 1)
}

/// A link without delay.
fn link_pair_of([near, far]: [&Namespace; 2], name: &str) {
    link_pair(near, name, far, name).unwrap();
}

impl RelayHost {
    fn new(number: usize, directory: &TempDir) -> Self {
        let file = directory.path().join(relay_name(number)).with_extension("toml");
        Self { namespace: Namespace::new().unwrap(), key: PrivateKey::generate(), file, process: None }
    }

    fn configure(&self, number: usize, allowed: &str) {
        let (key_file, socket) = (self.file.with_extension("key"), self.file.with_extension("relay"));
        fs::write(&key_file, self.key.to_base64().as_str()).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[relay]\nname = \"{}\"\nprivate_key_file = \"{}\"\nlisten = {PORT}\n\
             destinations = [\"10.{VAN_TO_RELAY}.0.0/16\", \"10.{RELAY_TO_HQ}.0.0/16\"]\ncontrol_socket = \"{}\"\n{allowed}",
            relay_name(number),
            key_file.display(),
            socket.display(),
        );
        fs::write(&self.file, text).unwrap();
    }

    fn start(&mut self) {
        let path = self.file.with_extension("log");
        let log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let starts = || fs::read_to_string(&path).unwrap().matches("relay started").count();
        let before = starts();
        let mut command = Command::new(program("psmc-relay"));
        command.arg("--config").arg(&self.file).stdin(Stdio::null()).stdout(Stdio::null());
        self.process = Some(self.namespace.spawn(command.stderr(log)).unwrap());
        wait_for("a relay that runs", PATIENCE, || (starts() > before).then_some(()));
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only for one that has ended.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Drop for RelayHost {
    fn drop(&mut self) {
        self.kill();
    }
}
