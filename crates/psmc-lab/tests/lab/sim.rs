//! Scenarios in virtual time. These tests need no privileges.

use std::path::Path;
use std::process::Command;

use psmc_lab::results::{Mode, Results};
use psmc_lab::scenario::Scenario;
use psmc_lab::sim::{SimError, simulate};

/// Two hosts with two links and a tunnel over both.
const TUNNEL: &str = r#"
[scenario]
name = "test"
duration = "8s"
seed = 3

[[link]]
name = "dsl"
between = ["van", "hq"]
rate = "20mbit"
delay = "10ms"
loss = "0.2%"

[[link]]
name = "lte"
between = ["van", "hq"]
rate = "10mbit"
delay = "25ms"
jitter = "3ms"

[[tunnel]]
name = "vpn"
between = ["van", "hq"]
"#;

fn scenario(text: &str) -> Scenario {
    let parsed = Scenario::parse(text, Path::new("test.toml"));
    parsed.unwrap_or_else(|error| panic!("{}", error.render(false)))
}

fn simulated(text: &str) -> Results {
    simulate(&scenario(text)).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    simulate(&scenario(text)).expect_err("it cannot be simulated").to_string()
}

#[test]
fn every_kind_of_traffic_crosses_a_tunnel() {
    let results = simulated(
        &(TUNNEL.to_owned()
            + r#"
[[traffic]]
name = "bulk"
kind = "tcp"
from = "van"
to = "hq"
[[traffic]]
name = "file"
kind = "tcp"
from = "hq"
to = "van"
flows = 2
bytes = "200kB"
congestion_control = "reno"
[[traffic]]
name = "voice"
kind = "udp"
from = "van"
to = "hq"
rate = "100kbit"
payload = 160
[[traffic]]
name = "web"
kind = "requests"
from = "van"
to = "hq"
rate = 5
[[traffic]]
name = "ping"
kind = "ping"
from = "van"
to = "hq"
"#),
    );
    let errors: Vec<_> = results.traffic.iter().filter_map(|traffic| traffic.error.as_ref()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let [bulk, file, voice, web, ping] = results.traffic.as_slice() else { panic!("five streams") };
    assert!((10.0..30.0).contains(&bulk.goodput_mbps), "{}", bulk.goodput_mbps);
    assert_eq!(file.bytes, 400_000);
    assert!((voice.goodput_mbps - 0.1).abs() < 0.002, "{}", voice.goodput_mbps);
    assert!((20..60).contains(&web.sent.unwrap()), "{:?}", web.sent);
    assert!(web.loss_percent.unwrap() < 1.0 && web.latency.as_ref().unwrap().min_ms >= 40.0);
    assert!(ping.latency.as_ref().unwrap().min_ms >= 20.0);
    assert_eq!((results.mode, results.paths.len(), results.links.len()), (Mode::Simulated, 2, 4));
    assert!(results.paths.iter().all(|path| path.sent_series_mbps.len() == 80), "a value every 100 ms");
}

#[test]
fn a_router_that_marks_drops_nothing_of_a_tunnels_path() {
    let marking = include_str!("../../../../scenarios/ecn.toml");
    let dropping = marking.replace("ecn = true", "ecn = false");
    assert_ne!(marking, dropping);
    let [marked, dropped] = [marking, &dropping].map(simulated);
    let lost = |results: &Results| -> f64 { results.links.iter().map(|link| link.dropped_percent).sum() };
    assert!(lost(&marked) <= 0.0 && lost(&dropped) > 0.0, "{} and {} %", lost(&marked), lost(&dropped));
    assert!(marked.checks.iter().all(|check| check.ok), "{:?}", marked.checks);
}

/// The examples, as they stand, and without their presets.
#[test]
fn presets_keep_what_balanced_does_not() {
    let of_live = include_str!("../../../../scenarios/live.toml");
    let of_gaming = include_str!("../../../../scenarios/gaming.toml");
    for (scenario, preset) in [(of_live, "live"), (of_gaming, "gaming")] {
        let balanced = scenario.replace(&format!("preset = \"{preset}\""), "preset = \"balanced\"");
        let [with, without] = [scenario, &balanced].map(simulated);
        let failed = |results: &Results| results.checks.iter().filter(|check| !check.ok).count();
        assert_eq!(failed(&with), 0, "{preset}: {:?}", with.checks);
        assert!(failed(&without) > 0, "{preset}: {:?}", without.checks);
    }
}

/// The example, as it stands: it would be twice as late, at the 99th percentile, if nobody knew of the slots.
#[test]
fn what_a_satellite_loses_at_known_times_goes_elsewhere() {
    let results = simulated(include_str!("../../../../scenarios/satellite.toml"));
    assert!(results.checks.iter().all(|check| check.ok), "{:?}", results.checks);
}

/// The example, as it stands.
#[test]
fn lines_that_are_full_both_ways_keep_most_of_their_rates() {
    let results = simulated(include_str!("../../../../scenarios/asymmetric.toml"));
    assert!(results.checks.iter().all(|check| check.ok), "{:?}", results.checks);
}

#[test]
fn quotas_are_left_to_real_programs() {
    let refused = refused(include_str!("../../../../scenarios/quota.toml"));
    assert!(refused.contains("path \"lte\" of tunnel \"vpn\": the simulator counts no quotas"), "{refused}");
}

#[test]
fn streams_of_tls_are_left_to_real_programs() {
    let refused = refused(include_str!("../../../../scenarios/hotel.toml"));
    assert!(
        refused.contains("path \"wifi\" of tunnel \"vpn\": the simulator has no transport but UDP"),
        "{refused}"
    );
}

#[test]
fn the_command_prints_the_same_bytes_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("scenario.toml");
    std::fs::write(&file, TUNNEL.to_owned() + "[[traffic]]\nkind = \"tcp\"\nfrom = \"van\"\nto = \"hq\"\n")
        .unwrap();
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-lab"));
        let output = command.arg("sim").arg(&file).args(["--json", "-"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let (first, second) = (run(), run());
    assert!(first == second, "the same scenario gives the same results");
    let results: Results = serde_json::from_slice(&first).unwrap();
    assert_eq!((results.scenario.as_str(), results.seed), ("test", 3));
}

#[test]
fn another_seed_is_another_chance() {
    let text = TUNNEL.to_owned() + "[[traffic]]\nkind = \"tcp\"\nfrom = \"van\"\nto = \"hq\"\n";
    assert_ne!(simulated(&text).traffic, simulated(&text.replace("seed = 3", "seed = 4")).traffic);
}

#[test]
fn a_check_that_does_not_hold_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("scenario.toml");
    let check = "[[traffic]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"van\"\nto = \"hq\"\n\
                 [[check]]\ntraffic = \"ping\"\nrtt_median = { at_most = \"1ms\" }\n";
    std::fs::write(&file, TUNNEL.to_owned() + check).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_psmc-lab")).arg("sim").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("FAILED"));
}

#[test]
fn events_happen_at_their_time() {
    let results = simulated(
        &(TUNNEL.to_owned()
            + r#"
[[traffic]]
name = "voice"
kind = "udp"
from = "van"
to = "hq"
rate = "2mbit"
payload = 1000
[[event]]
at = "2s"
cut = "dsl"
[[event]]
at = "3s"
restore = "dsl"
[[event]]
at = "4s"
black_hole = "dsl"
[[event]]
at = "5s"
restore = "dsl"
[[event]]
at = "6s"
kill = "vpn.hq"
[[event]]
at = "7s"
restart = "vpn.hq"
"#),
    );
    assert_eq!(results.events.len(), 6);
    assert!(results.events.iter().all(|event| event.at_s == event.happened_s));
    let voice = &results.traffic[0];
    let between = |from: f64, to: f64| {
        let series = voice.goodput_series_mbps.iter();
        series
            .filter(|sample| sample.at_s > from + 1e-6 && sample.at_s <= to + 1e-6)
            .map(|sample| sample.value)
            .sum::<f64>()
            / 10.0
            / (to - from)
    };
    assert!(between(1.0, 2.0) > 1.95 && between(2.0, 4.0) > 1.8, "the other path takes over");
    assert!(between(4.0, 5.0) > 1.6, "{} Mbit/s while a path is a black hole", between(4.0, 5.0));
    assert!(between(6.2, 7.0) < 0.01, "nobody is there");
    assert!(between(7.5, 8.0) > 1.9, "and back again");
    let dsl = &results.links[0];
    let rate =
        |at: f64| dsl.rate_series_mbps.iter().find(|sample| (sample.at_s - at).abs() < 1e-6).unwrap().value;
    assert!(rate(1.5) > 1.0 && rate(2.5) == 0.0 && rate(4.5) == 0.0);
}

#[test]
fn what_cannot_be_simulated_is_said_before_anything_is_done() {
    let text = TUNNEL.to_owned()
        + r#"
[[program]]
name = "web"
host = "hq"
command = ["nginx"]
[[traffic]]
name = "fast"
kind = "tcp"
congestion_control = "vegas"
from = "van"
to = "hq"
[[traffic]]
name = "video"
kind = "quic"
from = "van"
to = "hq"
[[traffic]]
name = "large"
kind = "udp"
rate = "1mbit"
payload = 1400
from = "van"
to = "hq"
"#;
    let message = refused(&text);
    for part in [
        "program \"web\"",
        "traffic \"fast\"",
        "\"vegas\"",
        "\"cubic\", \"reno\" or \"bbr\"",
        "traffic \"video\"",
        "at most 1372",
    ] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
    let plain = simulate(&scenario(&text));
    assert!(matches!(plain, Err(SimError::Unsupported(complaints)) if complaints.len() == 4));
}

#[test]
fn a_tunnel_that_cannot_come_up_says_why() {
    let text = TUNNEL.replace("loss = \"0.2%\"", "loss = \"100%\"");
    let message = refused(&text);
    assert!(message.contains("tunnel \"vpn\" is not up") && message.contains("path dsl is"), "{message}");
}

#[test]
fn a_thousand_sites_are_one_scenario() {
    let mut text = String::from("[scenario]\nname = \"many\"\nduration = \"2s\"\nsample = \"1s\"\n");
    for number in 0..500 {
        text += &format!(
            "[[link]]\nname = \"l{number}\"\nbetween = [\"a{number}\", \"b{number}\"]\nrate = \"10mbit\"\ndelay = \"10ms\"\n\
             [[tunnel]]\nname = \"t{number}\"\nbetween = [\"a{number}\", \"b{number}\"]\n\
             [[traffic]]\nname = \"p{number}\"\nkind = \"ping\"\nfrom = \"a{number}\"\nto = \"b{number}\"\n"
        );
    }
    let results = simulated(&text);
    assert_eq!(results.traffic.len(), 500);
    assert!(results.traffic.iter().all(|traffic| traffic.loss_percent == Some(0.0)));
}

/// A host between three others, which is like a device whose ports have 10 Mbit/s.
#[test]
fn a_router_is_like_its_profile() {
    let directory = tempfile::tempdir().unwrap();
    let profile = r#"
version = 1
name = "box"
[provenance]
confidence = "estimated"
source = "this test"
[[port]]
rate = "10mbit"
[[size]]
bytes = 1000
delay = "2ms"
served = 20
queued = 50
"#;
    std::fs::write(directory.path().join("box.toml"), profile).unwrap();
    let link = |name: &str| format!("[[link]]\nname = \"{name}\"\nbetween = [\"{name}\", \"box\"]\n");
    let stream = |from: &str| {
        format!(
            "[[traffic]]\nname = \"of-{from}\"\nkind = \"udp\"\nrate = \"8mbit\"\nfrom = \"{from}\"\nto = \"c\"\n"
        )
    };
    let ping = "[[traffic]]\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n";
    let router = "[[router]]\nhost = \"box\"\nprofile = \"box.toml\"\n";
    let text = ["a", "b", "c"].map(link).concat() + &stream("a") + &stream("b") + ping;
    let through = |router: &str| {
        let parsed = Scenario::parse(&(text.clone() + router), &directory.path().join("test.toml"));
        simulate(&parsed.unwrap_or_else(|error| panic!("{}", error.render(false)))).unwrap()
    };
    let goodput = |results: &Results| -> f64 {
        results.traffic.iter().filter(|stream| stream.kind == "udp").map(|stream| stream.goodput_mbps).sum()
    };
    let rtt = |results: &Results| results.traffic[2].latency.as_ref().unwrap().p50_ms;
    let (with, without) = (through(router), through(""));
    assert!((15.8..16.2).contains(&goodput(&without)), "{}", goodput(&without));
    // Of what the port transmits, headers and framing are not payload.
    assert!((9.0..9.9).contains(&goodput(&with)), "{}", goodput(&with));
    assert!(rtt(&without) < 0.1, "{}", rtt(&without));
    // Each way it is served for 2 ms, and transmitted.
    assert!((4.0..5.0).contains(&rtt(&with)), "{}", rtt(&with));
}
