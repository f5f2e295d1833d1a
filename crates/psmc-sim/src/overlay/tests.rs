//! Small networks, beside what a pencil says of them.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 1250 bytes take 10 ms.
fn line(delay_ms: u64) -> Line {
    Line { bits_per_second: 1e6, delay: ms(delay_ms), load: 0.0 }
}

/// A – B – C.
fn chain() -> Lines {
    let mut lines = Lines::new(3);
    lines.lay(A, B, line(3));
    lines.lay(B, C, line(7));
    lines
}

fn message(from: NodeId, to: NodeId, bytes: u32) -> Message {
    Message { from, to, bytes, work: Duration::ZERO }
}

fn ends(lines: &Lines, script: &Script) -> Vec<Option<Duration>> {
    play(lines, script, 1)
}

#[test]
fn a_packet_is_sent_anew_on_each_line() {
    let mut script = Script::new();
    script.send(message(A, C, 1250), &[]);
    assert_eq!(ends(&chain(), &script), [Some(ms(10 + 3 + 10 + 7))]);
}

#[test]
fn long_messages_travel_in_packets() {
    let mut script = Script::new();
    script.send(message(A, C, 3000), &[]);
    // Two of 12 ms: while the first is on the second line, the second is on the first.
    assert_eq!(ends(&chain(), &script), [Some(ms(12 + 3 + 12 + 12 + 7))]);
}

#[test]
fn those_who_come_at_the_same_time_wait_for_each_other() {
    let mut script = Script::new();
    script.send(message(A, B, 1250), &[]);
    script.send(message(A, C, 1250), &[]);
    script.send(message(B, A, 1250), &[]);
    // The way back is another queue.
    assert_eq!(ends(&chain(), &script), [Some(ms(13)), Some(ms(20 + 3 + 10 + 7)), Some(ms(13))]);
}

#[test]
fn a_node_works_on_one_message_at_a_time() {
    let mut script = Script::new();
    for from in [A, C] {
        script.send(Message { work: ms(5), ..message(from, B, 1250) }, &[]);
    }
    // They come after 13 and 17 ms.
    assert_eq!(ends(&chain(), &script), [Some(ms(18)), Some(ms(23))]);
}

#[test]
fn a_step_waits_for_all_that_come_before_it() {
    let mut script = Script::new();
    let there = script.send(message(A, B, 1250), &[]);
    let other = script.pause(ms(40), &[]);
    script.send(message(B, A, 1250), &[there]);
    script.send(message(B, A, 1250), &[there, other]);
    assert_eq!(ends(&chain(), &script), [13, 40, 26, 53].map(|end| Some(ms(end))));
}

#[test]
fn where_no_way_leads_nothing_arrives() {
    let mut lines = Lines::new(3);
    lines.lay(A, B, line(3));
    let mut script = Script::new();
    let lost = script.send(message(A, C, 100), &[]);
    script.pause(ms(1), &[lost]);
    assert_eq!(ends(&lines, &script), [None, None]);
    assert_eq!((lines.distance(A, C), lines.distance(B, A)), (None, Some(ms(3))));
}

#[test]
fn packets_take_the_fastest_way() {
    let mut lines = chain();
    lines.lay(A, C, line(11));
    assert_eq!(lines.distance(A, C), Some(ms(10)));
    assert_eq!(lines.distances(A), [Some(ms(0)), Some(ms(3)), Some(ms(10))]);
    lines.lay(C, A, line(9));
    assert_eq!(lines.distances(C), [Some(ms(9)), Some(ms(7)), Some(ms(0))]);
    let mut script = Script::new();
    script.send(message(C, A, 1250), &[]);
    assert_eq!(ends(&lines, &script), [Some(ms(19))]);
}

#[test]
fn traffic_loads_the_lines_on_its_way_in_its_direction_only() {
    let mut lines = chain();
    lines.add_traffic(A, C, 5e5, 0.9);
    lines.add_traffic(A, B, 6e5, 0.9);
    let loads = |from, to| {
        let way = lines.tree(to).way_from(from, to).unwrap();
        way.into_iter().map(|arc| lines.load(arc)).collect::<Vec<_>>()
    };
    assert_eq!((loads(A, C), loads(C, A)), (vec![0.9, 0.5], vec![0.0, 0.0]));
}

