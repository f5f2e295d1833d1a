//! The sites of tunnels, which are told what `psmcd` would be told.

use std::path::Path;
use std::time::Duration;

use psmc_core::{PathConfig, PathState, SiteConfig, SocketId};
use psmc_net::keys::PrivateKey;
use psmc_sim::{HostId, Identity, LinkId, PathSetup, PeerSetup, SiteId, SiteSetup, World};
use psmcd::config::{Config, FITTED_LEAST_MTU, PathSettings, Paths, Peer};
use psmcd::daemon::settings::{path_config, peer_config, site_config};

use super::SimError;
use crate::scenario::{Scenario, TunnelId};
use crate::site::Site;

/// How long tunnels may take to come up, as in a real run.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether they are.
const LOOK: Duration = Duration::from_millis(10);

/// The MTU of an interface, unless its link carries longer packets.
const DEFAULT_MTU: usize = 1500;

/// The sites of all tunnels.
#[derive(Debug)]
pub(super) struct Tunnels(Vec<[SiteId; 2]>);

impl Tunnels {
    /// Starts all sites, and waits until all paths carry data.
    pub(super) fn open(scenario: &Scenario, world: &mut World) -> Result<Self, SimError> {
        let tunnels = (0..scenario.tunnels.len()).map(|id| sites(scenario, TunnelId(id), world));
        let tunnels = Self(tunnels.collect::<Result<_, _>>()?);
        // Who dials before anybody listens pauses before it tries again.
        for end in [1, 0] {
            for (sites, plan) in tunnels.0.iter().zip(&scenario.tunnels) {
                let started = world.start_site(sites[end]);
                started.map_err(|source| SimError::Site { tunnel: plan.name.clone(), source })?;
            }
        }
        tunnels.wait_until_up(scenario, world)?;
        Ok(tunnels)
    }

    /// A site.
    pub(super) fn site(&self, tunnel: TunnelId, end: usize) -> SiteId {
        self.0[tunnel.0][end]
    }

    fn wait_until_up(&self, scenario: &Scenario, world: &mut World) -> Result<(), SimError> {
        let deadline = world.now() + PATIENCE;
        for (id, plan) in scenario.tunnels.iter().enumerate() {
            while active_paths(world, self.site(TunnelId(id), 0)) < plan.paths.len() {
                if world.now() >= deadline {
                    let (tunnel, state) = (plan.name.clone(), summary(world, self.site(TunnelId(id), 0)));
                    return Err(SimError::NotUp { tunnel, waited: PATIENCE, state });
                }
                world.run_until(world.now() + LOOK);
            }
        }
        Ok(())
    }
}

/// Adds both sites of a tunnel to the world.
fn sites(scenario: &Scenario, id: TunnelId, world: &mut World) -> Result<[SiteId; 2], SimError> {
    let keys = [0, 1].map(|end| PrivateKey::from_seed(key_seed(scenario.seed, id, end)));
    let setups = [setup(scenario, id, 0, &keys)?, setup(scenario, id, 1, &keys)?];
    Ok(setups.map(|setup| world.add_site(setup)))
}

fn setup(
    scenario: &Scenario,
    id: TunnelId,
    end: usize,
    keys: &[PrivateKey; 2],
) -> Result<SiteSetup, SimError> {
    let tunnel = &scenario.tunnels[id.0];
    let site = Site { scenario, tunnel: id, end };
    let text = site.config(&keys[end], &keys[1 - end].public(), Path::new("/run"));
    let config = Config::parse(&text, Path::new("psmcd.toml"));
    let config = config.map_err(|source| SimError::Settings { tunnel: tunnel.name.clone(), source })?;
    // The world has chance of its own.
    // Nor does anybody fit the interface's MTU to the paths while it runs.
    let mtu = config.site.mtu.unwrap_or(FITTED_LEAST_MTU);
    let engine = SiteConfig { seed: [0; 32], mtu, ..site_config(&config.site) };
    let identity = |end| Identity(2 * id.0 as u64 + end as u64);
    let peers = config.peers.iter().map(|peer| PeerSetup {
        identity: identity(1 - end),
        config: peer_config(peer, keys[end].public()),
        endpoint: None,
        paths: paths(scenario, id, peer),
    });
    Ok(SiteSetup {
        host: HostId(tunnel.ends[end].host.0),
        identity: identity(end),
        config: engine,
        addresses: config.site.addresses.clone(),
        listen: site.port(),
        peers: peers.collect(),
    })
}

/// The paths to a peer. Those of the configuration are those of the tunnel, in the same order.
fn paths(scenario: &Scenario, id: TunnelId, peer: &Peer) -> Vec<PathSetup> {
    let Paths::Listed(listed) = &peer.paths else {
        return Vec::new();
    };
    let plans = &scenario.tunnels[id.0].paths;
    let setups = listed.iter().zip(plans).filter_map(|(settings, plan)| {
        let link = LinkId(plan.link.0);
        let config = path(settings, mtu(scenario, link))?;
        Some(PathSetup { config, link: Some(link), address: settings.address.map(|address| address.get()) })
    });
    setups.collect()
}

/// What an engine is told about a path. Endpoints are never names here, and never left out.
fn path(settings: &PathSettings, link_mtu: u16) -> Option<PathConfig> {
    let remote = settings.endpoint.as_ref()?.socket_addr()?;
    let mtu = settings.mtu.map_or(link_mtu, |mtu| mtu.get());
    Some(path_config(settings, SocketId(0), remote, mtu))
}

/// The MTU of the interfaces of a link.
fn mtu(scenario: &Scenario, link: LinkId) -> u16 {
    let longest = scenario.links[link.0].directions.iter().filter_map(|direction| direction.mtu).max();
    u16::try_from(longest.unwrap_or(DEFAULT_MTU).max(DEFAULT_MTU)).unwrap_or(u16::MAX)
}

/// Keys that differ from each other, and are the same each time.
fn key_seed(seed: u64, tunnel: TunnelId, end: usize) -> [u8; 32] {
    let mut bytes = [0; 32];
    let words = [seed, tunnel.0 as u64, end as u64];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn active_paths(world: &World, site: SiteId) -> usize {
    let paths = world.site_status(site, 0).map(|status| status.paths).unwrap_or_default();
    paths.iter().filter(|path| path.state == PathState::Active).count()
}

fn summary(world: &World, site: SiteId) -> String {
    let paths = world.site_status(site, 0).map(|status| status.paths).unwrap_or_default();
    let paths: Vec<_> =
        paths.iter().map(|path| format!("path {} is {}", path.name, path.state.name())).collect();
    paths.join(", ")
}
