//! Selections beside brute force.

use crate::networks::{networks, objectives};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use psmc_select::{
    Chromosomes, Constraints, Disjointness, Genetic, Latency, Pool, Price, Problem, Score, Selection, Steps,
    best, exact, genetic, local,
};

fn constraints() -> impl Strategy<Value = Constraints> {
    let disjoint =
        prop::sample::select(vec![None, None, Some(Disjointness::Links), Some(Disjointness::Nodes)]);
    let crowds = (prop::option::of(1..3_usize), prop::option::of(1..3_usize));
    let limits = (prop::option::of(0..5_u32), prop::option::of(5..40_u32));
    (1..3_usize, 0..6_usize, prop::option::of(0.0..0.9), disjoint, crowds, limits).prop_map(
        |(min_paths, more, least_share, disjoint, (per_uplink, per_provider), (price, latency))| {
            Constraints {
                min_paths,
                max_paths: min_paths + more,
                least_share,
                disjoint,
                per_uplink,
                per_provider,
                max_price: price.map(|price| Price::per_gigabyte(f64::from(price)).unwrap()),
                max_latency: latency.map(|latency| Latency::from_ms(f64::from(latency)).unwrap()),
                ..Constraints::default()
            }
        },
    )
}

/// Any problem that there are candidates for.
pub(crate) fn problems() -> impl Strategy<Value = Problem> {
    (networks(), objectives(), constraints()).prop_filter_map(
        "no candidates",
        |(network, objective, constraints)| {
            Problem::new(&network, Pool::of_relays(&network), objective, constraints).ok()
        },
    )
}

/// All sets that meet the constraints.
pub(crate) fn all_selections(problem: &Problem) -> impl Iterator<Item = Selection> {
    let count = problem.pool().candidates().len();
    let subsets =
        (1_u32..1 << count).map(move |bits| (0..count).filter(|place| bits >> place & 1 == 1).collect());
    subsets.filter_map(|set: Vec<usize>| problem.select(set))
}

/// The best of them.
fn brute_force(problem: &Problem) -> Option<Selection> {
    all_selections(problem).max_by_key(|selection| selection.score)
}

fn score(selection: Option<&Selection>) -> Option<Score> {
    selection.map(|selection| selection.score)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn branch_and_bound_is_exact(problem in problems()) {
        let answer = exact(&problem, None, &mut Steps::unlimited());
        let optimum = brute_force(&problem);
        prop_assert!(answer.is_proven());
        prop_assert_eq!(score(answer.selection.as_ref()), score(optimum.as_ref()));
    }

    #[test]
    fn an_unfinished_search_says_how_far_it_may_be_from_the_best(problem in problems(), steps in 0..20_u64) {
        let answer = best(&problem, 1, &mut Steps::new(steps));
        if let Some(optimum) = brute_force(&problem) {
            let bound = answer.bound.unwrap();
            prop_assert!(bound >= optimum.score, "{bound:?} {optimum:?}");
        }
    }
}

/// What share of many random problems a heuristic solves to the optimum, and its worst share of the optimum elsewhere.
fn quality(problems_to_solve: u32, heuristic: impl Fn(&Problem) -> Option<Selection>) -> (f64, f64) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = problems();
    let (mut solved, mut solvable, mut worst) = (0_u32, 0_u32, 1.0_f64);
    while solvable < problems_to_solve {
        let problem = strategy.new_tree(&mut runner).unwrap().current();
        let Some(optimum) = brute_force(&problem) else { continue };
        solvable += 1;
        let found = heuristic(&problem);
        if score(found.as_ref()) == Some(optimum.score) {
            solved += 1;
        } else {
            let share = found.map_or(0.0, |found| found.score.leading() / optimum.score.leading());
            worst = worst.min(share);
        }
    }
    (f64::from(solved) / f64::from(solvable), worst)
}

#[test]
fn local_search_is_optimal_nearly_always() {
    let (solved, worst) = quality(3000, |problem| local(problem, None, 1, &mut Steps::unlimited()));
    println!("optimal: {solved}, else at least {worst} of the optimum");
    assert!(solved >= 0.99, "{solved}");
    assert!(worst >= 0.5, "{worst}");
}

#[test]
fn genetic_search_comes_close() {
    for (chromosomes, least) in [(Chromosomes::Fixed, 0.0), (Chromosomes::Variable, 0.9)] {
        let ga = Genetic::new(chromosomes);
        let (solved, worst) = quality(500, |problem| genetic(problem, &ga, 1, &mut Steps::unlimited()));
        println!("{chromosomes:?} optimal: {solved}, else at least {worst} of the optimum");
        assert!(solved >= least, "{solved}");
    }
}
