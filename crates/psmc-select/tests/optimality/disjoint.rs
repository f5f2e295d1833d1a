//! Disjoint paths through the whole network, beside brute force.

use crate::networks::{networks, simple_paths};
use proptest::prelude::*;
use psmc_select::{
    Bandwidth, Disjointness, Draft, DraftLink, Latency, Network, Path, Steps, fastest_disjoint_paths,
    maximum_flow, most_disjoint_paths, seed, widest_disjoint_paths,
};

/// The numbers, bandwidths and longest latencies of all sets of disjoint paths.
fn all_sets(network: &Network, kind: Disjointness) -> Vec<(usize, Bandwidth, Latency)> {
    fn extend(
        rest: &[Path],
        chosen: &mut Vec<Path>,
        kind: Disjointness,
        out: &mut Vec<(usize, Bandwidth, Latency)>,
    ) {
        for (place, path) in rest.iter().enumerate() {
            if chosen.iter().all(|other| other.is_disjoint(path, kind)) {
                chosen.push(path.clone());
                out.push((chosen.len(), sum(chosen), longest(chosen)));
                extend(&rest[place + 1..], chosen, kind, out);
                chosen.pop();
            }
        }
    }
    let mut out = Vec::new();
    extend(&simple_paths(network), &mut Vec::new(), kind, &mut out);
    out
}

fn sum(paths: &[Path]) -> Bandwidth {
    Bandwidth::from_bits_per_second(paths.iter().map(|path| path.bandwidth().bits_per_second()).sum())
}

fn longest(paths: &[Path]) -> Latency {
    paths.iter().map(Path::latency).max().unwrap_or_default()
}

fn are_disjoint(paths: &[Path], kind: Disjointness) -> bool {
    (0..paths.len()).all(|place| paths[..place].iter().all(|other| other.is_disjoint(&paths[place], kind)))
}

fn kinds() -> impl Strategy<Value = Disjointness> {
    prop::sample::select(vec![Disjointness::Links, Disjointness::Nodes])
}

