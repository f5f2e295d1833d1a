//! Striped probes through trees whose losses are known.

use psmc_tomography::stripes::{Stripe, Stripes, Tree};
use psmc_tomography::{Answer, Estimate, Unknown};

use super::dice::Dice;

const RUNS: u64 = 1000;
const STRIPES: usize = 200;

/// A tree with the loss of the segment into each node but the source.
struct Network {
    parents: Vec<usize>,
    loss: Vec<f64>,
    /// The chance that a probe shares the fate of the one before it in a segment.
    alike: f64,
}

impl Network {
    fn of_two(shared: f64, left: f64, right: f64) -> Self {
        Self { parents: vec![0, 1, 1], loss: vec![shared, left, right], alike: 1.0 }
    }

    fn receivers(&self) -> Vec<usize> {
        let tree = Tree::new(&self.parents).expect("parents come first");
        (0..tree.nodes()).filter(|&node| tree.is_receiver(node)).collect()
    }

    fn send(&self, twice: usize, once: usize, dice: &mut Dice) -> Stripe {
        let mut last = vec![None; self.loss.len()];
        let arrived = [twice, twice, once].map(|receiver| {
            let way = std::iter::successors(Some(receiver), |&node| Some(self.parents[node.checked_sub(1)?]));
            let mut passed = true;
            // All segments are drawn, whether a probe gets there or not.
            for node in way.filter(|&node| node > 0) {
                passed &= self.passes(node - 1, &mut last, dice);
            }
            passed
        });
        Stripe { twice, once, arrived }
    }

    fn passes(&self, segment: usize, last: &mut [Option<bool>], dice: &mut Dice) -> bool {
        let is_alike = self.alike >= 1.0 || dice.happens(self.alike);
        let fate = last[segment].filter(|_| is_alike).unwrap_or_else(|| !dice.happens(self.loss[segment]));
        *last[segment].insert(fate)
    }

    /// So many stripes to each pair of receivers, of which each gets two probes of every other stripe.
    fn measure(&self, seed: u64, stripes: usize) -> Vec<Answer> {
        let mut dice = Dice::new(seed);
        let mut all = Stripes::new(Tree::new(&self.parents).expect("parents come first"));
        let receivers = self.receivers();
        for (place, &left) in receivers.iter().enumerate() {
            for &right in &receivers[place + 1..] {
                for stripe in 0..stripes {
                    let (twice, once) = if stripe % 2 == 0 { (left, right) } else { (right, left) };
                    all.record(&self.send(twice, once, &mut dice)).expect("two receivers");
                }
            }
        }
        all.loss()
    }

    /// The estimates of one segment after another, of all runs.
    fn runs(&self) -> Vec<Vec<Estimate>> {
        let mut segments = vec![Vec::new(); self.loss.len()];
        for seed in 0..RUNS {
            for (estimates, answer) in segments.iter_mut().zip(self.measure(seed, STRIPES)) {
                estimates.push(answer.expect("probes arrive"));
            }
        }
        segments
    }
}

fn coverage(estimates: &[Estimate], truth: f64) -> f64 {
    estimates.iter().filter(|estimate| estimate.covers(truth)).count() as f64 / estimates.len() as f64
}

fn error(estimates: &[Estimate], truth: f64) -> f64 {
    let squares: f64 = estimates.iter().map(|estimate| (estimate.value() - truth).powi(2)).sum();
    (squares / estimates.len() as f64).sqrt()
}

/// The bound of Cramér and Rao for the three segments. Outcomes are a multinomial distribution with as many free shares as there are
/// segments, so it is the inverse of the Fisher information of those, carried over by the delta method.
fn bounds(network: &Network, stripes: f64) -> [f64; 3] {
    let [reached, left, right] = [0, 1, 2].map(|segment| 1.0 - network.loss[segment]);
    let shared = reached * ((1.0 - left) * (1.0 - right) / (left * right) + 1.0 - reached);
    let of_leaf = |here: f64, other: f64| here * (1.0 - here) / (reached * other);
    [shared, of_leaf(left, right), of_leaf(right, left)].map(|variance| (variance / stripes).sqrt())
}

const LOSSES: [(f64, f64, f64); 5] =
    [(0.02, 0.05, 0.03), (0.05, 0.02, 0.1), (0.1, 0.1, 0.1), (0.2, 0.05, 0.02), (0.05, 0.2, 0.2)];

