//! Plain tunnels: which there are, and where the sites are to which their ends are left.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::Refusal;

use super::hub::Hub;
use super::member::Member;
use super::{ConnectionId, Denied, Ends};
use crate::config::{Tunnel, TunnelEnd};
use crate::worker::WorkerDied;

impl Hub {
    /// Has packets pass by these plain tunnels from now on. False if the relay takes no IP-in-IP.
    pub(crate) async fn reload_tunnels(&self, tunnels: &[Tunnel]) -> Result<bool, WorkerDied> {
        self.ends.leave_to(sites_of(tunnels));
        let pairs = tunnels.iter().map(Tunnel::pair).collect();
        let served =
            self.tunnels_worker().call(move |worker| worker.set_plain_tunnels(pairs, Instant::now())).await?;
        for site in self.ends.all() {
            if !self.place(site).await? {
                tracing::error!("a tunnel would lead into itself: a site registers from inside it");
            }
        }
        Ok(served)
    }

    /// A site to which an end of a plain tunnel is left registers by a connection from that address.
    pub(crate) async fn register_end(
        &self,
        member: &Member,
        by: ConnectionId,
        from: SocketAddr,
    ) -> Result<(), Denied> {
        let IpAddr::V4(at) = from.ip().to_canonical() else {
            let text = "an end of a tunnel registers over IPv4: dial the relay at its IPv4 address";
            return Err(Denied::new(Refusal::NotAllowed, text));
        };
        let site = member.account.key();
        if !self.ends.register(site, by, at) {
            return Ok(());
        }
        if !self.place(site).await? {
            self.ends.leave(site, by);
            let text = format!("the tunnel would lead into itself: {at} is behind one of its ends");
            return Err(Denied::new(Refusal::NotAllowed, text));
        }
        tracing::info!(site = %member.name, %at, "an end of a tunnel has registered");
        Ok(())
    }

    /// A connection of a site has ended.
    pub(crate) async fn leave(&self, member: &Member, by: ConnectionId) -> Result<(), WorkerDied> {
        let site = member.account.key();
        if self.ends.leave(site, by) {
            tracing::info!(site = %member.name, "an end of a tunnel is not registered any more");
            self.place(site).await?;
        }
        Ok(())
    }

    /// Tells the worker where a site is; false if a tunnel would lead into itself.
    async fn place(&self, site: KeyBytes) -> Result<bool, WorkerDied> {
        let ends = self.ends.clone();
        // Looked up there, so that what is done last is what was said last.
        self.tunnels_worker().call(move |worker| worker.place_site(site, ends.address(site))).await
    }
}

/// The sites to which these tunnels leave their ends.
fn sites_of(tunnels: &[Tunnel]) -> impl Iterator<Item = KeyBytes> {
    let sites = tunnels.iter().flat_map(|tunnel| &tunnel.ends).filter_map(TunnelEnd::site);
    sites.map(|key| KeyBytes(*key.as_bytes()))
}

/// To whom the ends of these tunnels are left, none of whom has registered yet.
pub(super) fn ends_of(tunnels: &[Tunnel]) -> Ends {
    let ends = Ends::default();
    ends.leave_to(sites_of(tunnels));
    ends
}
