//! Settings change under load, as when a configuration is read again.

use std::time::Duration;

use ipnet::IpNet;
use psmc_core::{ClassConfig, ClassMatch, PeerConfig, PeerError, ReorderPolicy, RepairKind, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet, peer_config};

/// A packet each way every half millisecond.
const PACE: Duration = Duration::from_micros(500);

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

#[test]
fn settings_that_change_lose_nothing_and_keep_the_order() {
    let setup = Setup::from(SchedulerKind::Earliest);
    let mut world = World::connected((1..4).map(|n| Link::new(8 * n)).collect(), setup);
    let policies =
        [ReorderPolicy::Fixed { timeout: Duration::from_secs(1), packets: 4096 }, ReorderPolicy::Deadline];
    let repairs = [RepairKind::Resend, RepairKind::Fec, RepairKind::Auto];
    let mut sent = 0;
    for round in 0..12 {
        let setup = Setup {
            scheduler: SchedulerKind::ALL[round % SchedulerKind::ALL.len()],
            reorder: policies[round % policies.len()],
            repair: repairs[round % repairs.len()],
            udp_rate_limits: [Some(100_000_000 + round as u64); 2],
            bad_path_rule: round % 3 == 0,
            ..setup
        };
        for end in [VAN, HQ] {
            let keepalive = Duration::from_secs(5 + round as u64);
            let config = PeerConfig { keepalive, ..peer_config(end, setup) };
            let (now, end) = (world.now, &mut world.ends[end]);
            end.site.peer(end.peer).expect("it is there").reconfigure(config, now);
            let tcp = ClassMatch { protocols: vec![TCP], ..ClassMatch::default() };
            let bulk = ClassConfig { name: "bulk".to_owned(), packets: tcp, ..ClassConfig::best_effort() };
            let mut classes = vec![bulk, ClassConfig::best_effort()];
            classes.drain(..round % 2);
            end.site.set_classes(classes);
        }
        for _ in 0..200 {
            for from in [VAN, HQ] {
                world.send(from, &packet(from, TCP, 7, sent, 1000));
            }
            sent += 1;
            world.run_for(PACE);
        }
    }
    world.run_for(Duration::from_secs(1));
    for end in [VAN, HQ] {
        assert!(world.flow_numbers(end, 7).into_iter().eq(0..sent), "all of them, in order, at {end}");
        let status = world.status(end);
        assert_eq!(status.udp_rate_limit, Some(100_000_011), "both know the new limit");
        let counted: u64 = status.classes.iter().map(|class| class.counters.passed).sum();
        assert!(counted >= u64::from(sent) / 2, "the counters of best effort go on: {counted}");
    }
}

#[test]
fn networks_move_from_peer_to_peer_all_at_once_or_not_at_all() {
    let setup = Setup::from(SchedulerKind::Earliest);
    let mut world = World::connected(vec![Link::new(5)], setup);
    let (now, van) = (world.now, &mut world.ends[VAN]);
    let config = |nets: &[&str]| PeerConfig {
        allowed_ips: nets.iter().map(|text| net(text)).collect(),
        ..peer_config(VAN, setup)
    };
    let second = van.site.add_peer(config(&["10.1.0.0/16"]), now).expect("free");
    let third = van.site.add_peer(config(&["10.2.0.0/16"]), now).expect("free");
    let taken = [(second, vec![net("10.2.0.0/16"), net("10.3.0.0/16")], 1)];
    assert_eq!(van.site.set_allowed_ips(&taken), Err(PeerError::PrefixTaken(net("10.2.0.0/16"))));
    let swapped = [(second, vec![net("10.2.0.0/16")], 1), (third, vec![net("10.1.0.0/16")], 1)];
    assert_eq!(van.site.set_allowed_ips(&swapped), Ok(()));
    // What is nobody's any more can be given to anybody.
    assert_eq!(van.site.set_allowed_ips(&[(third, vec![net("10.4.0.0/16")], 1)]), Ok(()));
    assert!(van.site.add_peer(config(&["10.1.0.0/16"]), now).is_ok());
    assert_eq!(
        van.site.add_peer(config(&["10.2.0.0/16"]), now),
        Err(PeerError::PrefixTaken(net("10.2.0.0/16")))
    );
    van.site.remove_peer(third);
    assert_eq!(van.site.set_allowed_ips(&[(third, Vec::new(), 1)]), Err(PeerError::Unknown));
}