/// Networks that brute force can handle.
fn small_networks() -> impl Strategy<Value = Network> {
    networks().prop_filter("too many paths", |network| simple_paths(network).len() <= 60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn as_many_disjoint_paths_are_found_as_there_are(network in small_networks(), kind in kinds()) {
        let paths = most_disjoint_paths(&network, kind);
        prop_assert!(are_disjoint(&paths, kind));
        let most = all_sets(&network, kind).iter().map(|set| set.0).max();
        prop_assert_eq!(paths.len(), most.unwrap_or(0));
    }

    #[test]
    fn the_widest_disjoint_paths_are_found(network in small_networks(), kind in kinds(), count in 1..4_usize) {
        let sets = all_sets(&network, kind);
        for count in [Some(count), None] {
            let answer = widest_disjoint_paths(&network, kind, count, &mut Steps::unlimited());
            let fitting = || sets.iter().filter(|set| count.is_none_or(|count| set.0 == count));
            let most = fitting().map(|set| set.1).max().unwrap_or_default();
            let fewest = fitting().filter(|set| set.1 == most).map(|set| set.0).min().unwrap_or(0);
            prop_assert!(answer.proven && are_disjoint(&answer.paths, kind));
            prop_assert_eq!((answer.bandwidth(), answer.most, answer.paths.len()), (most, most, fewest));
        }
    }

    #[test]
    fn the_fastest_of_the_widest_are_found(network in small_networks(), kind in kinds(), count in 1..4_usize) {
        let sets = all_sets(&network, kind);
        for count in [Some(count), None] {
            let answer = fastest_disjoint_paths(&network, kind, count, &mut Steps::unlimited());
            let fitting = || sets.iter().filter(|set| count.is_none_or(|count| set.0 == count));
            let most = fitting().map(|set| set.1).max().unwrap_or_default();
            let fastest = fitting().filter(|set| set.1 == most).map(|set| set.2).min().unwrap_or_default();
            prop_assert!(answer.proven && are_disjoint(&answer.paths, kind));
            prop_assert_eq!((answer.bandwidth(), answer.longest_latency()), (most, fastest));
            prop_assert_eq!(answer.fastest, fastest);
        }
    }

    #[test]
    fn an_unfinished_search_bounds_the_best(network in small_networks(), kind in kinds(), steps in 0..30_u64) {
        let whole = fastest_disjoint_paths(&network, kind, None, &mut Steps::unlimited());
        let part = fastest_disjoint_paths(&network, kind, None, &mut Steps::new(steps));
        prop_assert!(part.most >= whole.bandwidth() && part.bandwidth() <= whole.bandwidth());
        if part.bandwidth() == whole.bandwidth() {
            prop_assert!(part.fastest <= whole.longest_latency());
        }
        prop_assert!(!part.proven || part.longest_latency() == whole.longest_latency());
    }

    #[test]
    fn the_maximum_flow_is_what_its_paths_carry(network in networks()) {
        let flow = maximum_flow(&network);
        let carried: u64 = flow.paths.iter().map(|(_, carried)| carried.bits_per_second()).sum();
        prop_assert_eq!(flow.bandwidth.bits_per_second(), carried);
        let widest = widest_disjoint_paths(&network, Disjointness::Links, None, &mut Steps::new(1000));
        prop_assert!(widest.bandwidth() <= flow.bandwidth);
    }
}

fn network(links: &[(&str, &str, f64)]) -> Network {
    let links = links.iter().map(|(from, to, bandwidth)| DraftLink::directed(*from, *to, *bandwidth, 1.0));
    let draft =
        Draft { source: "s".into(), destination: "t".into(), links: links.collect(), ..Draft::default() };
    Network::build(&draft).unwrap()
}

fn mbps(paths: &[Path]) -> f64 {
    sum(paths).mbps()
}

#[test]
fn theorem_5_1_fails_because_all_paths_cost_nothing() {
    // Whichever arcs come first: of two orders, one makes the construction take the narrow path.
    let found = |order: [&str; 3]| {
        let arcs = order.iter().flat_map(|via| {
            let width = if *via == "c" { 1.0 } else { 100.0 };
            [("s", *via, width), (*via, "t", width)]
        });
        let network = network(&arcs.collect::<Vec<_>>());
        let exact = widest_disjoint_paths(&network, Disjointness::Nodes, Some(2), &mut Steps::unlimited());
        assert!((mbps(&exact.paths) - 200.0).abs() < 1e-9);
        mbps(&seed::k_best_paths(&network, 2).unwrap())
    };
    let found = [found(["a", "b", "c"]), found(["c", "a", "b"])];
    assert!(found.contains(&101.0) && found.contains(&200.0), "{found:?}");
}

#[test]
fn theorem_5_1_fails_because_a_flow_knows_no_number_of_paths() {
    let network =
        network(&[("s", "a", 4.0), ("s", "b", 4.0), ("a", "m", 4.0), ("b", "m", 4.0), ("m", "t", 8.0)]);
    assert!((maximum_flow(&network).bandwidth.mbps() - 8.0).abs() < 1e-9);
    assert_eq!(seed::k_best_paths(&network, 2), None);
    let exact = widest_disjoint_paths(&network, Disjointness::Nodes, Some(2), &mut Steps::unlimited());
    assert!(exact.paths.is_empty() && exact.proven);
}

#[test]
fn theorem_5_2_fails_because_a_greatest_set_is_not_the_widest() {
    let arcs = [
        ("s", "a", 10.0),
        ("s", "b", 1.0),
        ("a", "c", 10.0),
        ("a", "d", 1.0),
        ("b", "c", 1.0),
        ("b", "d", 1.0),
        ("c", "t", 10.0),
        ("d", "t", 1.0),
    ];
    let mut other = arcs;
    other.swap(2, 3);
    let found = [arcs, other].map(|arcs| {
        let network = network(&arcs);
        let exact = widest_disjoint_paths(&network, Disjointness::Links, None, &mut Steps::unlimited());
        assert!((mbps(&exact.paths) - 11.0).abs() < 1e-9 && exact.proven);
        let seeds = seed::min_number(&network, Disjointness::Links);
        assert!((seeds.most.mbps() - 11.0).abs() < 1e-9);
        seeds.bandwidth.mbps()
    });
    assert!(found.contains(&2.0), "{found:?}");
}
