//! The configuration is read again while the tunnel carries traffic.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use psmc_api::{PathState, PathStatus};
use psmc_net::keys::PrivateKey;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Family, Plan, Site, Trickle, Tunnel, VAN, path_name, wait_for};
use psmc_testbed::programs::program;

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the traffic sends, which must not notice anything.
const INTERVAL: Duration = Duration::from_millis(2);

/// A network behind the headquarters that the file does not have at first.
const LAN: &str = "192.168.10.0/24";

/// Changes the text of a site's configuration, each part of which must be there.
fn edit(site: &Site, changes: &[(&str, &str)]) {
    let mut text = fs::read_to_string(site.file("toml")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from} in {text}");
        text = text.replacen(from, to, 1);
    }
    site.configure(&text);
}

/// What `psmc reload` says, with its exit status.
fn reload(site: &Site) -> (bool, String) {
    let Output { status, stdout, stderr } = site.psmc(&["reload"]);
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn reloaded(site: &Site) -> String {
    let (succeeds, text) = reload(site);
    assert!(succeeds, "{text}");
    text
}

fn path(site: &Site, name: &str) -> PathStatus {
    site.path(name).unwrap_or_else(|| panic!("no path {name}"))
}

/// The routes into the tunnel.
fn routes(site: &Site) -> String {
    site.run(&["ip", "route", "show", "table", "all", "dev", &site.status().site.interface])
}

#[test]
fn what_has_changed_in_the_file_is_applied_without_losing_a_packet() {
    steadily(Measured::Loss, || {
        let tunnel = Tunnel::start(Plan { links: 3, ..Plan::default() });
        let van = &tunnel.van;
        let [first, second, third] = [1, 2, 3].map(|link| path_name(VAN, link));
        let trickle = Trickle::start(van, &tunnel.hq, INTERVAL);
        let numbers = [1, 2, 3].map(|link| path(van, &path_name(VAN, link)).id);

        let other = PrivateKey::generate().public();
        let peer = format!(
            "[[peer]]\nname = \"depot\"\npublic_key = \"{other}\"\nallowed_ips = [\"10.99.0.0/24\"]\n\n[[peer]]\nname = \"hq\""
        );
        edit(
            van,
            &[
                ("[[peer]]\nname = \"hq\"", &peer),
                ("[\"10.77.0.1/32\"", &format!("[\"{LAN}\", \"10.77.0.1/32\"")),
                (&format!("name = \"{first}\""), &format!("name = \"{first}\"\nweight = 7")),
                (&format!("name = \"{second}\""), "name = \"another\""),
                (&format!("name = \"{third}\""), &format!("name = \"{third}\"\nmtu = 1400")),
            ],
        );
        let text = reloaded(van);
        for told in [
            "peer depot added".to_owned(),
            "peer hq: allowed_ips".to_owned(),
            format!("path {first} of hq"),
            format!("path {second} of hq"),
            format!("path {third} of hq"),
            "path another of hq".to_owned(),
        ] {
            assert!(text.contains(&told), "no {told} in {text}");
        }
        for name in [&first, &third, "another"] {
            wait_for(name, PATIENCE, || {
                let status = van.try_status()?;
                let paths = &status.peers.iter().find(|peer| peer.name == "hq")?.paths;
                paths.iter().any(|path| path.name == *name && path.state == PathState::Active).then_some(())
            });
        }
        let status = van.status();
        let names: Vec<_> = status.peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(names, ["hq", "depot"]);
        let paths = &status.peers[0].paths;
        let open =
            |name: &str| paths.iter().find(|path| path.name == name && path.state != PathState::Closing);
        assert_eq!(open(&first).map(|path| (path.id, path.weight)), Some((numbers[0], 7)), "the same path");
        assert!(open(&second).is_none(), "it is not in the file any more");
        assert_ne!(open(&third).map(|path| path.id), Some(numbers[2]), "it begins anew");
        assert!(routes(van).contains(LAN) && routes(van).contains("10.99.0.0/24"), "{}", routes(van));

        // And back, by the signal that systemd sends.
        edit(van, &[(&peer, "[[peer]]\nname = \"hq\""), (&format!("[\"{LAN}\", "), "[")]);
        van.signal(Signal::SIGHUP);
        wait_for("the peer's end", PATIENCE, || (van.try_status()?.peers.len() == 1).then_some(()));
        wait_for("the route's end", PATIENCE, || (!routes(van).contains(LAN)).then_some(()));
        assert!(!routes(van).contains("10.99.0.0/24"), "{}", routes(van));
        assert_eq!(trickle.finish(van), 0, "segments that were sent again");
        assert!(reloaded(van).contains("no changes"), "it was applied before");
    });
}

#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let van = &tunnel.van;
    let before = (routes(van), path(van, &path_name(VAN, 1)).id);
    edit(van, &[("10.77.0.1/32", "10.77.0.1/33"), ("scheduler = \"earliest\"", "scheduler = \"wrr\"")]);
    let (succeeds, text) = reload(van);
    assert!(!succeeds && text.contains("10.77.0.1/33") && text.contains("van.toml:"), "{text}");
    van.signal(Signal::SIGHUP);
    wait_for("a word in the log", PATIENCE, || {
        (van.log().matches("configuration not reloaded").count() == 2).then_some(())
    });
    assert_eq!((routes(van), path(van, &path_name(VAN, 1)).id), before);
    assert_eq!(van.peer().scheduler, "earliest");
    tunnel.ping(Family::V4);
}

