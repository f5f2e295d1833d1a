//! `psmc topology`

use clap::{Args, ValueEnum};
use psmc_select::generate::{TransitStub, Waxman};

use super::{CliError, output};
use crate::topology;

/// What stands behind `psmc topology`.
#[derive(Debug, Args)]
pub(super) struct TopologyArgs {
    /// How the routers are joined
    model: Model,
    /// How many routers
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: u32,
    /// How many relays besides, each at a router
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    relays: u32,
    /// By how many links the source and the destination are joined to routers
    #[arg(long, default_value_t = 3, value_name = "N")]
    uplinks: u32,
    /// With the same seed the network is the same
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Transit domains, with stub domains at their routers, as GT-ITM does
    TransitStub,
    /// Routers strewn over a square, of which near ones are more likely to be joined
    Waxman,
}

pub(super) fn run(args: &TopologyArgs) -> Result<(), CliError> {
    let (nodes, relays, uplinks) = (args.nodes as usize, args.relays as usize, args.uplinks as usize);
    let draft = match args.model {
        Model::TransitStub => TransitStub { uplinks, ..TransitStub::new(nodes, relays) }.generate(args.seed),
        Model::Waxman => Waxman { uplinks, ..Waxman::new(nodes, relays) }.generate(args.seed),
    };
    let text = topology::to_toml(&draft).map_err(std::io::Error::other)?;
    Ok(output::print(&text)?)
}
