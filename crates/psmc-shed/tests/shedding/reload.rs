//! SIGHUP: what has changed in the file changes, and nothing else.

use psmc_shed::status::RuleStatus;
use psmc_testbed::poll::wait_for;

use crate::world::{Flood, LIMITED, OTHER, PATIENCE, SERVER, World};

/// The rules of the first router.
fn rules(world: &World) -> Vec<RuleStatus> {
    let mut status = world.routers[0].status().router.unwrap();
    status.servers.iter_mut().flat_map(|server| std::mem::take(&mut server.rules)).collect()
}

fn limit(world: &World) -> Option<u64> {
    rules(world).iter().find(|rule| rule.name == "limited")?.limit_bytes_per_s
}

#[test]
fn a_server_that_reads_its_file_again_keeps_limits_and_changes_rates() {
    let mut world = World::new();
    world.start_routers("");
    world.start_server("4mbit", "");
    world.wait_until_current();
    let _flood = Flood::start(&world.clients[0], LIMITED, 2_000_000);
    wait_for("the limit", PATIENCE, || limit(&world));
    let other = format!(
        "[[accept]]\nname = \"other\"\ndestination = \"{SERVER}\"\nprotocol = \"udp\"\nports = {OTHER}\nrate = \"1mbit\"\n"
    );
    world.server.reload(&world.of_server("2mbit", &other));
    let mut seen = Vec::new();
    wait_for("the lower limit and the new class", PATIENCE, || {
        let limit = limit(&world);
        seen.push(limit);
        let is_there = rules(&world).iter().any(|rule| rule.name == "other");
        (is_there && limit.is_some_and(|limit| limit < 300_000)).then_some(())
    });
    assert!(seen.iter().all(Option::is_some), "no moment without a limit: {seen:?}");
    world.server.reload(&world.of_server("2mbit", ""));
    wait_for("the class to be gone", PATIENCE, || {
        rules(&world).iter().all(|rule| rule.name != "other").then_some(())
    });
    assert!(limit(&world).is_some_and(|limit| limit < 300_000));
    world.server.end("-TERM");
}

#[test]
fn a_router_that_reads_its_file_again_keeps_the_rules_of_those_who_stay() {
    let mut world = World::new();
    world.start_routers("");
    world.start_server("4mbit", "");
    world.wait_until_current();
    let _flood = Flood::start(&world.clients[0], LIMITED, 2_000_000);
    wait_for("the limit", PATIENCE, || limit(&world));
    let router = &world.routers[0];
    let before = world.of_router("");
    let more = before.replace(&format!("\"{SERVER}\""), &format!("\"{SERVER}\", \"198.51.100.0/24\""));
    router.reload(&more);
    let mut seen = Vec::new();
    wait_for("the new prefix", PATIENCE, || {
        seen.push(limit(&world));
        router.ruleset().contains("198.51.100.0/24").then_some(())
    });
    seen.push(limit(&world));
    assert!(seen.iter().all(Option::is_some), "no moment without a limit: {seen:?}");
    // The destination is not the server's any more.
    router.reload(&before.replace(&format!("\"{SERVER}\""), "\"198.51.100.0/24\""));
    wait_for("the rule to be gone", PATIENCE, || rules(&world).is_empty().then_some(()));
    wait_for("the server to be told so", PATIENCE, || {
        let upstreams = world.server.status().server?.upstreams;
        (upstreams[0].refused.len() == 1 && upstreams[1].refused.is_empty()).then_some(())
    });
}
