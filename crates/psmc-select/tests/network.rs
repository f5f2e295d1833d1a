//! The model by hand: routes, bandwidths, latencies, jointness; what is refused; networks by chance.

use psmc_select::generate::{TransitStub, Waxman};
use psmc_select::{
    Candidate, Constraints, Disjointness, Draft, DraftLink, DraftNode, Hop, JointnessBy, Network,
    NetworkError, Objective, Pool, Problem, ProblemError, Steps, Trace, TraceError, best, maximum_flow,
    most_disjoint_paths, simple_paths, widest_disjoint_paths,
};

/// Two uplinks; over `a` and `b` the same one, over `c` the other.
fn draft() -> Draft {
    let link = |from: &str, to: &str, bandwidth, latency| DraftLink::new(from, to, bandwidth, latency);
    Draft {
        source: "s".into(),
        destination: "d".into(),
        nodes: ["a", "b", "c"].map(DraftNode::relay).into(),
        links: vec![
            link("s", "x", 10.0, 1.0),
            link("x", "a", 8.0, 2.0),
            link("x", "b", 6.0, 3.0),
            link("a", "d", 20.0, 4.0),
            link("b", "d", 20.0, 5.0),
            link("s", "c", 5.0, 50.0),
            link("c", "d", 5.0, 50.0),
        ],
        ..Draft::default()
    }
}

fn network(change: impl FnOnce(&mut Draft)) -> Result<Network, NetworkError> {
    let mut draft = draft();
    change(&mut draft);
    Network::build(&draft)
}

fn route(network: &Network, candidate: &Candidate) -> String {
    candidate.path.nodes().iter().map(|node| network.name(*node)).collect()
}

#[test]
fn bandwidth_latency_and_jointness_are_as_defined() {
    let network = network(|_| ()).unwrap();
    let pool = Pool::of_relays(&network);
    let [a, b, c] = pool.candidates() else { panic!("three relays are three candidates") };
    assert_eq!([a, b, c].map(|one| route(&network, one)), ["sxad", "sxbd", "scd"]);
    assert_eq!([a, b, c].map(|one| one.path.bandwidth().mbps()), [8.0, 6.0, 5.0]);
    assert_eq!([a, b, c].map(|one| one.path.latency().ms()), [7.0, 9.0, 100.0]);
    // One link of five; of 10, 8, 20, 6, 20 Mbit/s; of 1, 2, 4, 3, 5 ms.
    let jointness = |by| a.path.jointness(&b.path, by);
    assert!((jointness(JointnessBy::Links) - 1.0 / 5.0).abs() < 1e-12);
    assert!((jointness(JointnessBy::Bandwidth) - 10.0 / 64.0).abs() < 1e-12);
    assert!((jointness(JointnessBy::Latency) - 1.0 / 15.0).abs() < 1e-12);
    assert!(
        a.path.is_disjoint(&c.path, Disjointness::Nodes) && !a.path.is_disjoint(&b.path, Disjointness::Links)
    );
    let carried = [&[0, 1][..], &[0, 2], &[0, 1, 2]].map(|set| pool.flow(set).mbps());
    assert_eq!((carried, pool.most().mbps()), ([10.0, 13.0, 15.0], 15.0));
}

#[test]
fn the_seeds_objective_counts_bandwidths_for_each_other_path_and_the_sound_one_once() {
    let network = network(|_| ()).unwrap();
    let score = |objective| {
        let constraints = Constraints { max_paths: 3, ..Constraints::default() };
        let problem = Problem::new(&network, Pool::of_relays(&network), objective, constraints).unwrap();
        problem.score(&[0, 1, 2]).leading()
    };
    let by = JointnessBy::Links;
    let disjointness = 0.8 + 1.0 + 1.0;
    let seeds = 2.0 * (8.0 + 6.0 + 5.0) / 15.0 + 2.0 * disjointness;
    assert!((score(Objective::SeedWeighted { weight: 1.0, by }) - seeds).abs() < 1e-6);
    assert!((score(Objective::Weighted { weight: 1.0, by }) - (1.0 + disjointness / 3.0)).abs() < 1e-6);
}

