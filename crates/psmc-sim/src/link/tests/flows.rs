//! Flow queueing: who gets how much, who goes first, and who pays when the queue is full.

use super::*;

fn link(queue: usize) -> LinkConfig {
    let discipline = Discipline::FqCoDel { target: millis(5), interval: millis(100), ecn: false };
    LinkConfig::new(8 * MBIT, millis(0)).with_queue(QueueLimit::Packets(queue)).with_discipline(discipline)
}

fn of_flow(flow: u32, len: usize) -> PacketInfo {
    PacketInfo { flow, ..PacketInfo::new(len) }
}

/// One flow sends four times its half of the link, another one exactly its half, in packets of half the length: that one
/// loses nothing.
#[test]
fn flows_share_by_bytes_and_only_who_takes_more_loses() {
    let mut rig = Rig::new(link(1000));
    let mut flows = Vec::new();
    for step in 0..20_000 {
        rig.enter_with(of_flow(1, 1000), micros(500 * step));
        rig.enter_with(of_flow(1, 1000), micros(500 * step));
        rig.enter_with(of_flow(2, 250), micros(500 * step));
        flows.extend([1, 1, 2]);
    }
    rig.poll(END);
    let dropped = rig.dropped();
    assert!(dropped.len() > 20_000, "{}", dropped.len());
    assert!(dropped.iter().all(|&(number, _)| flows[number] == 1), "the other flow has lost packets");
}

/// A packet of a flow that has been silent overtakes a hundred that wait.
#[test]
fn a_sparse_flow_goes_first() {
    let mut rig = Rig::new(link(1000));
    (0..100).for_each(|_| rig.enter_with(of_flow(1, 1000), millis(0)));
    rig.enter_with(of_flow(2, 100), millis(3));
    let place = rig.arrivals(END).iter().position(|&(number, _)| number == 100);
    // Three have left by then, the fourth is being sent, and a turn of the other flow holds at most two.
    assert!(place.is_some_and(|place| place <= 6), "{place:?}");
}

#[test]
fn when_it_is_full_the_fattest_flow_pays() {
    let mut rig = Rig::new(link(10));
    (0..11).for_each(|_| rig.enter_with(of_flow(1, 1000), millis(0)));
    (0..5).for_each(|_| rig.enter_with(of_flow(2, 1000), millis(0)));
    assert_eq!(rig.dropped(), (1..6).map(|number| (number, DropReason::QueueFull)).collect::<Vec<_>>());
    assert_eq!((rig.link.queue_packets(), rig.link.queue_bytes()), (10, 10_000));
    assert_eq!(rig.poll(END).len(), 11);
}

#[test]
fn packets_survive_a_change_of_the_discipline() {
    let mut rig = Rig::new(link(100));
    (0..20).for_each(|number| rig.enter_with(of_flow(number % 3, 1000), millis(0)));
    rig.reconfigure(LinkConfig::new(8 * MBIT, millis(0)), millis(1));
    rig.reconfigure(link(100), millis(2));
    assert_eq!(rig.poll(END).len(), 20);
    assert!(rig.dropped().is_empty());
}
