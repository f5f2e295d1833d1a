//! `psmc join`

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ipnet::IpNet;
use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::connect_tcp;
use psmcd::config::{Config, Endpoint, Transport};
use psmcd::enrolment::{Admission, JoinUri, apply};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::files::{Host, NewSite, Place};
use super::start::{Running, start};
use super::{CONFIG_DIR, SetupError};
use crate::cli::status::{path_reasons, path_table};
use crate::cli::{CliError, output};
use psmc_api::{Client, PathState, PathStatus};

/// How long an address of the site that invites may take to answer.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long paths may take until they carry data: those that do not by then are told of as they are.
const PATHS_TIME: Duration = Duration::from_secs(5);

/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(in crate::cli) struct JoinArgs {
    /// What `psmc invite` has printed on the other site, psmc:…; - reads it from standard input
    #[arg(value_name = "INVITATION")]
    uri: String,
    /// Reach the Internet as before, and not through the site that invites, though it offers that
    #[arg(long)]
    no_internet: bool,
    /// What carries the datagrams of its paths: udp, tls, or auto, which is TLS where no UDP gets through
    #[arg(long)]
    transport: Option<Transport>,
    /// Where key and configuration are written
    #[arg(long, value_name = "FOLDER", default_value = CONFIG_DIR)]
    dir: PathBuf,
    /// Only write the files
    #[arg(long)]
    no_start: bool,
}

/// Makes this machine a site of the tunnel that it is invited to.
pub(in crate::cli) fn join(args: &JoinArgs) -> Result<(), CliError> {
    // Not read as an argument is: complaints about those repeat them, and this one is secret.
    let uri: JoinUri = invitation(&args.uri)?.parse().map_err(SetupError::from)?;
    let JoinUri { name, endpoint, host, .. } = &uri;
    let place = Place::new(&args.dir, name);
    place.require_free().map_err(SetupError::from)?;
    let key = place.make_key().map_err(SetupError::from)?;
    let Admission { host: host_name, addresses, mut networks } = admission(&uri, &key)?;
    if args.no_internet {
        networks.retain(|net| net.prefix_len() > 0);
    }
    let peer = Host {
        name: &host_name,
        public_key: *host,
        networks: &networks,
        endpoint,
        transport: args.transport,
    };
    let site =
        NewSite { addresses: &addresses, endpoint: None, networks: &[], internet: false, host: Some(peer) };
    let file = place.write_config(&site).map_err(SetupError::from)?;
    let config = Config::load(&file)?;
    let mut text = format!(
        "Joined {host_name} as {name}, {} in the tunnel\nWritten: {}, {}\n",
        joined(&addresses),
        place.key().display(),
        file.display()
    );
    for notice in psmcd::machine::notices(&config) {
        text += &format!("Attention: {notice}\n");
    }
    if args.no_start {
        text += &format!("Start it: psmcd --config {}\n", file.display());
        return Ok(output::print(&text)?);
    }
    let Running { mut client, how } = start(&place, &config).map_err(SetupError::from)?;
    let paths = settled(&mut client)?;
    let is_up = paths.iter().any(|path| path.state == PathState::Active);
    let outcome = if is_up {
        format!("The tunnel is up: {} are reached through it", joined(&networks))
    } else {
        "No path carries data yet; `psmc status` shows when one does".to_owned()
    };
    text += &format!("{how}\n\n{}{}{outcome}\n", path_table(&paths), path_reasons(&paths));
    Ok(output::print(&text)?)
}

/// The line that was given, or is given on standard input.
fn invitation(argument: &str) -> Result<Zeroizing<String>, CliError> {
    if argument != "-" {
        return Ok(Zeroizing::new(argument.to_owned()));
    }
    let mut line = Zeroizing::new(String::new());
    io::stdin().read_line(&mut line).map_err(SetupError::Input)?;
    Ok(line)
}

fn joined(networks: &[IpNet]) -> String {
    networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}

/// Applies at the site that invites.
fn admission(uri: &JoinUri, key: &PrivateKey) -> Result<Admission, SetupError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(SetupError::Runtime)?.block_on(async {
        let endpoint = &uri.endpoint;
        let stream = reach(endpoint).await;
        let stream = stream.map_err(|source| SetupError::Unreached { endpoint: endpoint.clone(), source })?;
        let admitted = apply(stream, uri, key).await;
        admitted.map_err(|source| SetupError::Join { endpoint: endpoint.clone(), source })
    })
}

/// Connects to the first of its addresses that answers.
async fn reach(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match endpoint.socket_addr() {
        Some(address) => vec![address],
        None => endpoint.to_string().to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match connect_tcp(None, None, address, CONNECT_TIME).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = io::Error::other(error),
        }
    }
    Err(last)
}

/// The paths, once all carry data or their time is over.
fn settled(client: &mut Client) -> Result<Vec<PathStatus>, CliError> {
    let begun = Instant::now();
    loop {
        let paths: Vec<_> = client.paths(None)?.into_iter().flat_map(|peer| peer.paths).collect();
        let are_active = paths.iter().all(|path| path.state == PathState::Active);
        if (are_active && !paths.is_empty()) || begun.elapsed() > PATHS_TIME {
            return Ok(paths);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
