//! What a selection must keep to.

use std::collections::BTreeMap;

use crate::network::Network;
use crate::{Disjointness, Latency, Pool, Price};

/// The constraints of the seed, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraints {
    /// At least so many paths.
    pub min_paths: usize,
    /// At most so many paths.
    pub max_paths: usize,
    /// T: a path must have more than this share of the mean bandwidth.
    pub least_share: Option<f64>,
    /// What paths must not share.
    pub disjoint: Option<Disjointness>,
    /// At most so many paths leave by one link.
    pub per_uplink: Option<usize>,
    /// At most so many paths lead over relays of one provider.
    pub per_provider: Option<usize>,
    /// The most that a gigabyte may cost, if it is spread over the paths by their bandwidths.
    pub max_price: Option<Price>,
    /// The most that a path may take.
    pub max_latency: Option<Latency>,
    /// Relays that must be used, by name.
    pub required: Vec<String>,
    /// Relays that must not be used, by name.
    pub forbidden: Vec<String>,
}

impl Default for Constraints {
    /// Those of the seed: Sizeof(S) < 10, and BW(p) > 1/10 of the mean.
    fn default() -> Self {
        Self {
            min_paths: 1,
            max_paths: SEED_MOST_PATHS,
            least_share: Some(SEED_LEAST_SHARE),
            disjoint: None,
            per_uplink: None,
            per_provider: None,
            max_price: None,
            max_latency: None,
            required: Vec::new(),
            forbidden: Vec::new(),
        }
    }
}

/// W = 10, and the size is to be less: PSMC ch. V, constraint b.
const SEED_MOST_PATHS: usize = 9;

/// T = 1/10: PSMC ch. V, constraint a.
const SEED_LEAST_SHARE: f64 = 0.1;

/// The most paths that a selection can have: as many as a tunnel.
pub(crate) const MOST_PATHS: usize = 64;

/// Why constraints make no problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// No relay leads from the source to the destination.
    #[error(
        "no candidate leads from {0:?} to {1:?}; add relays that links join with both, or allow the direct route"
    )]
    NoCandidates(String, String),
    /// A relay that is named is not there.
    #[error("{0:?} is not a relay of this network; correct the name")]
    UnknownRelay(String),
    /// A relay is asked for that cannot be had.
    #[error("the relay {0:?} is required, but forbidden, too slow or out of reach; change one of the two")]
    RequiredIsOut(String),
    /// A number of paths that cannot be.
    #[error(
        "a selection has {0} to {1} paths here, but must have 1 to {MOST_PATHS}; change the number of paths"
    )]
    Sizes(usize, usize),
    /// A share that is none.
    #[error("the least share of the mean is {0}, but must be from 0 to below 1")]
    Share(f64),
    /// A weight that is none.
    #[error("the weight of the bandwidth is {0}, but must be a number that is not negative")]
    Weight(f64),
}

impl Constraints {
    /// The candidates that may be chosen, in ascending order.
    pub(super) fn eligible(&self, network: &Network, pool: &Pool) -> Result<Vec<usize>, ProblemError> {
        if self.min_paths > self.max_paths || !(1..=MOST_PATHS).contains(&self.max_paths) {
            return Err(ProblemError::Sizes(self.min_paths, self.max_paths));
        }
        if let Some(share) = self.least_share.filter(|share| !(0.0..1.0).contains(share)) {
            return Err(ProblemError::Share(share));
        }
        if pool.candidates().is_empty() {
            let name = |node| network.name(node).to_owned();
            return Err(ProblemError::NoCandidates(name(network.source()), name(network.destination())));
        }
        let names = Names::new(network, pool);
        self.forbidden.iter().try_for_each(|name| names.find(name).map(drop))?;
        let fits = |number: &usize| {
            let candidate = &pool.candidates()[*number];
            !self.forbidden.contains(&candidate.name)
                && self.max_latency.is_none_or(|most| candidate.path.latency() <= most)
        };
        Ok((0..pool.candidates().len()).filter(fits).collect())
    }

    /// The candidates that must be chosen, in ascending order.
    pub(super) fn required(
        &self,
        network: &Network,
        pool: &Pool,
        eligible: &[usize],
    ) -> Result<Vec<usize>, ProblemError> {
        let names = Names::new(network, pool);
        let mut required = Vec::new();
        for name in &self.required {
            let number = names.find(name)?.filter(|number| eligible.binary_search(number).is_ok());
            required.push(number.ok_or_else(|| ProblemError::RequiredIsOut(name.clone()))?);
        }
        required.sort_unstable();
        required.dedup();
        Ok(required)
    }
}

/// What candidates are called: numbers, and `None` for relays that are out of reach.
struct Names<'a>(BTreeMap<&'a str, Option<usize>>);

impl<'a> Names<'a> {
    fn new(network: &'a Network, pool: &'a Pool) -> Self {
        let unreachable = pool.unreachable().iter().map(|relay| (network.name(*relay), None));
        let candidates = pool.candidates().iter().enumerate();
        Self(unreachable.chain(candidates.map(|(number, one)| (one.name.as_str(), Some(number)))).collect())
    }

    fn find(&self, name: &str) -> Result<Option<usize>, ProblemError> {
        self.0.get(name).copied().ok_or_else(|| ProblemError::UnknownRelay(name.to_owned()))
    }
}
