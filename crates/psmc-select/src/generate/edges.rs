//! Places in the plane, and pairs of them that are joined.

use std::collections::BTreeSet;

use crate::dice::Dice;

/// Places in ms of light's way in a fibre, so that a distance is a latency.
#[derive(Default)]
pub(super) struct Edges {
    pub(super) places: Vec<(f64, f64)>,
    pub(super) pairs: BTreeSet<(usize, usize)>,
}

impl Edges {
    /// Adds `count` places within `extent` of a corner, joined at random, but so that there is a way between any two; gives
    /// their numbers.
    ///
    /// After a random tree each further pair is joined with Waxman's probability α·exp(−d/(β·L)) (Waxman 1988, eq. 1), α such
    /// that `degree` links meet at a place on average.
    pub(super) fn grow(&mut self, dice: &mut Dice, cluster: &Cluster) -> Vec<usize> {
        let first = self.places.len();
        for _ in 0..cluster.count {
            let (x, y) = (dice.between(0.0, cluster.extent), dice.between(0.0, cluster.extent));
            self.places.push((cluster.corner.0 + x, cluster.corner.1 + y));
        }
        let all: Vec<_> = (first..self.places.len()).collect();
        for place in 1..all.len() {
            self.join(all[dice.below(place)], all[place]);
        }
        // The tree has two ends of links a place.
        let missing = all.len() as f64 * (cluster.degree - 2.0).max(0.0) / 2.0;
        self.join_by_distance(dice, &all, cluster, missing);
        all
    }

    fn join_by_distance(&mut self, dice: &mut Dice, all: &[usize], cluster: &Cluster, missing: f64) {
        if all.len() < 3 {
            return;
        }
        // Draws pairs and keeps them by distance: the same as to ask each pair, but in time that grows with the links.
        let longest = cluster.extent * std::f64::consts::SQRT_2;
        let mut missing = missing.round();
        let mut draws = missing * DRAWS_PER_LINK;
        while missing >= 1.0 && draws >= 1.0 {
            draws -= 1.0;
            let (a, b) = (all[dice.below(all.len())], all[dice.below(all.len())]);
            let chance = (-self.latency_ms(a, b) / (cluster.beta * longest)).exp();
            if a != b && dice.happens(chance) && self.join(a, b) {
                missing -= 1.0;
            }
        }
    }

    /// Joins two places; says whether they were not joined before.
    pub(super) fn join(&mut self, a: usize, b: usize) -> bool {
        self.pairs.insert((a.min(b), a.max(b)))
    }

    /// How far two places are from each other.
    pub(super) fn latency_ms(&self, a: usize, b: usize) -> f64 {
        let ((ax, ay), (bx, by)) = (self.places[a], self.places[b]);
        (ax - bx).hypot(ay - by)
    }
}

/// Places that are joined among themselves.
pub(super) struct Cluster {
    pub(super) count: usize,
    pub(super) corner: (f64, f64),
    pub(super) extent: f64,
    /// How many links meet at a place on average.
    pub(super) degree: f64,
    /// Waxman's β: the larger, the more long links.
    pub(super) beta: f64,
}

/// After so many fruitless draws a cluster is as dense as it gets.
const DRAWS_PER_LINK: f64 = 200.0;
