//! `psmc select`, and `psmc topology`, which makes networks to try it on

mod args;
mod plan;
mod report;

use std::io;

use psmc_select::generate::{TransitStub, Waxman};
use psmc_select::{
    Answer, Budget, Chromosomes, Draft, DraftNode, Genetic, Hysteresis, Network, NetworkError, Pool, Problem,
    ProblemError, QuantityError, Selection, best, exact, fastest_disjoint_paths, genetic, local,
    maximum_flow, reselect, seed, simple_paths, widest_disjoint_paths,
};

use super::{CliError, output};
use crate::topology::{self, TopologyError};
use args::{Algorithm, EndArgs, Model, ObjectiveArg, Routes};
use plan::{Clock, Plan};
use report::Report;

pub(super) use args::{SelectArgs, TopologyArgs};

/// Why nothing was selected.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelectError {
    #[error("{0}")]
    Topology(#[from] TopologyError),
    #[error("{0}")]
    Network(#[from] NetworkError),
    #[error("{0}")]
    Problem(#[from] ProblemError),
    #[error("a constraint {0}")]
    Constraint(#[from] QuantityError),
    #[error("no selection meets the constraints; {0}")]
    Nothing(&'static str),
    #[error("no path leads from {0:?} to {1:?}, or not as many as asked for; add links, or ask for fewer")]
    NoPaths(String, String),
    #[error(
        "there are more than {MOST_SIMPLE_PATHS} paths; ask for disjoint ones with --disjoint, or select relays"
    )]
    TooManyPaths,
    #[error("{0}")]
    Unsuitable(&'static str),
}

pub(super) fn run(args: &SelectArgs) -> Result<(), CliError> {
    let network = network(args)?;
    let mut clock = Clock::new(args.time, args.steps);
    let plan = plan(args, &network, &mut clock)?;
    let report = Report::new(&network, &plan, clock.spent);
    let text = match (args.json, args.dot) {
        (true, _) => output::json(&report)?,
        (false, true) => report::dot(&network, &plan),
        (false, false) => report.text(),
    };
    Ok(output::print(&text)?)
}

fn network(args: &SelectArgs) -> Result<Network, SelectError> {
    let mut draft = topology::read(&args.file)?;
    args.ends.apply(&mut draft);
    Ok(Network::build(&draft)?)
}

fn plan(args: &SelectArgs, network: &Network, clock: &mut Clock) -> Result<Plan, SelectError> {
    match (args.routes, args.algorithm) {
        (Routes::Relays, Algorithm::KBest | Algorithm::MinNumber) => {
            Err(SelectError::Unsuitable("this construction is for the whole network: add --routes any"))
        }
        (Routes::Relays, _) => of_pool(args, network, Pool::of_relays(network), clock),
        (Routes::Any, _) => through_network(args, network, clock),
    }
}

/// A choice among candidates.
fn of_pool(args: &SelectArgs, network: &Network, pool: Pool, clock: &mut Clock) -> Result<Plan, SelectError> {
    let problem = Problem::new(network, pool, args.objective(), args.constraints()?)?;
    let answer = search(args, network, &problem, clock);
    let Some(selection) = &answer.selection else { return Err(nothing(&answer)) };
    if args.running.is_empty() {
        return Ok(Plan::of_relays(network, &problem, selection, &answer));
    }
    let running: Vec<_> = args.running.iter().filter_map(|name| problem.find(name)).collect();
    let gone = args.running.iter().filter(|name| problem.find(name).is_none()).cloned().collect();
    let hysteresis = Hysteresis::new(args.hysteresis);
    let done = reselect(&problem, &running, Some(selection), hysteresis, clock);
    let kept = done.selection.as_ref().unwrap_or(selection);
    Ok(Plan::of_relays(network, &problem, kept, &answer).with_change(&problem, &done, gone))
}

fn search(args: &SelectArgs, network: &Network, problem: &Problem, budget: &mut dyn Budget) -> Answer {
    let heuristic = |selection: Option<Selection>| Answer { bound: None, selection };
    let mut breed = |chromosomes| genetic(problem, &Genetic::new(chromosomes), args.seed, budget);
    match args.algorithm {
        Algorithm::Genetic => heuristic(breed(Chromosomes::Variable)),
        Algorithm::GeneticFixed => heuristic(breed(Chromosomes::Fixed)),
        Algorithm::Greedy => heuristic(seed::greedy(network, problem, args.seed)),
        Algorithm::Local => heuristic(local(problem, None, args.seed, budget)),
        Algorithm::Exact => exact(problem, None, budget),
        Algorithm::Best | Algorithm::KBest | Algorithm::MinNumber => best(problem, args.seed, budget),
    }
}

fn nothing(answer: &Answer) -> SelectError {
    SelectError::Nothing(if answer.is_proven() {
        "relax them, or add relays"
    } else {
        "at least none was found: give it more time, or relax them"
    })
}

/// Paths wherever they lead.
fn through_network(args: &SelectArgs, network: &Network, budget: &mut Clock) -> Result<Plan, SelectError> {
    let plan = match (args.algorithm, args.objective, args.disjoint()) {
        (Algorithm::KBest, _, _) => {
            let count = args.paths().ok_or(SelectError::Unsuitable("say how many paths: add --paths N"))?;
            let paths = seed::k_best_paths(network, count).unwrap_or_default();
            Plan::of_construction(paths, maximum_flow(network).bandwidth)
        }
        (Algorithm::MinNumber, _, kind) => {
            let kind = kind.ok_or(SelectError::Unsuitable("say what is disjoint: add --disjoint links"))?;
            let found = seed::min_number(network, kind);
            Plan::of_construction(found.paths, found.most)
        }
        (_, ObjectiveArg::Bandwidth, Some(kind)) => {
            args.only_disjointness()?;
            Plan::of_disjoint(widest_disjoint_paths(network, kind, args.paths(), budget))
        }
        (_, ObjectiveArg::Latency, Some(kind)) => {
            args.only_disjointness()?;
            Plan::of_disjoint(fastest_disjoint_paths(network, kind, args.paths(), budget))
        }
        (_, ObjectiveArg::Bandwidth, None) => {
            args.only_disjointness()?;
            Plan::of_flow(maximum_flow(network))
        }
        (_, ObjectiveArg::Latency, None)
        | (_, ObjectiveArg::Jointness | ObjectiveArg::Weighted | ObjectiveArg::WeightedSeed, _) => {
            let paths = simple_paths(network, MOST_SIMPLE_PATHS).ok_or(SelectError::TooManyPaths)?;
            return of_pool(args, network, Pool::of_paths(network, paths), budget);
        }
    };
    let name = |node| network.name(node).to_owned();
    let missing = || SelectError::NoPaths(name(network.source()), name(network.destination()));
    if plan.paths.is_empty() { Err(missing()) } else { Ok(plan) }
}

impl EndArgs {
    fn apply(&self, draft: &mut Draft) {
        if let Some(source) = &self.source {
            draft.source.clone_from(source);
        }
        if let Some(destination) = &self.destination {
            draft.destination.clone_from(destination);
        }
        for name in &self.relays {
            match draft.nodes.iter_mut().find(|node| node.name == *name) {
                Some(node) => node.relay = true,
                None => draft.nodes.push(DraftNode::relay(name)),
            }
        }
        draft.direct |= self.direct;
    }
}

/// Runs `psmc topology`.
pub(super) fn make_network(args: &TopologyArgs) -> Result<(), CliError> {
    let (nodes, relays, uplinks) = (args.nodes as usize, args.relays as usize, args.uplinks as usize);
    let draft = match args.model {
        Model::TransitStub => TransitStub { uplinks, ..TransitStub::new(nodes, relays) }.generate(args.seed),
        Model::Waxman => Waxman { uplinks, ..Waxman::new(nodes, relays) }.generate(args.seed),
    };
    let text = topology::to_toml(&draft).map_err(io::Error::other)?;
    Ok(output::print(&text)?)
}

/// To choose from more takes longer than anybody waits; and then there are relays, of which fewer lead anywhere.
const MOST_SIMPLE_PATHS: usize = 256;
