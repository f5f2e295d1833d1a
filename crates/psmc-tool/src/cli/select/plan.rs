//! A selection and all that is to be said about it.

use std::time::{Duration, Instant};

use psmc_select::{
    Answer, Bandwidth, Budget, DisjointPaths, Flow, JointnessBy, Network, NodeId, Path, Problem, Reselection,
    Selection,
};

/// What is printed in the end.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) paths: Vec<Planned>,
    /// What the paths carry together, and what could be carried at most.
    pub(super) bandwidth: Bandwidth,
    pub(super) most: Bandwidth,
    pub(super) joint_by: JointnessBy,
    pub(super) proof: Proof,
    /// How many candidates there were; for paths through the whole network there are none.
    pub(super) candidates: Option<usize>,
    pub(super) unreachable: Vec<String>,
    /// What to do about what runs.
    pub(super) change: Option<Change>,
}

/// A path of the plan.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) relay: Option<NodeId>,
    pub(super) provider: Option<String>,
    pub(super) price: f64,
    pub(super) path: Path,
    /// What it carries, where that is less than it could.
    pub(super) carries: Option<Bandwidth>,
}

/// How good the plan is.
#[derive(Debug)]
pub(super) struct Proof {
    pub(super) score: Option<[f64; 3]>,
    pub(super) bound: Option<[f64; 3]>,
    pub(super) proven: bool,
    pub(super) gap: Option<f64>,
}

/// Relays to add and to remove, by name.
#[derive(Debug, serde::Serialize)]
pub(super) struct Change {
    pub(super) add: Vec<String>,
    pub(super) remove: Vec<String>,
    pub(super) cheapest: bool,
}

impl Plan {
    pub(super) fn of_relays(
        network: &Network,
        problem: &Problem,
        selection: &Selection,
        answer: &Answer,
    ) -> Self {
        let pool = problem.pool();
        let planned = |member: &usize| {
            let candidate = &pool.candidates()[*member];
            Planned {
                name: candidate.name.clone(),
                relay: candidate.relay,
                provider: candidate.provider.clone(),
                price: candidate.price.get(),
                path: candidate.path.clone(),
                carries: None,
            }
        };
        Self {
            paths: selection.members.iter().map(planned).collect(),
            bandwidth: pool.flow(&selection.members),
            most: pool.most(),
            joint_by: problem.objective().jointness_by(),
            proof: Proof {
                score: Some(selection.score.0),
                bound: answer.bound.map(|bound| bound.0),
                proven: answer.is_proven(),
                gap: answer.gap(),
            },
            candidates: Some(pool.candidates().len()),
            unreachable: pool.unreachable().iter().map(|relay| network.name(*relay).to_owned()).collect(),
            change: None,
        }
    }

    /// Of a maximum flow, which is one by its nature.
    pub(super) fn of_flow(flow: Flow) -> Self {
        let proof = Proof { score: None, bound: None, proven: true, gap: Some(0.0) };
        let paths = flow.paths.into_iter().map(|(path, carries)| (path, Some(carries)));
        Self::of_paths(paths, flow.bandwidth, flow.bandwidth, proof)
    }

    pub(super) fn of_disjoint(found: DisjointPaths) -> Self {
        let (bandwidth, most) = (found.bandwidth(), found.most);
        let gap = (most.mbps() > 0.0).then(|| 1.0 - bandwidth.mbps() / most.mbps());
        let latency = |latency: psmc_select::Latency| -latency.ms();
        let proof = Proof {
            score: Some([bandwidth.mbps(), latency(found.longest_latency()), 0.0]),
            bound: Some([most.mbps(), latency(found.fastest), 0.0]),
            proven: found.proven,
            gap,
        };
        Self::of_paths(alone(found.paths), bandwidth, most, proof)
    }

    /// Of one of the seed's constructions, which prove nothing.
    pub(super) fn of_construction(paths: Vec<Path>, most: Bandwidth) -> Self {
        let bits = paths.iter().map(|path| path.bandwidth().bits_per_second()).sum();
        let proof = Proof { score: None, bound: None, proven: false, gap: None };
        Self::of_paths(alone(paths), Bandwidth::from_bits_per_second(bits), most, proof)
    }

    fn of_paths(
        paths: impl IntoIterator<Item = (Path, Option<Bandwidth>)>,
        bandwidth: Bandwidth,
        most: Bandwidth,
        proof: Proof,
    ) -> Self {
        let name = |number: usize| format!("path {}", number + 1);
        let planned = |(number, (path, carries))| Planned {
            name: name(number),
            relay: None,
            provider: None,
            price: 0.0,
            path,
            carries,
        };
        Self {
            paths: paths.into_iter().enumerate().map(planned).collect(),
            bandwidth,
            most,
            joint_by: JointnessBy::Links,
            proof,
            candidates: None,
            unreachable: Vec::new(),
            change: None,
        }
    }

    /// With what to do about what runs: candidates by name, of which some may no longer exist.
    pub(super) fn with_change(self, problem: &Problem, done: &Reselection, gone: Vec<String>) -> Self {
        let names = |numbers: &[usize]| -> Vec<String> {
            numbers.iter().map(|number| problem.pool().candidates()[*number].name.clone()).collect()
        };
        let remove = [names(&done.remove), gone].concat();
        Self { change: Some(Change { add: names(&done.add), remove, cheapest: done.cheapest }), ..self }
    }

    pub(super) fn longest_latency_ms(&self) -> f64 {
        self.paths.iter().map(|planned| planned.path.latency().ms()).fold(0.0, f64::max)
    }

    /// Of pairs; none, if there is no pair.
    pub(super) fn mean_disjointness(&self) -> Option<f64> {
        let later =
            |place: usize| self.paths[place + 1..].iter().map(move |other| (&self.paths[place], other));
        let pairs = (0..self.paths.len()).flat_map(later);
        let disjointness: Vec<_> =
            pairs.map(|(a, b)| 1.0 - a.path.jointness(&b.path, self.joint_by)).collect();
        (!disjointness.is_empty()).then(|| disjointness.iter().sum::<f64>() / disjointness.len() as f64)
    }
}

/// Paths that share nothing that could make them carry less.
fn alone(paths: Vec<Path>) -> impl Iterator<Item = (Path, Option<Bandwidth>)> {
    paths.into_iter().map(|path| (path, None))
}

/// A budget of time, or of steps.
pub(super) struct Clock {
    end: Instant,
    most: Option<u64>,
    pub(super) spent: u64,
}

impl Clock {
    pub(super) fn new(milliseconds: u64, most: Option<u64>) -> Self {
        Self { end: Instant::now() + Duration::from_millis(milliseconds), most, spent: 0 }
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
