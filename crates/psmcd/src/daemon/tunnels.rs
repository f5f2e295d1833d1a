//! Paths whose datagrams are wrapped in IP-in-IP: what their sockets are bound to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use psmc_core::{PeerId, SocketId};
use psmc_net::ipip::{self, TunnelBind, Way};
use psmc_net::udp::{BindError, UdpBind, source_address};
use psmc_wire::ip::IPV4_HEADER_LEN;
use thiserror::Error;

use super::control::Control;
use super::paths::{OpenError, local_end};
use super::relays::Goal;
use crate::config::{PathSettings, Transport};

/// Bytes that wrapping takes of each packet.
#[expect(clippy::cast_possible_truncation, reason = "twenty")]
pub(super) const TUNNEL_HEADER: u16 = IPV4_HEADER_LEN as u16;

/// The ports that datagrams have within tunnels, one for each socket; no socket of the kernel has to be bound to them
/// (RFC 6335, section 6: the dynamic ports).
const INSIDE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// What a socket of the data plane is bound to.
#[derive(Clone, Debug)]
pub(super) enum Bind {
    /// A UDP socket.
    Udp(UdpBind),
    /// A raw socket, for UDP within a tunnel.
    Tunnel(TunnelBind),
}

/// Why a socket of the data plane can't be had.
#[derive(Debug, Error)]
pub enum PortError {
    /// That of UDP.
    #[error(transparent)]
    Udp(#[from] BindError),
    /// That of IP-in-IP.
    #[error(transparent)]
    Tunnel(#[from] ipip::OpenError),
    /// The kernel tells of no more descriptors.
    #[error(
        "cannot wait for datagrams: `sysctl fs.epoll.max_user_watches` is how many descriptors a user may wait for"
    )]
    Unwatched(#[source] std::io::Error),
}

impl Control {
    /// The tunnel of a path to this goal, if it has one; `relay` is where it goes if that is one of ours.
    pub(super) fn tunnel_of(
        &mut self,
        settings: &PathSettings,
        (owner, socket): (PeerId, SocketId),
        (goal, relay): (Goal, SocketAddr),
    ) -> Result<Option<TunnelBind>, OpenError> {
        let end = self.relays.tunnel_end(settings).cloned();
        if settings.transport != Transport::IpIp && end.is_none() {
            return Ok(None);
        }
        let Goal::Address(peer) = goal else { return Err(OpenError::NoAddress) };
        let local_end = local_end(settings);
        let (inside, way) = match end {
            Some(end) => {
                let address = v4(self.names.address_of(&end.address, owner, &mut self.tasks)?)?;
                (end.inside, Way::Plain(*address.ip()))
            }
            None => {
                let own = match local_end.local {
                    Some(own) => Ok(own),
                    None => source_address(local_end.interface.as_deref(), relay),
                };
                (ipv4(own.map_err(OpenError::NoSource)?)?, Way::Relay(v4(peer)?))
            }
        };
        let source = local_end.local.map(ipv4).transpose()?;
        let local = SocketAddrV4::new(inside, inside_port(socket));
        Ok(Some(TunnelBind { interface: local_end.interface, source, local, way }))
    }
}

fn inside_port(socket: SocketId) -> u16 {
    let count = u32::try_from(INSIDE_PORTS.len()).unwrap_or(1);
    // Less than the number of ports, so that it fits.
    INSIDE_PORTS.start() + u16::try_from(socket.0 % count).unwrap_or_default()
}

fn v4(address: SocketAddr) -> Result<SocketAddrV4, OpenError> {
    match address {
        SocketAddr::V4(v4) => Ok(v4),
        SocketAddr::V6(v6) => Err(OpenError::NotIpv4(IpAddr::V6(*v6.ip()))),
    }
}

fn ipv4(ip: IpAddr) -> Result<Ipv4Addr, OpenError> {
    match ip {
        IpAddr::V4(v4) => Ok(v4),
        IpAddr::V6(_) => Err(OpenError::NotIpv4(ip)),
    }
}