#[test]
fn the_error_is_near_to_the_least_that_is_possible() {
    for (shared, left, right) in LOSSES {
        let network = Network::of_two(shared, left, right);
        let bounds = bounds(&network, STRIPES as f64);
        for ((estimates, &truth), bound) in network.runs().iter().zip(&network.loss).zip(bounds) {
            let error = error(estimates, truth);
            assert!(error <= 1.2 * bound, "{shared} {left} {right}: error {error} at {truth}, bound {bound}");
        }
    }
}

#[test]
fn intervals_cover_as_often_as_they_say() {
    for (shared, left, right) in [(0.05, 0.05, 0.1), (0.1, 0.1, 0.1), (0.2, 0.06, 0.08), (0.08, 0.2, 0.15)] {
        let network = Network::of_two(shared, left, right);
        for (estimates, &truth) in network.runs().iter().zip(&network.loss) {
            let coverage = coverage(estimates, truth);
            println!("{shared} {left} {right}: {coverage} at {truth}");
            assert!((0.93..=0.97).contains(&coverage), "{shared} {left} {right}: {coverage} at {truth}");
        }
    }
}

/// A few losses in 200 stripes, or none: whether an interval is right depends on whole losses, and it cannot be wrong in just 5 %.
#[test]
fn where_little_is_lost_intervals_cover_more_often() {
    for loss in [0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03] {
        let network = Network::of_two(loss, loss, loss);
        for estimates in network.runs() {
            let coverage = coverage(&estimates, loss);
            println!("{loss}: {coverage}");
            assert!(coverage >= 0.94, "{coverage} at {loss}");
        }
    }
}

/// Three levels and five receivers.
#[test]
fn segments_inside_of_a_tree_are_told() {
    let parents = vec![0, 1, 1, 2, 2, 3, 3, 1];
    // A receiver with one neighbour behind its branch point is measured by some 150 stripes: 5 % of those would be too few losses.
    let network = Network { parents, loss: vec![0.05, 0.1, 0.06, 0.09, 0.15, 0.1, 0.12, 0.08], alike: 1.0 };
    for (segment, (estimates, &truth)) in network.runs().iter().zip(&network.loss).enumerate() {
        let (coverage, error) = (coverage(estimates, truth), error(estimates, truth));
        println!("{segment}: {coverage} at {truth} error {error}");
        assert!((0.93..=0.97).contains(&coverage), "segment {segment}: {coverage} at {truth}");
        assert!(error < 0.03, "segment {segment}: {error}");
    }
}

/// Probes that share their fate in 98 % only: what is lost on the shared segment is still told from what is lost behind it.
#[test]
fn probes_that_part_now_and_then_do_little_harm() {
    let network = Network { alike: 0.98, ..Network::of_two(0.1, 0.0, 0.05) };
    for (estimates, &truth) in network.runs().iter().zip(&network.loss) {
        let mean = estimates.iter().map(Estimate::value).sum::<f64>() / RUNS as f64;
        println!("{mean} at {truth}");
        assert!((mean - truth).abs() < 0.005, "{mean} instead of {truth}");
    }
}

/// A receiver that reports anything at all: three receivers behind one branch point find that it does not fit.
#[test]
fn a_receiver_that_lies_is_contradicted_by_others() {
    let network = Network { parents: vec![0, 1, 1, 1], loss: vec![0.2, 0.05, 0.05, 0.05], alike: 1.0 };
    let (liar, mut told) = (2, 0);
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut all = Stripes::new(Tree::new(&network.parents).unwrap());
        for number in 0..600 {
            let [twice, once] = [[2, 3], [3, 4], [4, 2], [3, 2], [4, 3], [2, 4]][number % 6];
            let mut stripe = network.send(twice, once, &mut dice);
            for (place, receiver) in [twice, twice, once].into_iter().enumerate() {
                if receiver == liar {
                    stripe.arrived[place] = dice.happens(0.7);
                }
            }
            all.record(&stripe).unwrap();
        }
        told += usize::from(all.loss()[0] != Err(Unknown::PathsContradict));
    }
    assert!(told <= 2, "{told} of 100 lies were believed");
}
