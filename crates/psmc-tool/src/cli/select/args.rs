//! The arguments of `psmc select` and `psmc topology`.

use std::path::PathBuf;

use super::SelectError;
use clap::{Args, ValueEnum};
use psmc_select::{Constraints, Disjointness, JointnessBy, Latency, Objective, Price, QuantityError};

/// What stands behind `psmc select`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SelectArgs {
    /// The network: .toml, .json, .graphml, .dot or .gv, or .hops
    pub(super) file: PathBuf,
    /// Objective of the selection
    #[arg(long, default_value = "weighted", value_name = "NAME")]
    pub(super) objective: ObjectiveArg,
    /// Search algorithm
    #[arg(long, default_value = "best", value_name = "NAME")]
    pub(super) algorithm: Algorithm,
    /// Which paths there are to choose from
    #[arg(long, default_value = "relays", value_name = "WHICH")]
    pub(super) routes: Routes,
    /// The weight of the bandwidth in the weighted objectives; that of disjointness is 1
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    alpha: f64,
    /// What counts where paths share links
    #[arg(long, default_value = "links", value_name = "WHAT")]
    joint_by: JointByArg,
    /// Time limit, in ms
    #[arg(long, default_value_t = 1000, value_name = "MS", conflicts_with = "steps")]
    pub(super) time: u64,
    /// Step limit, for reproducible answers
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<u64>,
    /// Seed of the heuristics
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
    /// Relays that are in use, with commas between: print the least change that makes the selection good enough again
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub(super) running: Vec<String>,
    /// Fraction by which the running selection may fall short of the best before it is changed
    #[arg(long, default_value_t = 0.1, value_name = "SHARE", value_parser = share, requires = "running")]
    pub(super) hysteresis: f64,
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
#[command(next_help_heading = "Missing from the file")]
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
    /// At least so many paths [default: 1]
    #[arg(long, value_name = "N")]
    min_paths: Option<usize>,
    /// At most so many paths [default: 9]
    #[arg(long, value_name = "N")]
    max_paths: Option<usize>,
    /// Each path must have more than this share of the mean bandwidth [default: 0.1]
    #[arg(long, value_name = "SHARE")]
    least_share: Option<f64>,
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
    /// The most bandwidth, then the lowest maximum latency
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
    /// The literature's greedy algorithm
    Greedy,
    /// The literature's construction for k disjoint paths; needs --routes any and --paths
    KBest,
    /// The literature's construction for the fewest disjoint paths; needs --routes any and --disjoint
    MinNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Routes {
    /// One over each relay, as the network routes
    Relays,
    /// All that the links allow, whether there are relays or not
    Any,
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
    /// How many paths there must be.
    pub(super) fn paths(&self) -> Option<usize> {
        self.limits.paths
    }

    /// What they must not share.
    pub(super) fn disjoint(&self) -> Option<Disjointness> {
        self.limits.disjoint.map(|disjoint| match disjoint {
            DisjointArg::Links => Disjointness::Links,
            DisjointArg::Nodes => Disjointness::Nodes,
        })
    }

    /// Refuses constraints that are kept to only where there are candidates to choose from.
    pub(super) fn only_disjointness(&self) -> Result<(), SelectError> {
        let limits = &self.limits;
        let sizes = limits.min_paths.or(limits.max_paths).is_some() || limits.least_share.is_some();
        let crowds = limits.per_uplink.or(limits.per_provider).is_some();
        let costs = limits.max_price.or(limits.max_latency).is_some();
        let names = [&limits.require, &limits.forbid, &self.running].iter().any(|names| !names.is_empty());
        if sizes || crowds || costs || names {
            return Err(SelectError::Unsuitable(
                "with --routes any and this objective, --paths and --disjoint are the only constraints; leave out the others",
            ));
        }
        Ok(())
    }

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
        let default = Constraints::default();
        Ok(Constraints {
            min_paths: limits.paths.or(limits.min_paths).unwrap_or(default.min_paths),
            max_paths: limits.paths.or(limits.max_paths).unwrap_or(default.max_paths),
            // No path has less than nothing.
            least_share: limits.least_share.or(default.least_share).filter(|share| *share != 0.0),
            disjoint: self.disjoint(),
            per_uplink: limits.per_uplink,
            per_provider: limits.per_provider,
            max_price: limits.max_price.map(Price::per_gigabyte).transpose()?,
            max_latency: limits.max_latency.map(Latency::from_ms).transpose()?,
            required: limits.require.clone(),
            forbidden: limits.forbid.clone(),
        })
    }
}

/// What stands behind `psmc topology`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TopologyArgs {
    /// How the routers are joined
    pub(super) model: Model,
    /// How many routers
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) nodes: u32,
    /// How many relays besides, each at a router
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(super) relays: u32,
    /// By how many links the source and the destination are joined to routers
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(super) uplinks: u32,
    /// With the same seed the network is the same
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Model {
    /// Transit domains, with stub domains at their routers, as GT-ITM does
    TransitStub,
    /// Routers placed at random in a square; nearby ones are more likely to be linked (Waxman)
    Waxman,
}

/// From 0 up to, but without, 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().map_err(|_| "write a number such as 0.1".to_owned())?;
    if (0.0..1.0).contains(&share) { Ok(share) } else { Err("write a share from 0 to below 1".to_owned()) }
}
