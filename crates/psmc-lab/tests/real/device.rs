//! The profiler with real packets, through emulated devices of which everything is known, and through some that are none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ipnet::IpNet;
use psmc_lab::device::replay::replay_captures;
use psmc_lab::device::{Confidence, DeviceProfile};
use psmc_lab::emulator::{Builder, Emulator, Plan, RouterPlan, Table};
use psmc_lab::scenario::LinkId;
use psmc_sim::link::{LinkConfig, Probability};
use psmc_testbed::netns::Namespace;
use psmc_testbed::steadily::{Measured, steadily};
use tempfile::TempDir;

/// What the profile of an emulated device says of itself.
const DEVICE: &str = r#"
version = 1
name = "known"

[provenance]
confidence = "estimated"
source = "this test"

[[port]]
count = 3
rate = "10mbit"

[[size]]
bytes = 182
delay = "700us"
served = 2.5
queued = 90

[[size]]
bytes = 1482
delay = "1500us"
served = 2.1
queued = 60
"#;

/// A host with three ports, `p0` to `p2`, each of which leads to a router.
struct Bench {
    tester: Namespace,
    router: Namespace,
    _emulator: Emulator,
    directory: TempDir,
}

impl Bench {
    /// The links are like this, and the router as the profile says, if there is one.
    fn new(link: &LinkConfig, device: Option<&DeviceProfile>) -> Self {
        Self::captured(link, device, None)
    }

