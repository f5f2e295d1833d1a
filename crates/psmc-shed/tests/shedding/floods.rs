//! Floods: what arrives, what is dropped where, and what happens when agents are killed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_shed::status::RouterStatus;
use psmc_testbed::netns::Queue;
use psmc_testbed::poll::wait_for;
use psmc_testbed::steadily::{Measured, steadily, turn};

use crate::world::{Arrivals, Flood, LIMITED, OTHER, PATIENCE, World};

/// What the server accepts of the limited class, as its file says it and in bytes per second.
const ACCEPTED: (&str, f64) = ("4mbit", 500_000.0);

/// A flood, in bytes per second: eight times that.
const FLOOD: u32 = 4_000_000;

/// How soon what arrives must be what is accepted (fig. 9 of DRAIN).
const SOON: Duration = Duration::from_secs(5);

fn router(world: &World, number: usize) -> RouterStatus {
    world.routers[number].status().router.unwrap()
}

#[test]
fn what_arrives_is_what_is_accepted_and_nobody_else_is_touched() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let mut world = World::new();
        world.start_routers("");
        world.start_server(ACCEPTED.0, "");
        world.wait_until_current();
        let limited = Arrivals::at(&world.server.namespace, LIMITED);
        let other = Arrivals::at(&world.server.namespace, OTHER);
        let (calm, beside) = (
            Flood::start(&world.clients[1], LIMITED, 100_000),
            Flood::start(&world.clients[0], OTHER, 200_000),
        );
        let flood = Flood::start(&world.clients[0], LIMITED, FLOOD);
        sleep(SOON);
        let rates = limited.rates(Duration::from_secs(3));
        println!("accepted {}, arriving {rates:?}", ACCEPTED.1);
        let sum: f64 = rates.iter().sum();
        assert!((0.9..1.1).contains(&(sum / ACCEPTED.1)), "{rates:?} of {}", ACCEPTED.1);
        assert!(rates[1] > 95_000.0, "who asks for less than its fair share has it: {rates:?}");
        let explained = world.server.explain("limited");
        assert!(explained.contains("at r1: more is offered than the"), "{explained}");
        assert!(world.routers[0].explain("hq/limited").contains("is dropped, for its server asks for it"));
        drop(flood);
        let (sent, from_calm) = (beside.sent(), calm.sent());
        wait_for("the rest to arrive", PATIENCE, || (other.counts()[0] >= sent).then_some(()));
        wait_for("the rest to arrive", PATIENCE, || (limited.counts()[1] >= from_calm).then_some(()));
        wait_for("the limit to be lifted", PATIENCE, || {
            let rules = &router(&world, 0).servers[0].rules;
            rules.iter().all(|rule| rule.limit_bytes_per_s.is_none()).then_some(())
        });
    });
}

#[test]
fn a_class_of_one_source_leaves_others_alone() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let mut world = World::new();
        world.start_routers("");
        let sections = world.of_server(ACCEPTED.0, "");
        let sections = sections.replace("protocol =", "source = \"10.1.1.0/24\"\nprotocol =");
        world.server.start(&sections);
        world.wait_until_current();
        let arrivals = Arrivals::at(&world.server.namespace, LIMITED);
        let _floods = [0, 1].map(|client: usize| Flood::start(&world.clients[client], LIMITED, 1_500_000));
        sleep(SOON);
        let rates = arrivals.rates(Duration::from_secs(3));
        println!("accepted {} from the first, arriving {rates:?}", ACCEPTED.1);
        assert!((0.9..1.15).contains(&(rates[0] / ACCEPTED.1)), "{rates:?}");
        assert!(rates[1] > 1_350_000.0, "the other is in no class: {rates:?}");
    });
}

#[test]
fn what_is_accepted_follows_demand_from_one_router_to_the_other() {
    steadily(Measured::Rate, || {
        let _turn = turn();
        let mut world = World::new();
        world.start_routers("");
        world.start_server(ACCEPTED.0, "");
        world.wait_until_current();
        let arrivals = Arrivals::at(&world.server.namespace, LIMITED);
        let flood = Flood::start(&world.clients[0], LIMITED, FLOOD);
        sleep(SOON);
        drop(flood);
        let _flood = Flood::start(&world.clients[1], LIMITED, FLOOD);
        sleep(Duration::from_secs(1));
        let rates = arrivals.rates(Duration::from_secs(3));
        println!(
            "accepted {}, arriving from the second to the fourth second after the shift {rates:?}",
            ACCEPTED.1
        );
        // What a limit has saved up comes as well, a second of it.
        assert!((0.95..2.0).contains(&(rates[1] / ACCEPTED.1)), "{rates:?}");
    });
}

