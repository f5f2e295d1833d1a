//! Paths that are delayed together, and share no bottleneck all the same.

use std::time::Duration;

use psmc_core::SchedulerKind;

use crate::world::{Link, UDP, VAN, World, packet};

/// A machine that has other things to do serves no path for a while: whatever arrives is late by the same, on all of them.
#[test]
fn hosts_that_are_late_are_no_bottleneck() {
    for flood in [60, 75, 85] {
        let links = [(1, 40), (1, 30), (1, 20)].map(|(delay, mbit)| Link::new(delay).mbit(mbit)).into();
        let mut world = World::connected(links, SchedulerKind::Earliest);
        let (mut random, mut stalls, mut coupled) = (flood, 0u32, 0u32);
        let gap = Duration::from_nanos(1400 * 8 * 1000 / flood);
        let mut next = world.now;
        for number in 0..u32::try_from(15 * 1_000_000_000 / gap.as_nanos()).expect("few") {
            if world.now >= next {
                random = (random * 6_364_136_223 + 1_442_695_041) % 1_000_003;
                let (stall, pause) = (5 + random % 40, 60 + random / 7 % 300);
                for link in &mut world.links {
                    link.stalled_until = Some(world.now + Duration::from_millis(stall));
                }
                next = world.now + Duration::from_millis(pause);
                stalls += 1;
                coupled += u32::from(world.status(VAN).paths.iter().any(|path| path.bottleneck.is_some()));
            }
            world.send(VAN, &packet(VAN, UDP, 1, number, 1350));
            world.run_for(gap);
        }
        assert!(stalls > 50 && coupled == 0, "{flood} Mb/s: coupled at {coupled} of {stalls} stalls");
    }
}
