//! The whole Internet through the tunnel: offered by one site, used by another one, and nothing left of it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, panicking, sleep, spawn};
use std::time::Duration;

use psmc_api::PathState;
use psmc_testbed::netns::{Namespace, link_pair};
use psmc_testbed::programs::program;

use crate::harness::{Capture, NameServer, Plan, Site, Tunnel, wait_for, with_cgroups};

/// For what takes a moment: a small machine is busy at times.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where headquarters are, behind every uplink of the van.
const ENDPOINT: &str = "203.0.113.5";

/// A server on the Internet.
const SERVER: &str = "198.51.100.7";
const SERVER_V6: &str = "2001:db8:1::7";

/// A machine in the van's own network that is excluded, and one that is not.
const PRINTER: &str = "192.168.1.50";
const NEIGHBOUR: &str = "192.168.1.60";

/// A user whose packets are excluded.
const USER: u32 = 12345;

/// Where the server answers by TCP.
const PORT: u16 = 8000;

/// Both sites without daemons, the van with two uplinks; `van` and `hq` stand in their sections `[site]`.
fn prepare(van: &str, hq: &str) -> Tunnel {
    let tunnel = Tunnel::prepare(Plan { links: 2, ..Plan::default() });
    let sites = [(&tunnel.van, &tunnel.hq, 2, van), (&tunnel.hq, &tunnel.van, 1, hq)];
    for (site, other, inside, settings) in sites {
        let peer = if site.end.name == "van" {
            format!("allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\nendpoint = \"{ENDPOINT}:5115\"\n")
        } else {
            "allowed_ips = [\"10.77.0.2/32\", \"fd77::2/128\"]\n".to_owned()
        };
        site.configure(&format!(
            "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.{inside}/24\", \"fd77::{inside}/64\"]\n\
             interface = \"psmc0\"\ncontrol_socket = '{}'\n{settings}\n\n[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\n{peer}",
            site.end.name,
            site.key.to_base64().as_str(),
            site.file("sock").display(),
            other.end.name,
            other.key.public(),
        ));
    }
    tunnel.hq.run(&["ip", "address", "add", ENDPOINT, "dev", "lo"]);
    for number in [1, 2] {
        add_route(&tunnel.van, number);
    }
    tunnel
}

fn add_route(van: &Site, number: u8) {
    let (gateway, metric) = (format!("10.200.{number}.2"), format!("{number}00"));
    let name = format!("v{number}");
    van.run(&["ip", "route", "replace", "default", "via", &gateway, "dev", &name, "metric", &metric]);
    let gateway = format!("fd00:200:{number}::2");
    van.run(&["ip", "-6", "route", "replace", "default", "via", &gateway, "dev", &name, "metric", &metric]);
}

fn answers(host: &Site, address: &str) -> bool {
    host.try_run(&["ping", "-c", "1", "-W", "1", address]).status.success()
}

/// Waits for an answer through the tunnel.
fn wait_until_reached(host: &Site, address: &str) {
    let ping = ["ping", "-c", "1", "-W", "1", "-I", "psmc0", address];
    wait_for(&format!("an answer of {address}"), PATIENCE, || {
        host.try_run(&ping).status.success().then_some(())
    });
}

/// All that a host has: links, addresses, routes, rules, tables of nftables and the kernel's settings, but for what changes by itself.
fn everything(site: &Site) -> String {
    let commands: [&[&str]; 8] = [
        &["ip", "-d", "link"],
        &["ip", "address"],
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "-4", "rule"],
        &["ip", "-6", "rule"],
        // Without the counts of packets.
        &["nft", "--stateless", "list", "ruleset"],
        &["sysctl", "-a", "--pattern", "^net\\.(ipv4|ipv6)\\."],
    ];
    let all = commands.map(|command| site.run(command)).concat();
    // Times that routes and addresses still have, and the kernel's caches of how far it has come.
    let changes = |line: &&str| {
        !["expires ", "valid_lft", "fwmark_reflect", "tcp_fastopen_key", "stable_secret"]
            .iter()
            .any(|word| line.contains(word))
    };
    all.lines().filter(changes).map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// What differs, for a person to read.
fn assert_same(before: &str, after: &str, when: &str) {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.lines().collect(), after.lines().collect());
    let lost: Vec<_> = old.difference(&new).collect();
    let left: Vec<_> = new.difference(&old).collect();
    assert!(lost.is_empty() && left.is_empty(), "{when}: lost {lost:#?}, left {left:#?}");
}