    /// The same, with captures in a directory: those at the tester are called `tester0.pcap` and so on.
    fn captured(link: &LinkConfig, device: Option<&DeviceProfile>, captures: Option<&Path>) -> Self {
        let [tester, router] = [(); 2].map(|()| Namespace::new().expect("this test needs root"));
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        let mut builder = Emulator::builder().unwrap();
        let ports: Vec<_> =
            (0..3).map(|port| join(&mut builder, [&tester, &router], port, link, captures)).collect();
        if let Some(device) = device {
            let table = Table {
                own: (0..3).map(|port| address(port, 1).addr()).collect(),
                routes: (0..3).map(|port| (address(port, 1).trunc(), port)).collect(),
            };
            let ports = ports.iter().map(|link| (*link, 1)).collect();
            builder.router(RouterPlan { config: device.config(3).unwrap(), seed: 1, ports, table });
        }
        let emulator = builder.start().unwrap();
        for port in 0..3 {
            tester.add_address(&format!("p{port}"), address(port, 2)).unwrap();
            router.add_address(&format!("p{port}"), address(port, 1)).unwrap();
        }
        Self { tester, router, _emulator: emulator, directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the tool as a user would.
    fn profile(&self, arguments: &[&str]) -> Output {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc-lab"));
        tool.arg("profile").args(arguments).current_dir(self.directory.path());
        tool.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        self.tester.spawn(&mut tool).unwrap().wait_with_output().unwrap()
    }

    /// What it complains of, having left nothing.
    fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.profile(&[arguments, &["-o", "box.toml", "--rate", "10mbit", "-q"]].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!self.file("box.toml").exists());
        text
    }
}

fn address(port: usize, host: u8) -> IpNet {
    format!("10.7.{port}.{host}/24").parse().unwrap()
}

fn join(
    builder: &mut Builder,
    ends: [&Namespace; 2],
    port: usize,
    link: &LinkConfig,
    captures: Option<&Path>,
) -> LinkId {
    let name = format!("p{port}");
    let captures =
        captures.map(|directory| ["tester", "router"].map(|end| directory.join(format!("{end}{port}.pcap"))));
    let plan = Plan {
        ends: ends.map(|end| (end, name.as_str())),
        directions: [link.clone(), link.clone()],
        seeds: [1, 2],
        captures,
    };
    builder.link(plan).unwrap()
}

fn known() -> DeviceProfile {
    DeviceProfile::parse(DEVICE, Path::new("known.toml")).unwrap()
}

const PORTS: &str = "p0,p1,p2";

#[test]
fn what_is_known_of_a_device_is_found() {
    steadily(Measured::Rate, || {
        let cables = Bench::new(&LinkConfig::default(), None);
        let file = cables.file("cables.json");
        let calibrated = ["--calibrate", "--ports", "p0,p1", "--sizes", "182,1482", "-o"];
        let output = cables.profile(&[&calibrated[..], &[file.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let captures = tempfile::tempdir().unwrap();
        let bench = Bench::captured(&LinkConfig::default(), Some(&known()), Some(captures.path()));
        let file = file.to_str().unwrap();
        let measure = [
            "--ports",
            PORTS,
            "--rate",
            "10mbit",
            "--sizes",
            "182,1482",
            "--calibration",
            file,
            "-o",
            "box.toml",
        ];
        let output = bench.profile(&[&measure[..], &["--plots", "plots", "--json", "all.json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for name in ["all.json", "plots/delay.svg", "plots/load.svg"] {
            assert!(bench.file(name).exists(), "{name}");
        }
        assert!(!bench.file("box.toml.part").exists(), "all is measured");
        let found = DeviceProfile::load(&bench.file("box.toml")).unwrap();
        compare(&known(), &found);
        drop(bench);
        replay(&known(), captures.path());
    });
}

/// The packets that were sent would have been treated by the model as they were.
fn replay(known: &DeviceProfile, captures: &Path) {
    let captures: Vec<_> = (0..3).map(|port| captures.join(format!("tester{port}.pcap"))).collect();
    let replayed = replay_captures(known, &captures).unwrap();
    let table = replayed.table();
    assert!(replayed.all.packets > 2000 && replayed.all.observed.loss > 0.1, "{table}");
    for (_, port) in &replayed.ports {
        assert!(port.distance < 0.2, "{table}");
        assert!((port.observed.loss - port.modelled.loss).abs() < 0.03, "{table}");
        assert!((port.modelled.mean / port.observed.mean - 1.0).abs() < 0.1, "{table}");
    }
}

/// Each number is within 5 % of what it should be.
fn compare(known: &DeviceProfile, found: &DeviceProfile) {
    let mut wrong = Vec::new();
    let mut near = |what: String, given: f64, found: f64| {
        if (found / given - 1.0).abs() > 0.05 {
            wrong.push(format!("{what}: {found} instead of {given}"));
        }
    };
    near("rate".to_owned(), known.ports[0].rate as f64, found.ports[0].rate as f64);
    for (given, size) in known.sizes.iter().zip(&found.sizes) {
        let figures = [
            ("delay", given.delay, size.delay),
            ("served", given.served, size.served),
            ("queued", given.queued, size.queued),
        ];
        for (what, given, found) in figures {
            near(format!("{what} of {} bytes", size.bytes), given.estimate.value, found.estimate.value);
        }
        assert_ne!(size.served.confidence, Confidence::AtLeast, "three ports bring more than it serves");
    }
    assert!(wrong.is_empty(), "{}", wrong.join(", "));
}

#[test]
fn what_is_no_device_is_complained_about() {
    let bench = Bench::new(&LinkConfig::default(), None);
    assert!(bench.complaint(&["--ports", "p0"]).contains("name two different ports"));
    assert!(bench.complaint(&["--ports", "p0,p9"]).contains("no interface p9"));
    assert!(
        bench
            .complaint(&["--ports", "p0,p1", "--sizes", "2000"])
            .contains("takes packets of up to 1500 bytes")
    );
    let stranger = bench.complaint(&["--ports", "p0,p1", "--gateways", "10.7.0.9,10.7.1.1"]);
    assert!(stranger.contains("nobody at p0 has the address 10.7.0.9"), "{stranger}");
    bench.router.sysctl("net.ipv4.ip_forward", "0").unwrap();
    assert!(bench.complaint(&["--ports", "p0,p1"]).contains("does the device forward"));
    bench.tester.set_link("p1", false).unwrap();
    assert!(bench.complaint(&["--ports", "p0,p1"]).contains("p1 is down"));
}

#[test]
fn what_duplicates_or_reorders_is_complained_about() {
    let chance = |share| Probability::new(share).unwrap();
    let twice = LinkConfig { duplicate: chance(0.5), ..LinkConfig::default() };
    let complaint = Bench::new(&twice, None).complaint(&["--ports", "p0,p1"]);
    assert!(complaint.contains("the device duplicates packets"), "{complaint}");
    let delay = std::time::Duration::from_millis(45);
    let ahead = LinkConfig { delay, reorder: chance(0.4), ..LinkConfig::default() };
    let complaint = Bench::new(&ahead, None).complaint(&["--ports", "p0,p1"]);
    assert!(complaint.contains("arrived behind later ones"), "{complaint}");
}
