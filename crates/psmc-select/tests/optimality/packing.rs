//! What paths carry together, beside the corners of what is possible.

use std::collections::BTreeMap;

use proptest::prelude::*;
use psmc_select::{ArcId, Disjointness, Network, Pool, maximum_flow};

use crate::networks::networks;

/// A bound: coefficients of three amounts, and what their sum must not exceed.
type Row = ([f64; 3], f64);

/// The bounds of what three candidates carry: of each arc, and nothing below 0.
fn rows(network: &Network, pool: &Pool, set: &[usize]) -> Vec<Row> {
    let mut uses: BTreeMap<ArcId, [f64; 3]> = BTreeMap::new();
    for (place, candidate) in set.iter().enumerate() {
        for arc in pool.candidates()[*candidate].path.arcs() {
            uses.entry(*arc).or_default()[place] += 1.0;
        }
    }
    let arcs = uses.into_iter().map(|(arc, row)| (row, network.arc(arc).bandwidth.mbps()));
    let floors = (0..3).map(|place| {
        let mut row = [0.0; 3];
        row[place] = -1.0;
        (row, 0.0)
    });
    arcs.chain(floors).collect()
}

/// Where three bounds meet, by Cramer's rule.
fn corner(rows: [&Row; 3]) -> Option<[f64; 3]> {
    let determinant = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let matrix = rows.map(|row| row.0);
    let whole = determinant(matrix);
    let amount = |column: usize| {
        let mut replaced = matrix;
        replaced.iter_mut().zip(rows).for_each(|(line, row)| line[column] = row.1);
        determinant(replaced) / whole
    };
    (whole.abs() > 1e-9).then(|| [amount(0), amount(1), amount(2)])
}

/// A linear program has its maximum in a corner.
fn by_corners(rows: &[Row]) -> f64 {
    let fits = |point: &[f64; 3]| {
        rows.iter().all(|(row, most)| row.iter().zip(point).map(|(a, x)| a * x).sum::<f64>() <= most + 1e-9)
    };
    let mut best = 0.0_f64;
    for (a, first) in rows.iter().enumerate() {
        for (b, second) in rows.iter().enumerate().skip(a + 1) {
            let corners = rows[b + 1..].iter().filter_map(|third| corner([first, second, third]));
            best = corners.filter(fits).map(|point| point.iter().sum()).fold(best, f64::max);
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn three_paths_carry_what_the_best_corner_does(network in networks(), from in 0..5_usize) {
        let pool = Pool::of_relays(&network);
        let Some(choices) = pool.candidates().len().checked_sub(2).filter(|choices| *choices > 0) else {
            return Ok(());
        };
        let set: Vec<_> = (from % choices..from % choices + 3).collect();
        let expected = by_corners(&rows(&network, &pool, &set));
        prop_assert!((pool.flow(&set).mbps() - expected).abs() < 1e-5, "{} {expected}", pool.flow(&set).mbps());
    }

    #[test]
    fn nothing_carries_more_than_the_union_of_all_routes(network in networks()) {
        let pool = Pool::of_relays(&network);
        let all: Vec<_> = (0..pool.candidates().len()).collect();
        prop_assert!(pool.flow(&all) <= pool.most());
        prop_assert!(pool.most() <= maximum_flow(&network).bandwidth);
        for one in &all {
            // A relay may be at the end of a link that the route takes twice: then it carries half of BW(p).
            let candidate = &pool.candidates()[*one];
            let alone = pool.flow(&[*one]).bits_per_second();
            let width = candidate.path.bandwidth().bits_per_second();
            prop_assert!(alone <= width && 2 * alone + 1 >= width);
        }
    }

    #[test]
    fn disjoint_paths_carry_the_sum(network in networks()) {
        let pool = Pool::of_relays(&network);
        for a in 0..pool.candidates().len() {
            for b in a + 1..pool.candidates().len() {
                let (one, other) = (&pool.candidates()[a].path, &pool.candidates()[b].path);
                if one.is_disjoint(other, Disjointness::Links) {
                    let sum = [a, b].map(|candidate| pool.flow(&[candidate]).bits_per_second());
                    prop_assert_eq!(pool.flow(&[a, b]).bits_per_second(), sum[0] + sum[1]);
                }
            }
        }
    }
}
