//! `psmc init`

use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use psmc_toml::host_address;
use psmcd::config::{AllowedNet, Config, Endpoint, Name, ValueError};

use super::files::{NewSite, Place};
use super::start::{Running, start};
use super::{CONFIG_DIR, SetupError, addresses, endpoint};
use crate::cli::{CliError, output};

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// What this site is called
    #[arg(long, value_name = "NAME")]
    name: Name,
    /// Where other sites reach this machine: an address or a name, with the port unless it is 5115
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    endpoint: Endpoint,
    /// The addresses of this site inside the tunnel, with the lengths of their networks' prefixes [default: of networks chosen at random]
    #[arg(long = "address", value_name = "NET", value_parser = address)]
    addresses: Vec<IpNet>,
    /// A network behind this site, of which sites that join are told
    #[arg(long = "network", value_name = "NET")]
    networks: Vec<AllowedNet>,
    /// Let sites that join reach the Internet through this machine, from its address
    #[arg(long)]
    internet: bool,
    /// Where key and configuration are written
    #[arg(long, value_name = "FOLDER", default_value = CONFIG_DIR)]
    dir: PathBuf,
    /// Only write the files
    #[arg(long)]
    no_start: bool,
}

fn address(text: &str) -> Result<IpNet, ValueError> {
    host_address(text, "choose one of a private network, such as 10.77.0.1/24")
}

/// Makes this machine a site that others can join.
pub(in crate::cli) fn init(args: InitArgs) -> Result<(), CliError> {
    let place = Place::new(&args.dir, &args.name);
    place.require_free().map_err(SetupError::from)?;
    let key = place.make_key().map_err(SetupError::from)?;
    let addresses = match args.addresses {
        given if given.is_empty() => addresses::of_first_site(),
        given => given,
    };
    let site = NewSite {
        addresses: &addresses,
        endpoint: Some(&args.endpoint),
        networks: &args.networks,
        internet: args.internet,
        host: None,
    };
    let file = place.write_config(&site).map_err(SetupError::from)?;
    let config = Config::load(&file)?;
    let texts: Vec<_> = addresses.iter().map(IpNet::to_string).collect();
    let mut text = format!(
        "Site {}, {} in the tunnel, public key {}\nWritten: {}, {}\n",
        args.name,
        texts.join(", "),
        key.public(),
        place.key().display(),
        file.display()
    );
    for notice in psmcd::machine::notices(&config) {
        text += &format!("Attention: {notice}\n");
    }
    if args.no_start {
        text += &format!("Start it: psmcd --config {}\n", file.display());
    } else {
        let Running { how, .. } = start(&place, &config).map_err(SetupError::from)?;
        text += &format!("{how}\nNext: psmc invite NAME, for each site that is to join\n");
    }
    Ok(output::print(&text)?)
}
