//! Somebody on the way, or anybody at all, sends datagrams that are none of ours.

use std::net::UdpSocket;
use std::panic::RefUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{
    Forgeries, Plan, Relay, Site, Stranger, Stream, Towards, Tunnel, VAN, path_name, wait_for,
};
use psmc_testbed::steadily::{Measured, steadily};

/// How often a stream sends.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long each attack lasts.
const ATTACK: Duration = Duration::from_secs(1);

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// The counters of datagrams that were refused. What is out of turn is a control message, which no datagram can be.
const REFUSALS: [&str; 5] = ["malformed", "unknown_label", "unauthenticated", "replayed", "no_such_path"];

#[test]
fn replayed_datagrams_are_counted_and_nothing_else() {
    nothing_comes_of(|datagram, _| Forgeries { after: vec![datagram.to_vec(); 2], ..Forgeries::default() });
}

/// Else the headquarters would send their datagrams to whoever plays back the van's.
#[test]
fn replayed_datagrams_from_elsewhere_move_no_path() {
    let mut older = Vec::new();
    nothing_comes_of(move |datagram, _| {
        older.push(datagram.to_vec());
        Forgeries {
            elsewhere: vec![datagram.to_vec(), older[older.len() / 2].clone(), older[0].clone()],
            ..Forgeries::default()
        }
    });
}

/// They come in front of the genuine ones, so that nothing but the seal can tell.
#[test]
fn altered_datagrams_are_counted_and_nothing_else() {
    nothing_comes_of(|datagram, number| {
        let mut altered = datagram.to_vec();
        let bit = number % (8 * datagram.len());
        altered[bit / 8] ^= 1 << (bit % 8);
        before(vec![altered])
    });
}

#[test]
fn truncated_and_lengthened_datagrams_are_counted_and_nothing_else() {
    nothing_comes_of(|datagram, number| {
        let cut = |length: usize| datagram[..length.min(datagram.len() - 1)].to_vec();
        let longer = [datagram, &[0]].concat();
        before(vec![cut(0), cut(1), cut(12), cut(number), cut(usize::MAX), longer])
    });
}

/// Header and label are right, the rest is not.
#[test]
fn forged_datagrams_are_counted_and_nothing_else() {
    nothing_comes_of(|datagram, number| {
        let forged = |genuine: usize| {
            let noise = noise(number + genuine, datagram.len());
            [&datagram[..genuine], &noise[genuine..]].concat()
        };
        before(vec![forged(0), forged(4), forged(8), forged(12)])
    });
}

fn before(before: Vec<Vec<u8>>) -> Forgeries {
    Forgeries { before, ..Forgeries::default() }
}

/// Makes mischief in both directions; `forge` gets each datagram and its number. All that it adds is refused and counted,
/// and the traffic doesn't notice.
fn nothing_comes_of(forge: impl FnMut(&[u8], usize) -> Forgeries + Clone + RefUnwindSafe + Send + 'static) {
    steadily(Measured::Loss, || forge_both_ways(&forge));
}

fn forge_both_ways(forge: &(impl FnMut(&[u8], usize) -> Forgeries + Clone + Send + 'static)) {
    let mut tunnel = Tunnel::prepare(Relay::plan());
    let relay = Relay::start(&tunnel.hq, Duration::ZERO);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let ends = [(&tunnel.hq, Towards::Hq), (&tunnel.van, Towards::Van)];
    let before = ends.map(|(site, _)| refused(site));
    let streams =
        [Stream::start(&tunnel.van, &tunnel.hq, INTERVAL), Stream::start(&tunnel.hq, &tunnel.van, INTERVAL)];
    let added = ends.map(|(_, towards)| add(&relay, towards, forge.clone()));
    for stream in &streams {
        stream.wait_until_back(Instant::now() + ATTACK, PATIENCE);
    }
    relay.behave();
    for ((site, _), (before, added)) in ends.iter().zip(before.into_iter().zip(added)) {
        let added = added.load(Ordering::Relaxed);
        assert!(added > 100, "only {added} datagrams were added");
        wait_for("all forgeries counted", PATIENCE, || (refused(site) - before >= added).then_some(()));
        assert_eq!(refused(site) - before, added, "{:?}", site.status().counters);
        assert!(!site.log().contains("address on a path has changed"));
        let path = site.path(&path_name(VAN, 1)).unwrap();
        assert_eq!(path.state, PathState::Active);
    }
    for deliveries in streams.map(Stream::finish) {
        assert_eq!((deliveries.lost(), deliveries.duplicates()), (Vec::new(), 0));
    }
}

/// Makes the relay add what `forge` says; returns how much it has added.
fn add(
    relay: &Relay,
    towards: Towards,
    mut forge: impl FnMut(&[u8], usize) -> Forgeries + Send + 'static,
) -> Arc<AtomicU64> {
    let (added, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counter = added.clone();
    relay.make(towards, move |datagram| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let mut forgeries = forge(datagram, usize::try_from(number).unwrap());
        if towards == Towards::Van {
            // The van has no address of its own that a stranger could send to.
            forgeries.after.append(&mut forgeries.elsewhere);
        }
        let all = [&forgeries.before, &forgeries.after, &forgeries.elsewhere];
        // An empty datagram is nothing to a daemon, and not counted.
        let all = all.into_iter().flatten().filter(|forged| !forged.is_empty());
        counter.fetch_add(all.count() as u64, Ordering::Relaxed);
        forgeries
    });
    added
}

fn refused(site: &Site) -> u64 {
    REFUSALS.iter().map(|name| site.counter(name)).sum()
}

#[test]
fn a_flood_of_garbage_does_not_stop_the_traffic() {
    steadily(Measured::Rate, || {
        let tunnel = Tunnel::start(Plan::default());
        let stranger = Stranger::new(&tunnel.hq);
        let stream = Stream::start(&tunnel.van, &tunnel.hq, INTERVAL);
        let before = refused(&tunnel.hq);
        let stop = AtomicBool::new(false);
        let sent = scope(|scope| {
            let flood = scope.spawn(|| flood(&stranger, &stop));
            stream.wait_until_back(Instant::now() + 2 * ATTACK, PATIENCE);
            stop.store(true, Ordering::Relaxed);
            flood.join().unwrap()
        });
        let deliveries = stream.finish();
        let (lost, all) = (deliveries.lost().len(), deliveries.sent());
        let refused = refused(&tunnel.hq) - before;
        println!("{sent} datagrams of garbage, {refused} of them refused: lost {lost} of {all} packets");
        assert!(lost * 20 <= all, "lost {lost} of {all}");
        assert!(refused > sent / 2, "{refused} of {sent}");
    });
}

/// Sends garbage of all sizes, some tens of thousands in a second.
fn flood(stranger: &Stranger, stop: &AtomicBool) -> u64 {
    let socket = stranger.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        for number in 0..50 {
            let garbage = noise(number, number * 29);
            sent += u64::from(socket.send_to(&garbage, Stranger::target()).is_ok());
        }
        sleep(Duration::from_millis(1));
    }
    sent
}

/// Bytes without meaning (a linear congruential generator, Numerical Recipes, §7.1).
fn noise(seed: usize, length: usize) -> Vec<u8> {
    let mut state = u32::try_from(seed).unwrap().wrapping_mul(2_654_435_761);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}
