//! What happens on the wire, against the formulas of its chances.

use super::*;

const PACKETS: usize = 200_000;

/// What becomes of many packets, a millisecond apart.
fn send(config: LinkConfig) -> Vec<Arrival<usize>> {
    let mut rig = Rig::new(config);
    (0..PACKETS).for_each(|n| rig.enter(1000, millis(n as u64)));
    rig.poll(END)
}

/// The lengths of the gaps in the numbers of what has arrived.
fn bursts(arrivals: &[Arrival<usize>]) -> Vec<usize> {
    let gaps = arrivals.windows(2).map(|pair| pair[1].packet - pair[0].packet - 1);
    gaps.filter(|&gap| gap > 0).collect()
}

#[test]
fn random_loss_hits_the_configured_share() {
    for loss in [0.001, 0.02, 0.5] {
        let config = LinkConfig::default().with_loss(Loss::Random(chance(loss)));
        let arrivals = send(config);
        assert_share(PACKETS - arrivals.len(), PACKETS, loss);
        let bursts = bursts(&arrivals);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert_mean(mean, 1.0 / (1.0 - loss), loss.sqrt() / (1.0 - loss), bursts.len() as f64);
    }
}

#[test]
fn certain_loss_loses_everything_and_impossible_loss_nothing() {
    assert_eq!(send(LinkConfig::default().with_loss(Loss::Random(Probability::ONE))).len(), 0);
    assert_eq!(send(LinkConfig::default().with_loss(Loss::Random(Probability::ZERO))).len(), PACKETS);
}

#[test]
fn bursts_of_gilbert_and_elliott_have_the_lengths_of_theory() {
    let (to_bad, to_good) = (0.01, 0.2);
    let config = LinkConfig::default().with_loss(Loss::GilbertElliott {
        to_bad: chance(to_bad),
        to_good: chance(to_good),
        loss_good: Probability::ZERO,
        loss_bad: Probability::ONE,
    });
    let arrivals = send(config);
    let bursts = bursts(&arrivals);
    let burst = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
    // The time in a state is geometrically distributed.
    assert_mean(burst, 1.0 / to_good, (1.0 - to_good).sqrt() / to_good, bursts.len() as f64);
    let share = (PACKETS - arrivals.len()) as f64 / PACKETS as f64;
    let bad = to_bad / (to_bad + to_good);
    assert_mean(share, bad, chain_deviation(bad, 1.0 - to_bad - to_good), PACKETS as f64);
}

#[test]
fn both_states_of_gilbert_and_elliott_have_their_loss() {
    let config = LinkConfig::default().with_loss(Loss::GilbertElliott {
        to_bad: chance(0.05),
        to_good: chance(0.15),
        loss_good: chance(0.01),
        loss_bad: chance(0.4),
    });
    let share = (PACKETS - send(config).len()) as f64 / PACKETS as f64;
    // A quarter of the packets meets the bad state.
    let mean = 0.75 * 0.01 + 0.25 * 0.4;
    assert_mean(
        share,
        mean,
        (mean * (1.0 - mean)).sqrt() + chain_deviation(0.25, 0.8) * 0.39,
        PACKETS as f64,
    );
}

/// The standard deviation of the share of time that a chain of two states spends in one, as if steps were
/// independent: `memory` is the correlation from step to step, which makes them count for less.
fn chain_deviation(share: f64, memory: f64) -> f64 {
    (share * (1.0 - share) * (1.0 + memory) / (1.0 - memory)).sqrt()
}

#[test]
fn loss_uses_the_rate() {
    let mut rig = Rig::new(LinkConfig::new(10 * MBIT, millis(0)));
    rig.reconfigure(
        LinkConfig::new(10 * MBIT, millis(0)).with_loss(Loss::Random(Probability::ONE)),
        millis(0),
    );
    rig.enter(1250, millis(0));
    rig.enter(1250, millis(0));
    assert_eq!(rig.arrivals(millis(1)), []);
    rig.reconfigure(LinkConfig::new(10 * MBIT, millis(0)), millis(1));
    assert_eq!(rig.arrivals(END), [(1, millis(2))]);
    assert_eq!(rig.dropped(), [(0, DropReason::Loss)]);
}

#[test]
fn copies_and_corruption_hit_the_configured_share() {
    let config = LinkConfig { duplicate: chance(0.03), corrupt: chance(0.1), ..LinkConfig::default() };
    let arrivals = send(config);
    assert!(arrivals.iter().all(|arrival| matches!(arrival.copies, 1 | 2)));
    assert_share(arrivals.iter().filter(|arrival| arrival.copies == 2).count(), PACKETS, 0.03);
    let bits: Vec<u64> = arrivals.iter().filter_map(|arrival| arrival.corrupt_bit).collect();
    assert_share(bits.len(), PACKETS, 0.1);
    assert!(bits.iter().all(|&bit| bit < 8000));
    let mean = bits.iter().sum::<u64>() as f64 / bits.len() as f64;
    assert_mean(mean, 3999.5, 8000.0 / 12f64.sqrt(), bits.len() as f64);
}

#[test]
fn a_packet_without_bits_stays_as_it_is() {
    let mut rig = Rig::new(LinkConfig { corrupt: Probability::ONE, ..LinkConfig::default() });
    rig.enter(0, millis(0));
    assert_eq!(rig.poll(END)[0].corrupt_bit, None);
}

#[test]
fn packets_sent_ahead_skip_the_delay() {
    let config = LinkConfig { delay: micros(10_500), reorder: chance(0.25), ..LinkConfig::default() };
    let arrivals = send(config);
    assert_eq!(arrivals.len(), PACKETS);
    let overtakers = arrivals.windows(2).filter(|pair| pair[0].packet > pair[1].packet).count();
    assert!(overtakers > 0);
    let start = arrivals.iter().map(|arrival| arrival.at - millis(arrival.packet as u64)).min().unwrap();
    let delays =
        || arrivals.iter().map(|arrival| (arrival.at - millis(arrival.packet as u64)).duration_since(start));
    assert!(delays().all(|delay| delay == millis(0) || delay == micros(10_500)));
    assert_share(delays().filter(Duration::is_zero).count(), PACKETS, 0.25);
}