#[test]
fn what_was_changed_by_hand_stays_and_is_told_apart() {
    let tunnel = Tunnel::start(Plan::default());
    let van = &tunnel.van;
    let [first, second] = [1, 2].map(|link| path_name(VAN, link));
    let endpoint = format!("{}:5115", tunnel.hq.end.outer(1, Family::V4));
    van.psmc_ok(&["path", "add", "hq", "extra", "--interface", &VAN.link(1), "--endpoint", &endpoint]);
    van.psmc_ok(&["path", "remove", "hq", &second]);
    van.psmc_ok(&["path", "set", "hq", &first, "--weight", "9"]);
    van.psmc_ok(&["peer", "set", "hq", "--scheduler", "backup"]);
    van.wait_for_path("extra", &[PathState::Active], PATIENCE);
    let extra = path(van, "extra");
    assert!(extra.added && !path(van, &first).added);

    edit(
        van,
        &[
            ("[[peer]]\nname = \"hq\"", "[[peer]]\nname = \"hq\"\nkeepalive = 17\n"),
            ("[site]", "[site]\nmtu = 1400"),
        ],
    );
    let text = reloaded(van);
    for told in [
        "peer hq: keepalive",
        "Needs a restart of psmcd:\n  mtu\n",
        "path extra of hq, added at run time",
        "scheduler backup of hq, set at run time",
        &format!("path {second} of hq, removed at run time"),
    ] {
        assert!(text.contains(told), "no {told} in {text}");
    }
    assert_eq!(path(van, "extra").id, extra.id);
    assert_eq!(path(van, &first).weight, 9);
    assert_eq!(van.peer().scheduler, "backup");

    // What the file says anew counts.
    edit(
        van,
        &[
            ("scheduler = \"earliest\"", "scheduler = \"wrr\""),
            (&format!("name = \"{second}\""), &format!("name = \"{second}\"\nweight = 2")),
        ],
    );
    let text = reloaded(van);
    assert!(text.contains("peer hq: scheduler") && text.contains(&format!("path {second} of hq")), "{text}");
    van.wait_for_path(&second, &[PathState::Active], PATIENCE);
    assert_eq!(van.peer().scheduler, "wrr");
}

