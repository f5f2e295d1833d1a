//! `psmc select`

mod args;
mod report;

use std::time::{Duration, Instant};

use psmc_select::{
    Answer, Budget, Chromosomes, Draft, DraftNode, Genetic, Network, NetworkError, Pool, Problem,
    ProblemError, QuantityError, Selection, best, exact, genetic, local,
};

use super::{CliError, output};
use crate::topology::{self, TopologyError};
use args::{Algorithm, EndArgs};
use report::Report;

pub(super) use args::SelectArgs;

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
}

pub(super) fn run(args: &SelectArgs) -> Result<(), CliError> {
    Ok(output::print(&select(args)?)?)
}

fn select(args: &SelectArgs) -> Result<String, CliError> {
    let network = network(args)?;
    let problem = problem(args, &network)?;
    let mut budget = Clock::new(args);
    let answer = search(args, &problem, &mut budget);
    let Some(selection) = &answer.selection else { return Err(nothing(&answer).into()) };
    let report = Report::new(&network, &problem, selection, &answer, budget.spent);
    Ok(match (args.json, args.dot) {
        (true, _) => output::json(&report)?,
        (false, true) => report.dot(&network, &problem, selection),
        (false, false) => report.text(),
    })
}

fn network(args: &SelectArgs) -> Result<Network, SelectError> {
    let mut draft = topology::read(&args.file)?;
    args.ends.apply(&mut draft);
    Ok(Network::build(&draft)?)
}

fn problem(args: &SelectArgs, network: &Network) -> Result<Problem, SelectError> {
    Ok(Problem::new(network, Pool::of_relays(network), args.objective(), args.constraints()?)?)
}

fn search(args: &SelectArgs, problem: &Problem, budget: &mut dyn Budget) -> Answer {
    let heuristic = |selection: Option<Selection>| Answer { bound: None, selection };
    let mut breed = |chromosomes| genetic(problem, &Genetic::new(chromosomes), args.seed, budget);
    match args.algorithm {
        Algorithm::Genetic => heuristic(breed(Chromosomes::Variable)),
        Algorithm::GeneticFixed => heuristic(breed(Chromosomes::Fixed)),
        Algorithm::Local => heuristic(local(problem, None, args.seed, budget)),
        Algorithm::Exact => exact(problem, None, budget),
        Algorithm::Best => best(problem, args.seed, budget),
    }
}

fn nothing(answer: &Answer) -> SelectError {
    SelectError::Nothing(if answer.is_proven() {
        "relax them, or add relays"
    } else {
        "at least none was found: give it more time, or relax them"
    })
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

/// A budget of time, or of steps.
struct Clock {
    end: Instant,
    most: Option<u64>,
    spent: u64,
}

impl Clock {
    fn new(args: &SelectArgs) -> Self {
        Self { end: Instant::now() + Duration::from_millis(args.time), most: args.steps, spent: 0 }
    }
}

impl Budget for Clock {
    fn allows(&mut self, steps: u64) -> bool {
        let after = self.spent.saturating_add(steps);
        let allowed = match self.most {
            Some(most) => after <= most,
            None => Instant::now() < self.end,
        };
        if allowed {
            self.spent = after;
        }
        allowed
    }
}