#[test]
fn hosts_forward_nothing_and_measured_routes_count_more_than_fast_ones() {
    let detour = |draft: &mut Draft| {
        draft.links.push(DraftLink::new("d", "c", 100.0, 0.1));
        draft.direct = true;
    };
    let fast = network(detour).unwrap();
    let pool = Pool::of_relays(&fast);
    assert_eq!(
        pool.candidates().iter().map(|one| route(&fast, one)).collect::<Vec<_>>(),
        ["sxad", "sxad", "sxbd", "scd"]
    );
    let trace = Trace {
        from: "s".into(),
        hops: ["y", "a"].map(|node| Hop { node: node.into(), rtt_ms: 300.0, bandwidth_mbps: 1.0 }).into(),
    };
    let measured = network(|draft| draft.add_traces(&[trace]).unwrap()).unwrap();
    assert_eq!(route(&measured, &Pool::of_relays(&measured).candidates()[0]), "syad");
}

#[test]
fn what_is_no_network_is_refused() {
    let refused = |change: fn(&mut Draft)| network(change).unwrap_err().to_string();
    assert_eq!(
        refused(|draft| draft.links[0].bandwidth_mbps = -1.0),
        "the bandwidth of the link from \"s\" to \"x\" is -1; it cannot be negative"
    );
    assert_eq!(
        refused(|draft| draft.links[0].latency_ms = f64::NAN),
        "the latency of the link from \"s\" to \"x\" is NaN; it must be a finite number"
    );
    assert_eq!(
        refused(|draft| draft.nodes.push(DraftNode::router("a"))),
        "two nodes are called \"a\"; rename one, or remove it"
    );
    assert!(matches!(
        network(|draft| draft.nodes[0].price = f64::INFINITY),
        Err(NetworkError::Quantity { .. })
    ));
    assert!(matches!(
        network(|draft| draft.nodes.push(DraftNode::relay("d"))),
        Err(NetworkError::RelayIsEnd(..))
    ));
    assert!(matches!(
        network(|draft| draft.nodes.push(DraftNode::relay("s"))),
        Err(NetworkError::RelayIsEnd(..))
    ));
    assert!(matches!(network(|draft| draft.source = "nobody".into()), Err(NetworkError::UnknownEnd { .. })));
    assert!(matches!(network(|draft| draft.source = "d".into()), Err(NetworkError::SameEnds(_))));
    assert!(matches!(network(|draft| draft.links[0].to = "s".into()), Err(NetworkError::Loop(_))));
    assert!(matches!(network(|draft| draft.links[0].to = String::new()), Err(NetworkError::NamelessNode)));
    let hop = Hop { node: "s".into(), rtt_ms: 1.0, bandwidth_mbps: 1.0 };
    let circle = Trace { from: "s".into(), hops: vec![hop.clone()] };
    assert!(matches!(draft().add_traces(&[circle]), Err(TraceError::Circle(..))));
    for rtt_ms in [f64::NAN, -1.0] {
        let trace = Trace { from: "s".into(), hops: vec![Hop { node: "a".into(), rtt_ms, ..hop.clone() }] };
        assert!(matches!(
            network(|draft| draft.add_traces(&[trace]).unwrap()),
            Err(NetworkError::Quantity { .. })
        ));
    }
}

