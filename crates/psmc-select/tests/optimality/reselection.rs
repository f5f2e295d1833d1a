//! Re-selections beside brute force.

use std::collections::BTreeSet;

use proptest::prelude::*;
use psmc_select::{Hysteresis, Problem, Steps, exact, reselect};

use crate::selection::{all_selections, problems};

fn distance(a: &[usize], b: &[usize]) -> usize {
    let sets = [a, b].map(|set| set.iter().collect::<BTreeSet<_>>());
    sets[0].symmetric_difference(&sets[1]).count()
}

/// What of a running selection may go on.
fn still(problem: &Problem, running: &[usize]) -> Vec<usize> {
    running.iter().copied().filter(|member| problem.eligible().contains(member)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_cheaper_change_regains_the_objective(problem in problems(), bits in 0..256_usize, loss in 0.0..0.5) {
        let running: Vec<_> =
            (0..problem.pool().candidates().len()).filter(|place| bits >> place & 1 == 1).collect();
        let best = exact(&problem, None, &mut Steps::unlimited()).selection;
        let hysteresis = Hysteresis::new(loss);
        let change = reselect(&problem, &running, best.as_ref(), hysteresis, &mut Steps::unlimited());
        let Some(best) = best else {
            prop_assert!(change.selection.is_none() && change.add.is_empty() && change.remove.is_empty());
            return Ok(());
        };
        let selection = change.selection.unwrap();
        let changed = change.add.iter().chain(&change.remove).count();
        prop_assert_eq!(changed, distance(&running, &selection.members));
        let still = still(&problem, &running);
        let cost = distance(&still, &selection.members);
        if cost == 0 {
            prop_assert!(selection.score.leading() >= hysteresis.keep * best.score.leading());
        } else {
            let least = hysteresis.regain * best.score.leading();
            let good = all_selections(&problem).filter(|one| one.score.leading() >= least);
            prop_assert_eq!(Some(cost), good.map(|one| distance(&still, &one.members)).min());
            prop_assert!(change.cheapest);
        }
    }

    #[test]
    fn a_change_in_a_hurry_regains_the_objective_too(problem in problems(), bits in 0..256_usize, steps in 0..9_u64) {
        let running: Vec<_> =
            (0..problem.pool().candidates().len()).filter(|place| bits >> place & 1 == 1).collect();
        let Some(best) = exact(&problem, None, &mut Steps::unlimited()).selection else { return Ok(()) };
        let change = reselect(&problem, &running, Some(&best), Hysteresis::new(0.2), &mut Steps::new(steps));
        prop_assert!(change.selection.unwrap().score.leading() >= 0.8 * best.score.leading());
    }
}