/// A server on the Internet that knows no way into the tunnel, and headquarters' uplink to it.
fn internet(tunnel: &Tunnel) -> Namespace {
    let server = Namespace::new().unwrap();
    link_pair(&tunnel.hq.namespace, "wan", &server, "eth0").unwrap();
    for (host, name, address) in [
        (&tunnel.hq.namespace, "wan", "198.51.100.1/24"),
        (&tunnel.hq.namespace, "wan", "2001:db8:1::1/64"),
        (&server, "eth0", "198.51.100.7/24"),
        (&server, "eth0", "2001:db8:1::7/64"),
    ] {
        host.add_address(name, address.parse().unwrap()).unwrap();
    }
    tunnel.hq.run(&["ip", "route", "add", "default", "via", SERVER, "dev", "wan"]);
    tunnel.hq.run(&["ip", "-6", "route", "add", "default", "via", SERVER_V6, "dev", "wan"]);
    server
}

#[test]
fn a_site_offers_the_internet_and_takes_it_back() {
    let mut tunnel = prepare("", "internet = true");
    let server = internet(&tunnel);
    tunnel.hq.namespace.sysctl("net.ipv6.conf.wan.accept_ra", "1").unwrap();
    let before = everything(&tunnel.hq);
    assert!(tunnel.hq.check().contains("internet     offered to peers"));
    let listener = server.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    for address in [SERVER, SERVER_V6] {
        wait_until_reached(&tunnel.van, address);
    }
    // Whose address the server sees.
    let connected = spawn(move || listener.accept().unwrap().1.ip().to_string());
    let line = format!("exec 3<>/dev/tcp/{SERVER}/{PORT}");
    tunnel.van.run(&["bash", "-c", &line]);
    assert_eq!(connected.join().unwrap(), "198.51.100.1");
    let accept_ra = || tunnel.hq.run(&["sysctl", "-n", "net.ipv6.conf.wan.accept_ra"]);
    assert_eq!(accept_ra().trim(), "2", "a host that forwards goes on to learn routes");
    assert!(tunnel.hq.terminate().success());
    assert_same(&before, &everything(&tunnel.hq), "after its end");

    // A daemon that is killed leaves it to the next one, or to `psmc clean`.
    tunnel.hq.start();
    wait_until_reached(&tunnel.van, SERVER);
    tunnel.hq.kill();
    tunnel.hq.start();
    wait_until_reached(&tunnel.van, SERVER);
    let refused = clean(&tunnel.hq);
    assert!(refused.contains("stop it first"), "{refused}");
    tunnel.hq.kill();
    assert!(clean(&tunnel.hq).contains("removed"));
    assert_same(&before, &everything(&tunnel.hq), "after psmc clean");
    assert!(clean(&tunnel.hq).contains("nothing was left"));
}

