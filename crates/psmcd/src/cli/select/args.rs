//! The arguments of `psmc select`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use psmc_select::{Constraints, Disjointness, JointnessBy, Latency, Objective, Price, QuantityError};

/// What stands behind `psmc select`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SelectArgs {
    /// The network: .toml, .json, .graphml, .dot or .gv, or .hops
    pub(super) file: PathBuf,
    /// What the selection is to be good at
    #[arg(long, default_value = "weighted", value_name = "NAME")]
    pub(super) objective: ObjectiveArg,
    /// How to look for it
    #[arg(long, default_value = "best", value_name = "NAME")]
    pub(super) algorithm: Algorithm,
    /// The weight of the bandwidth in the weighted objectives; that of disjointness is 1
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    alpha: f64,
    /// What counts where paths share links
    #[arg(long, default_value = "links", value_name = "WHAT")]
    joint_by: JointByArg,
    /// How long it may take, in ms
    #[arg(long, default_value_t = 1000, value_name = "MS", conflicts_with = "steps")]
    pub(super) time: u64,
    /// How many steps it may take: with so many, the answer is the same every time
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<u64>,
    /// Where heuristics begin
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
    /// Print it as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the network with the selection in it, for Graphviz
    #[arg(long, conflicts_with = "json")]
    pub(super) dot: bool,
    #[command(flatten)]
    pub(super) ends: EndArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Where the paths lead.
#[derive(Debug, Args)]
#[command(next_help_heading = "What the file does not say")]
pub(super) struct EndArgs {
    /// Where the paths begin
    #[arg(long, value_name = "NODE")]
    pub(super) source: Option<String>,
    /// Where they end
    #[arg(long, value_name = "NODE")]
    pub(super) destination: Option<String>,
    /// A relay; can be given several times
    #[arg(long = "relay", value_name = "NODE")]
    pub(super) relays: Vec<String>,
    /// The route without a relay is a candidate too
    #[arg(long)]
    pub(super) direct: bool,
}

/// What the selection must keep to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Constraints")]
struct LimitArgs {
    /// Exactly so many paths
    #[arg(long, value_name = "N", conflicts_with_all = ["min_paths", "max_paths"])]
    paths: Option<usize>,
    /// At least so many paths
    #[arg(long, default_value_t = 1, value_name = "N")]
    min_paths: usize,
    /// At most so many paths
    #[arg(long, default_value_t = 9, value_name = "N")]
    max_paths: usize,
    /// Each path must have more than this share of the mean bandwidth
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    least_share: f64,
    /// What the paths must not share
    #[arg(long, value_name = "WHAT")]
    disjoint: Option<DisjointArg>,
    /// At most so many paths by one link of the source
    #[arg(long, value_name = "N")]
    per_uplink: Option<usize>,
    /// At most so many paths over relays of one provider
    #[arg(long, value_name = "N")]
    per_provider: Option<usize>,
    /// The most that a gigabyte may cost, spread over the paths by bandwidth
    #[arg(long, value_name = "PRICE")]
    max_price: Option<f64>,
    /// The most that a path may take, one way, in ms
    #[arg(long, value_name = "MS")]
    max_latency: Option<f64>,
    /// A relay that must be used; can be given several times
    #[arg(long, value_name = "NODE")]
    require: Vec<String>,
    /// A relay that must not be used; can be given several times
    #[arg(long, value_name = "NODE")]
    forbid: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ObjectiveArg {
    /// The most bandwidth, with the fewest paths
    Bandwidth,
    /// The most bandwidth, with the least longest latency
    Latency,
    /// The most bandwidth, with the least jointness
    Jointness,
    /// alpha × bandwidth as a share of the most there is + mean disjointness
    Weighted,
    /// The literature's sum over pairs, to compare with
    WeightedSeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Algorithm {
    /// Local search, then branch and bound for the proof
    Best,
    /// Local search
    Local,
    /// Branch and bound
    Exact,
    /// Genetic, with chromosomes of variable length
    Genetic,
    /// Genetic, with chromosomes of fixed length: always the most paths
    GeneticFixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JointByArg {
    /// How many links
    Links,
    /// Their bandwidth
    Bandwidth,
    /// Their latency
    Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DisjointArg {
    /// Links
    Links,
    /// Nodes, but for the ends
    Nodes,
}

impl SelectArgs {
    pub(super) fn objective(&self) -> Objective {
        let by = match self.joint_by {
            JointByArg::Links => JointnessBy::Links,
            JointByArg::Bandwidth => JointnessBy::Bandwidth,
            JointByArg::Latency => JointnessBy::Latency,
        };
        match self.objective {
            ObjectiveArg::Bandwidth => Objective::Bandwidth,
            ObjectiveArg::Latency => Objective::Latency,
            ObjectiveArg::Jointness => Objective::Jointness(by),
            ObjectiveArg::Weighted => Objective::Weighted { weight: self.alpha, by },
            ObjectiveArg::WeightedSeed => Objective::SeedWeighted { weight: self.alpha, by },
        }
    }

    pub(super) fn constraints(&self) -> Result<Constraints, QuantityError> {
        let limits = &self.limits;
        Ok(Constraints {
            min_paths: limits.paths.unwrap_or(limits.min_paths),
            max_paths: limits.paths.unwrap_or(limits.max_paths),
            least_share: (limits.least_share != 0.0).then_some(limits.least_share),
            disjoint: limits.disjoint.map(|disjoint| match disjoint {
                DisjointArg::Links => Disjointness::Links,
                DisjointArg::Nodes => Disjointness::Nodes,
            }),
            per_uplink: limits.per_uplink,
            per_provider: limits.per_provider,
            max_price: limits.max_price.map(Price::per_gigabyte).transpose()?,
            max_latency: limits.max_latency.map(Latency::from_ms).transpose()?,
            required: limits.require.clone(),
            forbidden: limits.forbid.clone(),
        })
    }
}
