//! A coordinator that stands still.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_signal::{Message, Stage};

use crate::coordinator::Coordinator;
use crate::flood::{mitigation, relay};
use crate::gateway::Gateway;
use crate::world::{World, coordinator_section};

/// What people take for an answer at once, and for an end without delay, on a machine that does much else meanwhile.
const AT_ONCE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(4);

fn takes_less(time: Duration, what: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    assert!(start.elapsed() < time, "{what} took {:?}", start.elapsed());
}

/// The kernel takes the calls of one that does nothing itself.
#[test]
fn a_coordinator_that_stands_still_holds_up_nothing() {
    let mut world = World::new(None);
    let gateway = Gateway::start(&world.file("psmcd.sock"));
    let of_guard = format!("gateway = '{}'", world.file("psmcd.sock").display());
    let still = world.gateway.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
    let key = PrivateKey::generate().public();
    let other = Coordinator::start(&world.gateway, world.key.public());
    let both = coordinator_section(still.local_addr().unwrap(), key)
        + &coordinator_section(other.address, other.key);
    world.start_guard(&of_guard, &both);
    takes_less(AT_ONCE, "the status", || drop(world.status()));
    other.say(mitigation(Stage::Active, vec![relay()]));
    other.hear("readiness", |message| matches!(message, Message::Ready { .. }).then_some(()));
    assert_eq!(gateway.told().relays.len(), 1);
    takes_less(AT_ONCE, "the status", || drop(world.status()));
    takes_less(SOON, "the end", || world.stop_guard());
}