/// What `psmc clean` says of a site.
fn clean(site: &Site) -> String {
    let mut command = Command::new(program("psmc"));
    command.arg("--socket").arg(site.file("sock")).arg("clean");
    let output = site.namespace.run(|| command.output()).unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Docker has its chain at headquarters, and drops what is forwarded. Its rules are made by hand: it is the chain that counts.
#[test]
fn a_site_offers_the_internet_beside_docker() {
    let mut tunnel = prepare("", "internet = true");
    let _server = internet(&tunnel);
    for program in ["iptables", "ip6tables"] {
        for rule in
            [&["-N", "DOCKER-USER"][..], &["-A", "FORWARD", "-j", "DOCKER-USER"], &["-P", "FORWARD", "DROP"]]
        {
            tunnel.hq.run(&[&[program, "-w"], rule].concat());
        }
    }
    // Somebody else has a rule there that iptables does not understand.
    let foreign = "insert rule ip filter DOCKER-USER iifname other ct state established accept";
    tunnel.hq.run(&[&["nft"][..], &foreign.split(' ').collect::<Vec<_>>()].concat());
    let before = everything(&tunnel.hq);
    tunnel.hq.start();
    tunnel.van.start();
    for address in [SERVER, SERVER_V6] {
        wait_until_reached(&tunnel.van, address);
    }
    assert!(tunnel.hq.terminate().success());
    assert_same(&before, &everything(&tunnel.hq), "after its end");
}

/// A machine that sends, from the van and from behind it, to everywhere.
struct Chatter {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Chatter {
    fn start(hosts: &[&Namespace]) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let sockets = hosts.iter().flat_map(|host| {
            host.run(|| [UdpSocket::bind("0.0.0.0:0").unwrap(), UdpSocket::bind("[::]:0").unwrap()])
        });
        let threads = sockets.map(|socket| {
            let ended = ended.clone();
            spawn(move || {
                let targets = [SERVER, NEIGHBOUR, ENDPOINT, "8.8.8.8", SERVER_V6, "2001:db8::53"];
                let targets: Vec<SocketAddr> =
                    targets.map(|address| SocketAddr::new(address.parse().unwrap(), 4000)).to_vec();
                let is_v6 = socket.local_addr().unwrap().is_ipv6();
                while !ended.load(Ordering::Relaxed) {
                    for target in targets.iter().filter(|target| target.is_ipv6() == is_v6) {
                        // It is refused as often as there is no way.
                        let _ = socket.send_to(b"leak", target);
                    }
                    sleep(Duration::from_millis(2));
                }
            })
        });
        let threads = threads.collect();
        Self { ended, threads }
    }

    fn finish(self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// What headquarters send themselves.
fn from_hq(tunnel: &Tunnel) -> String {
    let address = |link: &str| {
        let bytes = tunnel.hq.namespace.hardware_address(link).unwrap();
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("eth.src == {}", bytes.join(":"))
    };
    ["h1", "h2"].map(address).join(" || ")
}

/// What the van may send by its uplinks: the tunnel's own, what the link needs, and what is excluded.
fn allowed() -> String {
    let own = format!("ip.dst == {ENDPOINT} && (udp.dstport == 5115 || tcp.dstport == 5115)");
    let link = "arp || icmpv6.type in {133, 134, 135, 136, 143}";
    let excluded = format!("ip.dst == {SERVER} && tcp.dstport == {PORT} && ip.src == 10.200.0.0/16");
    format!("({own}) || {link} || ({excluded})")
}

/// The kill switch holds whatever happens to paths and the daemon, and is gone when that ends as it was told.
#[test]
fn nothing_leaves_outside_the_tunnel_but_what_is_excluded() {
    let group = Cgroup::new();
    let settings =
        format!("kill_switch = true\nexclude = [\"{PRINTER}/32\", \"uid:{USER}\", \"cgroup:{}\"]", group.0);
    let mut tunnel = prepare(&settings, "");
    let lan = Namespace::new().unwrap();
    link_pair(&tunnel.van.namespace, "lan0", &lan, "eth0").unwrap();
    tunnel.van.namespace.add_address("lan0", "192.168.1.1/24".parse().unwrap()).unwrap();
    for address in [PRINTER, NEIGHBOUR] {
        lan.add_address("eth0", format!("{address}/24").parse().unwrap()).unwrap();
    }
    lan.add_route("0.0.0.0/0".parse().unwrap(), "192.168.1.1".parse().unwrap()).unwrap();
    for (key, value) in [("ip_forward", "1"), ("conf.all.rp_filter", "1"), ("conf.default.rp_filter", "1")] {
        tunnel.van.namespace.sysctl(&format!("net.ipv4.{key}"), value).unwrap();
    }
    tunnel.hq.run(&["ip", "address", "add", SERVER, "dev", "lo"]);
    let listener = tunnel.hq.namespace.run(|| TcpListener::bind((SERVER, PORT))).unwrap();
    let server = spawn(move || {
        // Tells who calls by which address it does.
        for stream in listener.incoming() {
            let told = stream.and_then(|mut stream| {
                let from = stream.peer_addr()?.ip();
                writeln!(stream, "{from}")
            });
            // Who asked has gone.
            drop(told);
        }
    });
    for interface in ["v1", "v2"] {
        // IPv6 addresses go with the link otherwise, and IPv4's do not.
        let key = format!("net.ipv6.conf.{interface}.keep_addr_on_down");
        tunnel.van.namespace.sysctl(&key, "1").unwrap();
    }
    let before = everything(&tunnel.van);
    assert!(tunnel.van.check().contains("kill switch  by nftables"));
    tunnel.hq.start();
    tunnel.van.start_with_cgroups();
    wait_until_reached(&tunnel.van, "10.77.0.1");
    let chatter = Chatter::start(&[&tunnel.van.namespace, &lan]);
    let directory = tempfile::tempdir().unwrap();
    let mut wan = Capture::start(&tunnel.hq.namespace, &["h1", "h2"], &directory.path().join("wan.pcapng"));
    let mut near = Capture::start(&lan, &["eth0"], &directory.path().join("lan.pcapng"));

    assert_excluded(&tunnel.van, &group);
    upset(&mut tunnel);
    assert_excluded(&tunnel.van, &group);
    tunnel.van.kill();
    // For that long there is nobody but the kernel.
    sleep(Duration::from_millis(300));
    assert!(!answers(&tunnel.van, SERVER));
    tunnel.van.start_with_cgroups();
    wait_until_reached(&tunnel.van, SERVER);
    wan.end();
    near.end();
    chatter.finish();
    assert!(!wan.matching("udp.dstport == 5115").is_empty());
    let leaks = wan.matching(&format!("!({}) && !({})", from_hq(&tunnel), allowed()));
    assert_eq!(leaks, [""; 0], "outside the tunnel");
    let near = near.matching(&format!("ip.src == 192.168.1.1 && ip.dst != {PRINTER}"));
    assert_eq!(near, [""; 0], "in the van's network");

    assert!(tunnel.van.terminate().success());
    tunnel.van.run(&["ip", "address", "del", "10.200.2.9/24", "dev", "v2"]);
    tunnel.van.run(&["ip", "address", "add", "10.200.2.1/24", "broadcast", "+", "dev", "v2"]);
    for number in [1, 2] {
        add_route(&tunnel.van, number);
    }
    assert_same(&before, &everything(&tunnel.van), "after its end");
    drop(server);
}

/// The printer answers; the excluded user and control group have connections outside the tunnel, and others inside.
fn assert_excluded(van: &Site, group: &Cgroup) {
    wait_for("an answer of the printer", PATIENCE, || answers(van, PRINTER).then_some(()));
    assert!(!answers(van, NEIGHBOUR));
    let mut by_user = Command::new("timeout");
    by_user.uid(USER);
    let join = format!("echo 0 > /sys/fs/cgroup/{}/cgroup.procs; ", group.0);
    let mut by_group = with_cgroups();
    by_group.arg("timeout");
    assert!(seen_from(van, by_user, "").starts_with("10.200."));
    assert!(seen_from(van, by_group, &join).starts_with("10.200."));
    assert_eq!(seen_from(van, Command::new("timeout"), ""), "10.77.0.2");
}

/// The address by which the server sees a shell that `command` runs, and that does something else before.
fn seen_from(van: &Site, mut command: Command, before: &str) -> String {
    let line = format!("{before}exec 3<>/dev/tcp/{SERVER}/{PORT} && read address <&3 && echo $address");
    command.args(["20", "bash", "-c", &line]).stdin(Stdio::null());
    let output = van.namespace.run(|| command.output()).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A control group of version 2, by its name; removed on drop.
struct Cgroup(String);

impl Cgroup {
    fn new() -> Self {
        let group = Self(format!("psmc-e2e-{}", std::process::id()));
        group.run("mkdir");
        group
    }

    fn run(&self, what: &str) {
        let status =
            with_cgroups().arg(what).arg(Path::new("/sys/fs/cgroup").join(&self.0)).status().unwrap();
        assert!(status.success() || panicking(), "this test needs control groups of version 2");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.run("rmdir");
    }
}

/// A path fails and returns; all do; one gets another address.
fn upset(tunnel: &mut Tunnel) {
    let van = &tunnel.van;
    for names in [&["v1"][..], &["v1", "v2"]] {
        for up in [false, true] {
            for name in names {
                van.namespace.set_link(name, up).unwrap();
            }
            if up {
                for number in [1, 2] {
                    add_route(van, number);
                }
            } else {
                sleep(Duration::from_millis(200));
            }
        }
        wait_until_reached(van, SERVER);
    }
    van.run(&["ip", "address", "del", "10.200.2.1/24", "dev", "v2"]);
    van.run(&["ip", "address", "add", "10.200.2.9/24", "dev", "v2"]);
    add_route(van, 2);
    van.wait_for_path("v2", &[PathState::Active], PATIENCE);
    wait_until_reached(van, SERVER);
}

/// A daemon whose `/etc` is a folder of the test's.
fn start_with_etc(site: &mut Site, etc: &Path) {
    site.start_over("/etc", etc);
}

#[test]
fn name_servers_are_those_of_the_tunnel_as_long_as_it_is_there() {
    let mut tunnel = prepare("dns = [\"10.77.0.1\", \"fd77::1\"]", "");
    let etc = tempfile::tempdir().unwrap();
    let file = etc.path().join("resolv.conf");
    let read = || fs::read_to_string(&file).unwrap();
    let earlier = "nameserver 203.0.113.5\nsearch example\n";
    fs::write(&file, earlier).unwrap();
    // The endpoint is a name that only the earlier name server knows, which the tunnel's own questions go to all the time.
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    tunnel.van.configure(&text.replace(&format!("{ENDPOINT}:"), "hq.example:"));
    let server = NameServer::start(&tunnel.hq, ENDPOINT, &[ENDPOINT.parse().unwrap()]);
    tunnel.hq.start();
    start_with_etc(&mut tunnel.van, etc.path());
    wait_until_reached(&tunnel.van, "10.77.0.1");
    let ours = "nameserver 10.77.0.1\nnameserver fd77::1\nsearch example\n";
    wait_for("our name servers", PATIENCE, || read().ends_with(ours).then_some(()));
    // Somebody else writes the file, as clients of DHCP do.
    let renewed = "nameserver 203.0.113.5\nsearch example.org\n";
    fs::write(&file, renewed).unwrap();
    wait_for("ours again", PATIENCE, || read().contains("nameserver 10.77.0.1\n").then_some(()));
    assert!(tunnel.van.terminate().success());
    assert_eq!(read(), renewed);
    // One that is killed leaves them, and still finds headquarters when it is started again.
    start_with_etc(&mut tunnel.van, etc.path());
    wait_until_reached(&tunnel.van, "10.77.0.1");
    tunnel.van.kill();
    assert!(read().contains("10.77.0.1"));
    start_with_etc(&mut tunnel.van, etc.path());
    wait_until_reached(&tunnel.van, "10.77.0.1");
    assert!(tunnel.van.terminate().success());
    assert_eq!(read(), renewed);
    assert_eq!(fs::read_dir(etc.path()).unwrap().count(), 1);
    drop(server);
}

/// Killed or told to end at fifty moments after its start, psmcd leaves nothing that `psmc clean` does not find.
#[test]
fn a_daemon_leaves_nothing_wherever_it_ends() {
    let settings = format!(
        "internet = true\nkill_switch = true\nexclude = [\"{PRINTER}/32\", \"uid:{USER}\"]\ndns = [\"10.77.0.1\"]"
    );
    let mut tunnel = prepare(&settings, "");
    let etc = tempfile::tempdir().unwrap();
    let file = etc.path().join("resolv.conf");
    fs::write(&file, "nameserver 203.0.113.5\n").unwrap();
    let folder = tunnel.van.file("sock").parent().unwrap().to_owned();
    let files = || {
        let names =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("van.") && name != "van.log").collect::<BTreeSet<_>>()
    };
    let before = (everything(&tunnel.van), files());
    tunnel.hq.start();
    let mut moment = File::open("/dev/urandom").unwrap();
    let mut ended = [0; 2];
    for round in 0..50 {
        let mut random = [0; 2];
        moment.read_exact(&mut random).unwrap();
        let after = Duration::from_micros(u64::from(u16::from_le_bytes(random)) * 6);
        start_with_etc(&mut tunnel.van, etc.path());
        // What comes to pass until then is not the same on any two machines: that is what is tried.
        sleep(after);
        let is_told = round % 2 == 0;
        if is_told {
            // Before it listens to signals it ends by them at once, and has done nothing yet.
            tunnel.van.terminate();
        } else {
            tunnel.van.kill();
        }
        let when = format!("round {round}: {} after {after:?}", if is_told { "ended" } else { "killed" });
        if !is_told {
            let cleaned = tunnel.van.clean_over("/etc", etc.path());
            assert!(cleaned.status.success(), "{when}: {cleaned:?}");
        }
        ended[usize::from(is_told)] += 1;
        assert_same(&before.0, &everything(&tunnel.van), &when);
        assert_eq!(files(), before.1, "{when}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "nameserver 203.0.113.5\n", "{when}");
        assert_eq!(fs::read_dir(etc.path()).unwrap().count(), 1, "{when}");
    }
    assert_eq!(ended, [25, 25]);
}
