//! Floods that break what was promised to a site: which prefix they are for, where they enter, and whom a coordinator hears it from;
//! and paths that carry too little to be told of, unless they are probed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_coordinator::local::{self, Answer, Request};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_signal::Stage;
use psmc_testbed::programs::program;

use crate::harness::{Family, Relayed, Site, Tunnel, wait_for};
use crate::sla::{PATIENCE, PAUSE, Traffic, at_fault, hook, target, told, wait_for_state};

/// From one packet of a flood to the next: 2,000 in a second, if the machine can.
const FLOOD_PAUSE: Duration = Duration::from_micros(500);

/// What a segment lets pass that the flood fills, in datagrams per second.
const NARROW: u32 = 500;

/// A coordinator on the van's host, whose only service is at the headquarters and has the van among its watchers.
struct Coordinator {
    key: PublicKey,
    socket: PathBuf,
    process: Child,
}

/// Who has given an alert, and what is flooded.
type Said = (String, Option<String>);

impl Coordinator {
    fn start(van: &Site, hq: &Site) -> Self {
        let (key, service) = (PrivateKey::generate(), PrivateKey::generate());
        let [key_file, service_file, file, socket] =
            ["co.key", "service.key", "co.toml", "co.sock"].map(|name| van.file(name));
        for (file, key) in [(&key_file, &key), (&service_file, &service)] {
            fs::write(file, key.to_base64().as_str()).unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        }
        let text = format!(
            "[coordinator]\nname = \"co\"\nprivate_key_file = '{}'\nlisten = \"127.0.0.1:5117\"\n\
             store = \"sqlite:{}\"\ncontrol_socket = '{}'\n\
             [[relay]]\nname = \"spare\"\naddress = \"127.0.0.9:5119\"\npublic_key = \"{}\"\n\
             [[service]]\nname = \"www.example.com\"\nkey_file = '{}'\naddresses = [\"{}\"]\nwatchers = [\"{}\"]\n",
            key_file.display(),
            van.file("co.db").display(),
            socket.display(),
            service.public(),
            service_file.display(),
            hq.inner(Family::V4),
            van.key.public(),
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program("psmc-coordinator"));
        command.arg("--config").arg(&file);
        let process = van.namespace.spawn(&mut command).unwrap();
        Self { key: key.public(), socket, process }
    }

    /// What watchers have said of its service, and how it stands.
    fn alerts(&self) -> Option<(Stage, Vec<Said>)> {
        let Ok(Answer::Status(status)) = local::ask(&self.socket, &Request::Status) else { return None };
        let service = &status.services[0];
        let alerts = service.alerts.iter().map(|open| (open.source.clone(), open.alert.target.clone()));
        Some((service.stage, alerts.collect()))
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Both fail only for one that has ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// All traffic is as usual until a flood to one host comes, and a segment has no room for it.
#[test]
fn a_flood_that_fills_a_segment_is_named_with_its_prefix_and_where_it_enters() {
    let mut world = Relayed::prepare(2, None);
    let (program, notes) = hook(&world.tunnel.van);
    let coordinator = Coordinator::start(&world.tunnel.van, &world.tunnel.hq);
    let sla = format!(
        "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\nloss = \"2%\"\nwindow = \"4s\"\non_breach = '{}'\n\
         [[sla.coordinator]]\naddress = \"127.0.0.1:5117\"\npublic_key = \"{}\"\n",
        program.display(),
        coordinator.key,
    );
    // Repairs of what such a segment drops would fill it by themselves, for it has no queue that would tell of that.
    world.start("repair = \"off\"\n", &(Relayed::path(&[0, 1]) + &sla));
    let Tunnel { van, hq, .. } = &world.tunnel;
    for site in [van, hq] {
        site.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
    }
    world.narrow_segment(1, NARROW);
    let _traffic = Traffic::of((van, hq), Family::V6, PAUSE, 400);
    wait_for("what is usual", PATIENCE, || target(van)["usual_to_mbps"].as_f64());
    wait_for_state(van, "met");
    let flood = Traffic::of((van, hq), Family::V4, FLOOD_PAUSE, 1000);
    let found = wait_for("an attack", PATIENCE, || {
        let target = target(van);
        let is_known = target["aggregates"][0]["cause"] == "attack";
        is_known.then_some(target)
    });
    println!("{found}");
    assert_eq!(at_fault(&found), [Some(1)], "{found}");
    let aggregate = &found["aggregates"][0];
    let prefix = format!("{}/32", hq.inner(Family::V4));
    assert_eq!(
        (&aggregate["from"], &aggregate["to"], &aggregate["prefix"]),
        (&"r0".into(), &"r1".into(), &prefix.as_str().into())
    );
    assert_eq!(aggregate["ingresses"][0]["name"], "10.77.0.0/24", "{found}");
    assert_eq!(aggregate["source_addresses"][0], van.inner(Family::V4).to_string(), "{found}");
    wait_for("a program that was told", PATIENCE, || (told(&notes, "cause promise") == 1).then_some(()));
    let text = String::from_utf8(van.psmc(&["sla"]).stdout).unwrap();
    println!("{text}");
    assert!(text.contains("looks like an attack"), "{text}");
    let (_, alerts) = wait_for("an alert", PATIENCE, || {
        coordinator.alerts().filter(|(stage, alerts)| *stage != Stage::Withdrawn && !alerts.is_empty())
    });
    assert_eq!(alerts, [(format!("watcher {}", van.key.public()), Some(prefix))]);
    drop(flood);
    let over = wait_for_state(van, "met");
    assert!(over["aggregates"].is_null() && over["faults"].is_null(), "{over}");
    wait_for("the alert's end", PATIENCE, || coordinator.alerts().filter(|(_, alerts)| alerts.is_empty()));
}

/// Nothing is sent through the tunnel but what psmcd sends to know how its path is.
#[test]
fn an_idle_path_is_known_if_it_is_probed() {
    let mut world = Relayed::prepare(2, None);
    let sla =
        "[[sla.target]]\nname = \"promise\"\npeer = \"hq\"\nloss = \"1%\"\nwindow = \"4s\"\nprobe = false\n";
    world.start("", &(Relayed::path(&[0, 1]) + sla));
    let Tunnel { van, hq, .. } = &world.tunnel;
    for site in [van, hq] {
        site.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
    }
    // Keepalives alone are too few in any window.
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        assert_eq!(target(van)["state"], "unknown");
        sleep(Duration::from_millis(500));
    }
    let text = fs::read_to_string(van.file("toml")).unwrap();
    van.reload(&text.replace("probe = false", "probe = true"), "");
    wait_for_state(van, "met");
    let begun = Instant::now();
    world.worsen_segment(1, 20);
    let broken = wait_for_state(van, "broken");
    println!("named after {:?} without traffic: {broken}", begun.elapsed());
    assert!(at_fault(&broken).iter().all(|at| *at == Some(1)), "{broken}");
    world.mend_segment(1);
    wait_for_state(van, "met");
}
