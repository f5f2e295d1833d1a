mod world;
use psmc_core::{Event, SchedulerKind};
use std::time::Duration;
use world::*;
#[test]
fn debug() {
    let ms = Duration::from_millis;
    let mut w = World::connected(
        [29, 29, 57, 29].map(Link::new).into(),
        Setup { can_dial: [true; 2], ..SchedulerKind::Flow.into() },
    );
    let t0 = w.now;
    let mut seen = [w.ends[0].events.len(), w.ends[1].events.len()];
    let mut rf = [vec![], vec![]];
    let mut run = |w: &mut World, n: u64| {
        for _ in 0..n {
            w.run_for(ms(1));
            for e in [0, 1] {
                for ev in &w.ends[e].events[seen[e]..] {
                    println!("{:?} {e} {ev:?}", w.now - t0);
                }
                seen[e] = w.ends[e].events.len();
                let r: Vec<_> = w.ends[e].site.refusals().iter().filter(|x| x.1 > 0).collect();
                if r != rf[e] {
                    println!("{:?} {e} refusals {r:?}", w.now - t0);
                    rf[e] = r;
                }
            }
        }
    };
    w.drop_connections();
    run(&mut w, 86);
    let id = w.status(VAN).paths[6 % 4].id;
    let now = w.now;
    let van = &mut w.ends[VAN];
    van.site.remove_path(van.peer, id, now).unwrap();
    run(&mut w, 84);
    w.drop_connections();
    run(&mut w, 143 + 24);
    w.drop_connections();
    run(&mut w, 128 + 13);
    w.control_up = false;
    run(&mut w, 168);
    let _ = w.add_path(path_config(2));
    run(&mut w, 134 + 56 + 91);
    println!("send {:?}", w.now - t0);
    for i in 0..19 {
        w.send(HQ, &packet(HQ, TCP, 4, i, 1171));
    }
    w.control_up = true;
    run(&mut w, 1500);
    println!("{:?}", w.numbers(VAN));
    for p in w.status(HQ).paths {
        println!("{:?} {:?} {:?}", p.id, p.state, p.counters);
    }
}
