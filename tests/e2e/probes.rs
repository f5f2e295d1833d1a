//! `psmc ping`, `psmc speedtest`, `psmc trace` and `psmc capture`, on real links.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Family, Plan, Relayed, Site, Tunnel, VAN, met_address, path_name, wait_for};
use psmc_api::PathState;
use psmc_testbed::netns::Queue;
use psmc_testbed::programs::program;

/// How long something may take that a user waits for.
const PATIENCE: Duration = Duration::from_secs(15);

/// Drops all datagrams that come by a link.
fn silence(site: &Site, link: u8) {
    let rule = format!(
        "table inet silent {{ chain in {{ type filter hook input priority 0; iifname {} meta l4proto udp drop; }}; }}",
        site.end.link(link)
    );
    site.run(&["nft", &rule]);
}

/// What `psmc ping` says in the end.
fn ping(site: &Site, args: &[&str]) -> Value {
    let output = site.psmc(&[&["ping", "hq", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn each_path_is_pinged_by_itself_whatever_it_is_used_for() {
    const ROUNDS: u64 = 20;
    let tunnel = Tunnel::start(Plan::default());
    let names = [1, 2].map(|link| path_name(VAN, link));
    tunnel.van.psmc_ok(&["path", "set", "hq", &names[1], "--state", "standby"]);
    tunnel.hq.wait_for_path(&names[1], &[PathState::Standby], PATIENCE);
    let arrived = || [0, 1].map(|path: usize| tunnel.hq.path(&names[path]).expect("it is there").rx_packets);

    let before = arrived();
    let summary = ping(&tunnel.van, &["--count", &ROUNDS.to_string(), "--interval", "10ms"]);
    let challenged = std::iter::zip(arrived(), before).map(|(now, before)| now - before);
    assert!(challenged.min().is_some_and(|least| least >= ROUNDS), "each path has carried them");
    let paths = summary["paths"].as_array().unwrap();
    assert_eq!((&summary["peer"], &summary["rounds"]), (&"hq".into(), &ROUNDS.into()), "{summary:#}");
    assert_eq!(paths.len(), names.len(), "{summary:#}");
    for (path, name) in paths.iter().zip(&names) {
        let counts = [&path["sent"], &path["received"]];
        assert_eq!((&path["path"], counts), (&name.as_str().into(), [&ROUNDS.into(); 2]));
        let number = |key: &str| path[key].as_f64().unwrap();
        let [min, mean, max] = ["rtt_min_ms", "rtt_mean_ms", "rtt_max_ms"].map(number);
        assert!(0.0 < min && min <= mean && mean <= max, "{path:#}");
        assert!(number("rtt_mdev_ms") <= max - min, "{path:#}");
    }
    assert_eq!(paths[1]["state"], "standby");
    // Whoever is called pings as well.
    let output = tunnel.hq.psmc(&["ping", "van", "--count", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let is_timed = |name: &String| text.contains(&format!("{name}: round=1 time="));
    assert!(output.status.success() && names.iter().all(is_timed), "{text}");
}

#[test]
fn what_does_not_come_back_is_lost_and_a_summary_ends_it_all() {
    let tunnel = Tunnel::start(Plan::default());
    let names = [1, 2].map(|link| path_name(VAN, link));
    silence(&tunnel.hq, 2);
    let summary = ping(&tunnel.van, &["--count", "2", "--interval", "10ms", "--timeout", "300ms"]);
    let received: Vec<_> =
        summary["paths"].as_array().unwrap().iter().map(|path| &path["received"]).collect();
    assert_eq!(received, [&Value::from(2), &Value::from(0)], "{summary:#}");
    assert_eq!(summary["paths"][1]["loss_pct"], 100.0);

    // Until Ctrl-C.
    let mut command = Command::new(program("psmc"));
    command.arg("--socket").arg(tunnel.van.file("sock")).args([
        "ping",
        "hq",
        "--interval",
        "20ms",
        "--timeout",
        "50ms",
    ]);
    let log = tunnel.van.file("ping");
    let mut process = command.stdout(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let text = || std::fs::read_to_string(&log).unwrap();
    wait_for("some rounds", PATIENCE, || text().contains("round=3 ").then_some(()));
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(process.wait().unwrap().success(), "{}", text());
    let text = text();
    let summary = text.split("hq, rounds: ").nth(1).unwrap_or_else(|| panic!("no summary: {text}"));
    assert!(names.iter().all(|name| summary.contains(name)) && summary.contains("100.0 %"), "{text}");

    // Whoever asks for what there is not is told so.
    let output = tunnel.van.psmc(&["ping", "depot"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("there is no peer `depot`; this site has: hq"),
        "{error}"
    );
}

/// Runs `psmc` on the host of a site, where the tunnel is.
fn psmc_there(site: &Site, args: &[&str]) -> Output {
    let (psmc, socket) = (program("psmc"), site.file("sock"));
    site.try_run(&[&[psmc.to_str().unwrap(), "--socket", socket.to_str().unwrap()], args].concat())
}

/// What `psmc speedtest` has measured.
fn speedtest(site: &Site, args: &[&str]) -> Value {
    let output = psmc_there(site, &[&["speedtest", "hq", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `psmc speedtest` says when it has not.
fn speedtest_error(site: &Site, args: &[&str]) -> String {
    let output = psmc_there(site, &[&["speedtest"], args].concat());
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Lets peers of a site test, or not.
fn allow_speedtests(site: &Site, allowed: bool) {
    let text = std::fs::read_to_string(site.file("toml")).unwrap();
    let (before, now) = (format!("speedtest = {}\n", !allowed), format!("speedtest = {allowed}\n"));
    let text = if text.contains(&before) {
        text.replace(&before, &now)
    } else {
        text.replacen("[site]\n", &format!("[site]\n{now}"), 1)
    };
    site.configure(&text);
    let output = site.psmc(&["reload"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("speedtest"), "{said}");
}

#[test]
fn a_path_is_tested_by_itself_and_all_together() {
    const SLOW: u64 = 4_000_000;
    let tunnel = Tunnel::start(Plan { mbit: Some(40), ..Plan::default() });
    let names = [1, 2].map(|link| path_name(VAN, link));
    for site in [&tunnel.van, &tunnel.hq] {
        let queue = Queue::Delay(Duration::from_millis(50));
        site.namespace.shape(&site.end.link(2), SLOW, 16_000, queue).unwrap();
    }
    allow_speedtests(&tunnel.hq, true);

    // What is tested on one path leaves on no other one, in either direction, not even if it stands by.
    tunnel.van.psmc_ok(&["path", "set", "hq", &names[0], "--state", "standby"]);
    tunnel.hq.wait_for_path(&names[0], &[PathState::Standby], PATIENCE);
    let carried = || {
        let paths = [0, 1].map(|path: usize| tunnel.van.path(&names[path]).expect("it is there"));
        paths.map(|path| path.tx_bytes + path.rx_bytes)
    };
    for (tested, other) in [(0, 1), (1, 0)] {
        let before = carried();
        let report = speedtest(&tunnel.van, &["--path", &names[tested], "--bytes", "1M"]);
        let measured = report["measurements"].as_array().unwrap();
        assert_eq!((measured.len(), &measured[0]["path"]), (1, &names[tested].as_str().into()), "{report:#}");
        assert_eq!(
            [&measured[0]["up"]["bytes"], &measured[0]["down"]["bytes"]],
            [&Value::from(1_000_000); 2]
        );
        let now = carried();
        let [tested, other] = [tested, other].map(|path| now[path] - before[path]);
        assert!(tested > 2_000_000 && other < 200_000, "{tested} and {other} bytes");
    }

    tunnel.van.psmc_ok(&["path", "set", "hq", &names[0], "--state", "active"]);
    tunnel.hq.wait_for_path(&names[0], &[PathState::Active], PATIENCE);
    let report = speedtest(&tunnel.van, &["--time", "2s"]);
    let measured = report["measurements"].as_array().unwrap();
    println!("{report:#}");
    assert_eq!(
        measured.iter().map(|one| one["path"].as_str()).collect::<Vec<_>>(),
        [Some(names[0].as_str()), Some(names[1].as_str()), None]
    );
    for direction in ["up", "down"] {
        let [fast, slow, together] = [0, 1, 2].map(|one| measured[one][direction]["mbps"].as_f64().unwrap());
        assert!(slow < 1.1 * SLOW as f64 / 1e6, "{direction}: {slow}");
        assert!(fast > 1.5 * slow && together > 1.5 * slow, "{direction}: {fast}, {slow}, {together}");
    }
}

#[test]
fn only_who_is_allowed_to_tests_and_only_inside() {
    let tunnel = Tunnel::start(Plan::default());
    let refused = speedtest_error(&tunnel.van, &["hq"]);
    assert!(refused.contains("hq does not let its peers test: add `speedtest = true`"), "{refused}");
    allow_speedtests(&tunnel.hq, true);
    let listening = tunnel.hq.run(&["ss", "-Hltn", "sport = 5116"]);
    let [v4, v6] = [Family::V4, Family::V6].map(|family| tunnel.hq.inner(family).to_string());
    assert!(
        listening.lines().count() == 2 && listening.contains(&v4) && listening.contains(&v6),
        "{listening}"
    );

    // One test at a time of a peer: a second one waits, and is told to when it takes too long.
    let script = "exec 3<>/dev/tcp/$1/5116; \
        echo '{\"direction\":\"up\",\"milliseconds\":30000,\"bytes\":1000}' >&3; \
        read -r line <&3; echo $line; read -r line <&3";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", &v4]).stdout(Stdio::piped());
    let mut busy = tunnel.van.namespace.spawn(&mut command).unwrap();
    let mut line = String::new();
    BufReader::new(busy.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"result\":\"go\"}\n");
    busy.kill().unwrap();
    busy.wait().unwrap();
    let report = speedtest(&tunnel.van, &["--bytes", "100k", "--address", &v6]);
    assert_eq!(report["measurements"].as_array().unwrap().len(), 3, "{report:#}");

    for (args, expected) in [
        (&["hq", "--path", "dsl"][..], "there is no path `dsl` that carries data"),
        (&["depot"], "there is no peer `depot`"),
        (&["hq", "--time", "31s"], "at most 30 s"),
    ] {
        let error = speedtest_error(&tunnel.van, args);
        assert!(error.contains(expected), "{error}");
    }
    allow_speedtests(&tunnel.hq, false);
    let refused = speedtest_error(&tunnel.van, &["hq"]);
    assert!(refused.contains("hq does not let its peers test"), "{refused}");
}

/// What `psmc trace` has found of each path.
fn trace(site: &Site, args: &[&str]) -> Vec<Value> {
    let output = psmc_there(site, &[&["trace", "hq", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["paths"].as_array().unwrap().clone()
}

#[test]
fn the_way_of_each_path_is_traced_over_its_own_uplink() {
    let tunnel = Tunnel::start(Plan::default());
    let ways = trace(&tunnel.van, &[]);
    assert_eq!(ways.len(), 2, "{ways:#?}");
    for (way, link) in ways.iter().zip([1, 2]) {
        assert_eq!(way["path"], path_name(VAN, link));
        assert_eq!(way["interface"], VAN.link(link));
        let hops = way["hops"].as_array().unwrap();
        let there = tunnel.hq.end.outer(link, Family::V4).to_string();
        assert_eq!((hops.len(), &hops[0]["address"]), (1, &there.as_str().into()), "{way:#}");
        assert_eq!(way["end"], "arrived");
        assert!(way["rtt_ms"].as_f64().is_some() && hops[0]["rtt_ms"].as_f64().is_some(), "{way:#}");
    }
    let one = path_name(VAN, 2);
    let output = psmc_there(&tunnel.van, &["trace", "hq", "--path", &one]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("path {one} (active): v2, ")), "{text}");
    assert!(text.contains("   1  10.200.2.2 ") && text.contains("hq, on the path itself"), "{text}");
    let output = psmc_there(&tunnel.van, &["trace", "hq", "--path", "dsl"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("there is no such path to hq"), "{error}");
}

#[test]
fn a_path_through_a_relay_is_traced_to_that_and_names_it() {
    let mut world = Relayed::prepare(1, None);
    world.start("", &Relayed::path(&[0]));
    let van = &world.tunnel.van;
    van.wait_for_path("r0", &[PathState::Active], PATIENCE);
    let ways = trace(van, &[]);
    let hops = ways[0]["hops"].as_array().unwrap();
    assert_eq!((ways.len(), hops.len()), (1, 1), "{ways:#?}");
    assert_eq!(hops[0]["address"], met_address(0).to_string());
    assert_eq!((&ways[0]["relays"], &ways[0]["end"]), (&vec!["r0"].into(), &"arrived".into()));
    assert!(ways[0]["rtt_ms"].as_f64() > hops[0]["rtt_ms"].as_f64().map(|_| 0.0), "{ways:#?}");
}

#[test]
fn wireshark_shows_what_is_inside_with_an_interface_for_each_path() {
    let tunnel = Tunnel::start(Plan { scheduler: "redundant", ..Plan::default() });
    let interfaces = [1, 2].map(|link| format!("hq/{}", path_name(VAN, link)));
    let file = tunnel.van.file("pcapng");
    let mut command = Command::new(program("psmc"));
    command
        .arg("--socket")
        .arg(tunnel.van.file("sock"))
        .args(["capture", "--peer", "hq", "--filter", "icmp", "-w"]);
    let mut process = command.arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    let fields = [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "icmp.type",
        "_ws.malformed",
        "icmp.checksum.status",
    ];
    let read = || {
        let mut command = Command::new("tshark");
        command
            .arg("-r")
            .arg(&file)
            .args(["-T", "fields"])
            .args(fields.iter().flat_map(|field| ["-e", field]));
        let output = command.output().expect("tshark is installed");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (request, reply) = (("0x00000002", "8"), ("0x00000001", "0"));
    // An echo goes out by each path and comes back by each, its checksum is right, and nothing is malformed.
    let lines = wait_for("echoes of each path in either direction", PATIENCE, || {
        tunnel.ping(Family::V4);
        let lines = read();
        let has = |interface: &String, (direction, kind): (&str, &str)| {
            lines.iter().any(|line| *line == format!("{interface}\t{direction}\t{kind}\t\t1"))
        };
        let all = interfaces.iter().all(|interface| has(interface, request) && has(interface, reply));
        all.then_some(lines)
    });
    println!("{}", lines.join("\n"));
    // Another client has to wait.
    let output = tunnel.van.psmc(&["capture", "-w", "/dev/null"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("another client captures already"), "{error}");
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(process.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.ends_with(" packets\n"), "{said}");
    let odd = read().into_iter().find(|line| {
        !interfaces.iter().any(|interface| line.starts_with(interface)) || !line.ends_with("\t\t1")
    });
    assert_eq!(odd, None);
}

/// Each path has one more interface, on which its datagrams are as they are seen on the uplink.
#[test]
fn wireshark_shows_what_is_outside_with_an_interface_for_each_path() {
    let tunnel = Tunnel::start(Plan { scheduler: "redundant", ..Plan::default() });
    let file = tunnel.van.file("pcapng");
    let mut command = Command::new(program("psmc"));
    command.arg("--socket").arg(tunnel.van.file("sock")).args([
        "capture",
        "--outside",
        "--filter",
        "icmp",
        "-w",
    ]);
    let mut process = tunnel.van.namespace.spawn(command.arg(&file).stderr(Stdio::null())).unwrap();
    let seen = |filter: &str| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&file).args([
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            "frame.packet_flags_direction",
        ]);
        let output = command.output().expect("tshark is installed");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    for link in [1, 2] {
        let inside = format!("hq/{}", path_name(VAN, link));
        let outside = format!("frame.interface_name == \"{inside} (outside)\" && udp.port == 5115");
        wait_for("datagrams and echoes of each path in either direction", PATIENCE, || {
            tunnel.ping(Family::V4);
            let filters = [outside.clone(), format!("frame.interface_name == \"{inside}\" && icmp")];
            filters.iter().all(|filter| seen(filter).len() == 2).then_some(())
        });
        let own = format!("ip.addr == {}", VAN.outer(link, Family::V4));
        let strange = format!("frame.interface_name == \"{inside} (outside)\" && ip && !({own})");
        assert_eq!(seen(&strange), BTreeSet::new());
    }
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(process.wait().unwrap().success());
}