#[test]
fn what_was_added_by_hand_is_kept_on_request() {
    let mut tunnel = Tunnel::start(Plan::default());
    let van = &tunnel.van;
    edit(van, &[("[site]", "# The van of the fleet.\n[site]")]);
    let before = fs::read_to_string(van.file("toml")).unwrap();
    let endpoint = format!("[{}]:5115", tunnel.hq.end.outer(1, Family::V6));
    van.psmc_ok(&["path", "add", "hq", "extra", "--interface", &VAN.link(1), "--endpoint", &endpoint]);
    van.psmc_ok(&["path", "set", "hq", "extra", "--weight", "7"]);
    let key = PrivateKey::generate().public().to_string();
    van.psmc_ok(&["peer", "add", "bus", "--public-key", &key, "--allowed-ips", "10.99.0.0/24"]);
    van.wait_for_path("extra", &[PathState::Active], PATIENCE);
    let id = path(van, "extra").id;

    for (disk, words) in [(READ_ONLY, "Read-only file system"), (FULL, "No space left on device")] {
        let output = save_with(van, disk);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains("nothing saved") && text.contains(words), "{text}");
        assert_eq!(fs::read_to_string(van.file("toml")).unwrap(), before);
    }
    let output = van.psmc(&["reload", "--save"]);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        output.status.success() && text.contains("path extra of hq\n") && text.contains("peer bus\n"),
        "{text}"
    );
    assert!(!text.contains("at run time"), "{text}");
    let after = fs::read_to_string(van.file("toml")).unwrap();
    assert!(after.starts_with(before.trim_end()), "{after}");
    assert_eq!(fs::metadata(van.file("toml")).unwrap().mode() & 0o777, 0o600);
    let extra = path(van, "extra");
    assert_eq!((extra.id, extra.added, extra.weight), (id, false, 7), "it is the same path");
    assert!(reloaded(van).contains("no changes"));

    tunnel.van.kill();
    tunnel.van.start();
    tunnel.van.wait_for_path("extra", &[PathState::Active], PATIENCE);
    assert_eq!(path(&tunnel.van, "extra").weight, 7);
    assert!(tunnel.van.status().peers.iter().any(|peer| peer.name == "bus" && !peer.added));
}

/// Nothing can be written in the folder of the configuration.
const READ_ONLY: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && mkdir -p /run/psmc && \
    mount -t tmpfs none /run/psmc && mkdir /run/psmc/x && mount --bind \"$1\" /run/psmc/x";

/// The folder is on a disk that has no room.
const FULL: &str = "mkdir -p /run/psmc && mount -t tmpfs none /run/psmc && mkdir /run/psmc/x && \
    mount --bind \"$1\" /run/psmc/x && mount -t tmpfs -o size=16k none \"$1\" && cp -p /run/psmc/x/van.toml \"$1\" && \
    { cat /dev/zero > \"$1/rest\" 2> /dev/null || true; }";

/// `psmc reload --save` where the folder of the configuration is like that, and the socket elsewhere.
fn save_with(site: &Site, disk: &str) -> Output {
    let script = format!("{disk} && exec \"$2\" --socket /run/psmc/x/van.sock reload --save");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(site.file("toml").parent().unwrap());
    command.arg(program("psmc")).output().unwrap()
}

/// A site that knows no peers' names waits for nothing but them.
#[test]
fn a_resolver_that_does_not_answer_stops_nothing_else() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    tunnel.hq.start();
    // Of the documentation: whatever is sent there is lost.
    tunnel.van.run(&[
        "ip",
        "route",
        "add",
        "192.0.2.53",
        "via",
        &tunnel.hq.end.outer(2, Family::V4).to_string(),
    ]);
    edit(&tunnel.van, &[(&format!("{}:5115", tunnel.hq.end.outer(2, Family::V4)), "hq.example:5115")]);
    tunnel.van.start_with_name_server("192.0.2.53");
    tunnel.van.wait_for_path(&path_name(VAN, 1), &[PathState::Active], PATIENCE);
    let start = Instant::now();
    assert!(tunnel.van.try_status().is_some());
    let answered = start.elapsed();
    let start = Instant::now();
    let (succeeds, text) = {
        let output = tunnel.van.psmc(&["path", "add", "hq", "more", "--endpoint", "hq.example:5115"]);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    println!("status after {answered:.0?}, a path refused after {:.0?}", start.elapsed());
    assert!(!succeeds && text.contains("hq.example:5115"), "{text}");
    assert!(answered < Duration::from_secs(1), "{answered:?}");
    let start = Instant::now();
    assert!(tunnel.van.terminate().success());
    let ended = start.elapsed();
    assert!(ended < Duration::from_secs(4), "it ended after {ended:?}");
}