#[test]
fn load_delays_and_the_seed_says_how_much() {
    let mut lines = Lines::new(2);
    lines.lay(A, B, Line { load: 0.6, ..line(3) });
    let mut script = Script::new();
    for second in 0..2000 {
        let begin = script.pause(Duration::from_secs(second), &[]);
        script.send(message(A, B, 1250), &[begin]);
    }
    let waits = |seed| {
        let ends = play(&lines, &script, seed);
        let sent = ends.chunks(2).map(|pair| pair[1].unwrap() - pair[0].unwrap() - ms(13));
        sent.collect::<Vec<_>>()
    };
    assert_eq!(waits(1), waits(1));
    assert_ne!(waits(1), waits(2));
    let mean = waits(1).iter().sum::<Duration>().as_secs_f64() / 2000.0;
    // 700 bytes take 5.6 ms, and 0.6/(1 − 0.6) of that is the mean wait.
    assert!((mean / 8.4e-3 - 1.0).abs() < 0.1, "{mean}");
}

proptest! {
    /// Any network, any messages: more of anything never makes the last one come earlier.
    #[test]
    fn nothing_is_earlier_for_more_work_or_delay(
        delays in proptest::collection::vec(0..20u64, 4),
        messages in proptest::collection::vec((0..5u32, 0..5u32, 1..4000u32), 1..12),
        more in 1..10u64,
    ) {
        let last = |delay, work| {
            let mut lines = Lines::new(5);
            for (number, ms) in (0..).zip(&delays) {
                lines.lay(NodeId(number), NodeId(number + 1), line(ms + delay));
            }
            let mut script = Script::new();
            let mut before = None;
            for (from, to, bytes) in &messages {
                let sent = Message { work: ms(work), ..message(NodeId(*from), NodeId(*to), *bytes) };
                before = Some(script.send(sent, before.as_slice()));
            }
            play(&lines, &script, 1).into_iter().max().flatten()
        };
        let least = last(0, 0);
        prop_assert!(least.is_some());
        prop_assert!(last(0, more) > least);
        prop_assert!(last(more, 0) >= least);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_empty_line_takes_what_comes_at_once() {
    let (mut queue, mut dice) = (Queue::default(), Dice::new(1));
    assert_eq!(queue.pass(SECOND, 1000.0, 1000.0, 0.0, &mut dice), 2 * SECOND);
    // Behind that one, and then long after both.
    assert_eq!(queue.pass(SECOND, 500.0, 1000.0, 0.0, &mut dice), SECOND.mul_f64(2.5));
    assert_eq!(queue.pass(10 * SECOND, 1000.0, 1000.0, 0.0, &mut dice), 11 * SECOND);
}

#[test]
fn others_push_in_between_two_of_ours() {
    let (mut queue, mut dice) = (Queue::default(), Dice::new(1));
    let first = queue.pass(SECOND, 4000.0, 1000.0, 0.5, &mut dice);
    // Within the second between both half a second of others' packets has come.
    assert_eq!(queue.pass(2 * SECOND, 1000.0, 1000.0, 0.5, &mut dice), first + SECOND.mul_f64(1.5));
}

#[test]
fn the_mean_wait_is_that_of_the_theory() {
    let mut dice = Dice::new(7);
    let rate = 10e6;
    for load in [0.3, 0.6, 0.9] {
        let runs = 40_000;
        let sum: Duration = (0..runs).map(|_| wait(rate, load, &mut dice)).sum();
        let mean = sum.as_secs_f64() / f64::from(runs);
        // ρ·s/(1 − ρ)
        let theory = load / (1.0 - load) * MEAN_PACKET / rate;
        assert!((mean / theory - 1.0).abs() < 0.05, "{load}: {mean} instead of {theory}");
    }
}
