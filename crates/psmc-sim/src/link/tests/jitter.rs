//! How delays are distributed.

use super::*;

const PACKETS: usize = 50_000;
const DELAY: Duration = millis(20);

/// The delays of many packets in milliseconds, sorted.
fn delays(config: LinkConfig) -> Vec<f64> {
    let mut rig = Rig::new(config);
    (0..PACKETS).for_each(|n| rig.enter(1000, micros(n as u64)));
    let arrivals = rig.arrivals(END);
    let delay = |(packet, at): &(usize, Duration)| (*at - micros(*packet as u64)).as_secs_f64() * 1e3;
    let mut delays: Vec<f64> = arrivals.iter().map(delay).collect();
    delays.sort_by(f64::total_cmp);
    assert_eq!(delays.len(), PACKETS);
    delays
}

fn with(jitter: Jitter) -> LinkConfig {
    LinkConfig { delay: DELAY, jitter, reordering: true, ..LinkConfig::default() }
}

/// Whether sorted values are distributed like this (Kolmogorov and Smirnov), at a level of one in a thousand.
fn assert_distribution(sorted: &[f64], distribution: impl Fn(f64) -> f64) {
    let n = sorted.len() as f64;
    let distance = |(index, &value): (usize, &f64)| {
        let theory = distribution(value);
        (theory - index as f64 / n).abs().max((theory - (index + 1) as f64 / n).abs())
    };
    let largest = sorted.iter().enumerate().map(distance).fold(0.0, f64::max);
    assert!(largest * n.sqrt() < 1.949, "{largest}");
}

#[test]
fn normal_jitter_has_its_mean_and_deviation() {
    let delays = delays(with(Jitter::Normal(millis(4))));
    let n = PACKETS as f64;
    let mean = delays.iter().sum::<f64>() / n;
    assert_mean(mean, 20.0, 4.0, n);
    let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert_mean(variance.sqrt(), 4.0, 4.0 / 2f64.sqrt(), n);
    // What lies within one, two and three standard deviations.
    for (deviations, share) in [(1.0, 0.682_689), (2.0, 0.954_500), (3.0, 0.997_300)] {
        let within = delays.iter().filter(|delay| (*delay - 20.0).abs() < 4.0 * deviations).count();
        assert_share(within, PACKETS, share);
    }
}

#[test]
fn normal_jitter_never_comes_before_the_packet_was_sent() {
    let delays = delays(with(Jitter::Normal(millis(20))));
    assert_share(delays.iter().filter(|&&delay| delay == 0.0).count(), PACKETS, 0.158_655);
}

#[test]
fn uniform_jitter_is_uniform() {
    let delays = delays(with(Jitter::Uniform(millis(5))));
    assert_distribution(&delays, |delay| ((delay - 15.0) / 10.0).clamp(0.0, 1.0));
}

#[test]
fn samples_come_equally_often() {
    let samples = [millis(0), millis(1), millis(1), millis(7)];
    let delays = delays(with(Jitter::Samples(samples.into())));
    for (extra, share) in [(0, 0.25), (1, 0.5), (7, 0.25)] {
        let delay = (DELAY + millis(extra)).as_secs_f64() * 1e3;
        assert_share(delays.iter().filter(|&&found| found == delay).count(), PACKETS, share);
    }
}

#[test]
fn samples_of_nothing_are_no_jitter() {
    assert!(delays(with(Jitter::Samples(Arc::new([])))).iter().all(|&delay| delay == 20.0));
}

#[test]
fn without_reordering_a_packet_waits_for_the_one_before() {
    let config = LinkConfig { reordering: false, ..with(Jitter::Uniform(millis(5))) };
    let free = LinkConfig { reordering: true, ..config.clone() };
    let arrivals = |config| {
        let mut rig = Rig::new(config);
        (0..1000).for_each(|n| rig.enter(1000, millis(n)));
        rig.arrivals(END)
    };
    let mut expected = arrivals(free);
    expected.sort_unstable();
    let mut latest = Duration::ZERO;
    for (_, at) in &mut expected {
        latest = latest.max(*at);
        *at = latest;
    }
    assert_eq!(arrivals(config), expected);
}