#[test]
fn what_is_no_problem_is_refused_and_what_is_out_of_reach_is_named() {
    let problem = |change: fn(&mut Draft), constraints: Constraints| {
        let network = network(change).unwrap();
        Problem::new(&network, Pool::of_relays(&network), Objective::Bandwidth, constraints)
    };
    let default = Constraints::default;
    let names = |name: &str| vec![name.to_owned()];
    let no_links = |draft: &mut Draft| draft.links.iter_mut().for_each(|link| link.bandwidth_mbps = 0.0);
    assert!(matches!(problem(no_links, default()), Err(ProblemError::NoCandidates(..))));
    let constraints = Constraints { required: names("q"), ..default() };
    assert!(matches!(problem(|_| (), constraints), Err(ProblemError::UnknownRelay(_))));
    let constraints = Constraints { required: names("a"), forbidden: names("a"), ..default() };
    assert!(matches!(problem(|_| (), constraints), Err(ProblemError::RequiredIsOut(_))));
    let constraints = Constraints { max_paths: 0, ..default() };
    assert!(matches!(problem(|_| (), constraints), Err(ProblemError::Sizes(1, 0))));
    let constraints = Constraints { least_share: Some(f64::NAN), ..default() };
    assert!(matches!(problem(|_| (), constraints), Err(ProblemError::Share(_))));
    let down = problem(|draft| draft.links[6].bandwidth_mbps = 0.0, default()).unwrap();
    assert_eq!((down.pool().candidates().len(), down.pool().unreachable().len()), (2, 1));
}

#[test]
fn a_million_nodes_are_no_trouble() {
    let count = 1_000_000;
    let name = |number: usize| format!("n{number}");
    let chain =
        (1..count).map(|number| DraftLink::new(name(number - 1), name(number), 10.0, 0.001)).collect();
    let relays = vec![DraftNode::relay(name(count / 2)), DraftNode::relay(name(count / 3))];
    let draft = Draft {
        source: name(0),
        destination: name(count - 1),
        nodes: relays,
        links: chain,
        ..Draft::default()
    };
    let network = Network::build(&draft).unwrap();
    let problem =
        Problem::new(&network, Pool::of_relays(&network), Objective::Bandwidth, Constraints::default())
            .unwrap();
    let answer = best(&problem, 1, &mut Steps::unlimited());
    assert!(answer.is_proven());
    assert_eq!(answer.selection.map(|found| found.members.len()), Some(1));
}

#[test]
fn paths_that_are_too_long_or_too_many_are_no_trouble() {
    // A chain of thousands of wide links, and beside it, halfway, another that is narrow at its end.
    let name = |number: usize| format!("n{number}");
    let mut links: Vec<_> =
        (1..5000).map(|number| DraftLink::new(name(number - 1), name(number), 10.0, 0.001)).collect();
    links.push(DraftLink::new(name(0), "x", 9.0, 1.0));
    links.push(DraftLink::new("x", name(4999), 3.0, 1.0));
    links.push(DraftLink::new("x", name(2500), 8.0, 1.0));
    let draft = Draft { source: name(0), destination: name(4999), links, ..Draft::default() };
    let network = Network::build(&draft).unwrap();
    let mut steps = Steps::new(100_000);
    let answer = widest_disjoint_paths(&network, Disjointness::Nodes, None, &mut steps);
    assert!((answer.bandwidth().mbps() - 13.0).abs() < 1e-9 && answer.most >= answer.bandwidth());
    assert_eq!(simple_paths(&network, 10).map(|paths| paths.len()), Some(4));
    let dense = Network::build(&Waxman { degree: 8.0, ..Waxman::new(60, 1) }.generate(1)).unwrap();
    assert_eq!(simple_paths(&dense, 1000), None);
}

#[test]
fn equal_seeds_give_equal_networks_in_which_all_can_be_reached() {
    for (nodes, relays) in [(1, 1), (2, 3), (20, 10), (500, 50)] {
        let drafts = |seed| {
            [TransitStub::new(nodes, relays).generate(seed), Waxman::new(nodes, relays).generate(seed)]
        };
        assert_eq!(drafts(7), drafts(7));
        for draft in drafts(7) {
            let network = Network::build(&draft).unwrap();
            assert_eq!(network.graph().node_count(), nodes + relays + 2);
            let pool = Pool::of_relays(&network);
            assert_eq!((pool.candidates().len(), pool.unreachable().len()), (relays, 0));
            assert!(!most_disjoint_paths(&network, Disjointness::Nodes).is_empty());
            assert!(maximum_flow(&network).bandwidth >= pool.most());
        }
        if nodes > 2 {
            assert_ne!(drafts(7), drafts(8));
        }
    }
}