#[test]
fn a_router_forwards_everything_once_nobody_renews_its_rules() {
    let mut world = World::new();
    world.start_routers("");
    world.start_server(ACCEPTED.0, "");
    world.wait_until_current();
    let arrivals = Arrivals::at(&world.server.namespace, LIMITED);
    let _flood = Flood::start(&world.clients[0], LIMITED, FLOOD);
    let limited = || {
        let rules = &router(&world, 0).servers[0].rules;
        rules
            .iter()
            .any(|rule| rule.limit_bytes_per_s.is_some() && rule.dropped_bytes_per_s > 1e6)
            .then_some(())
    };
    wait_for("the limit", PATIENCE, limited);
    let everything = |what: &str| {
        wait_for(what, PATIENCE, || {
            (arrivals.rates(Duration::from_millis(500))[0] > 0.7 * f64::from(FLOOD)).then_some(())
        });
    };
    // The server's agent, while the router's goes on: rules end there.
    let killed = Instant::now();
    world.server.end("-KILL");
    everything("rules of a server that is gone end");
    println!(
        "the server's agent killed: everything is forwarded after {:.1} s",
        killed.elapsed().as_secs_f64()
    );
    wait_for("that is counted", PATIENCE, || (router(&world, 0).counts.lapsed == 1).then_some(()));
    world.start_server(ACCEPTED.0, "");
    wait_for("the limit", PATIENCE, || {
        let rules = &router(&world, 0).servers[0].rules;
        rules
            .iter()
            .any(|rule| rule.limit_bytes_per_s.is_some() && rule.dropped_bytes_per_s > 1e6)
            .then_some(())
    });
    // The router's agent: the kernel ends what it has left.
    let killed = Instant::now();
    world.routers[0].end("-KILL");
    assert!(world.routers[0].ruleset().contains("limit rate over"), "it is still there");
    everything("the kernel ends rules of a router's agent that is gone");
    println!(
        "the router's agent killed: everything is forwarded after {:.1} s",
        killed.elapsed().as_secs_f64()
    );
    // The next one begins with nothing of that, and leaves nothing.
    let sections = world.of_router("");
    world.routers[0].start(&sections);
    world.wait_until_current();
    world.routers[0].end("-TERM");
    assert_eq!(world.routers[0].ruleset(), "");
}

#[test]
fn a_server_that_starts_anew_goes_on_from_what_routers_have() {
    let mut world = World::new();
    world.start_routers("");
    world.start_server(ACCEPTED.0, "");
    world.wait_until_current();
    let _flood = Flood::start(&world.clients[0], LIMITED, FLOOD);
    let limits = |world: &World| -> Vec<Option<u64>> {
        router(world, 0).servers[0].rules.iter().map(|rule| rule.limit_bytes_per_s).collect()
    };
    wait_for("the limit", PATIENCE, || limits(&world).first().copied().flatten());
    world.server.end("-TERM");
    world.start_server(ACCEPTED.0, "");
    let mut seen = Vec::new();
    wait_for("the new agent's rules", PATIENCE, || {
        seen.push(limits(&world));
        world.server.status().server?.upstreams.iter().all(|upstream| upstream.current).then_some(())
    });
    seen.push(limits(&world));
    assert!(seen.iter().all(|limits| limits.iter().all(Option::is_some)), "{seen:?}");
}

#[test]
fn limits_wait_for_congestion_where_they_are_told_to() {
    let mut world = World::new();
    for router in &world.routers {
        router.namespace.shape("eth1", 16_000_000, 10_000, Queue::Bytes(100_000)).unwrap();
    }
    world.start_routers("interfaces = [\"eth1\"]\nwhen = \"congested\"");
    world.start_server(ACCEPTED.0, "");
    world.wait_until_current();
    // Twice what is accepted is half of what the line carries.
    let surplus = Flood::start(&world.clients[0], LIMITED, 1_000_000);
    wait_for("the limit", PATIENCE, || {
        router(&world, 0).servers[0].rules.iter().find_map(|rule| rule.limit_bytes_per_s)
    });
    sleep(Duration::from_secs(2));
    let calm = router(&world, 0);
    assert!(!calm.enforced && calm.servers[0].rules[0].dropped_bytes == 0, "{calm:?}");
    let flood = Flood::start(&world.clients[0], LIMITED, FLOOD);
    wait_for("congestion", PATIENCE, || {
        let status = router(&world, 0);
        (status.enforced && status.servers[0].rules[0].dropped_bytes > 100_000).then_some(())
    });
    assert!(!router(&world, 1).enforced, "the other line is empty");
    drop((surplus, flood));
    wait_for("the end of congestion", Duration::from_secs(60), || {
        (!router(&world, 0).enforced).then_some(())
    });
}
