//! The sessions of one path: one at each relay that it leads through.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use psmc_core::Via;
use psmc_net::keys::PublicKey;
use psmc_wire::hop::Hop;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Far, Message, Refusal, Reserve, ReserveTunnel, Reserved, SessionId};

use super::RelayError;
use super::link::Link;
use super::reach::{Caller, Goal, LocalEnd, address_of, reach};
use crate::config::{Endpoint, Relay};

/// Connections to all relays of a path, the nearest first.
pub(super) struct Chain {
    links: Vec<Link>,
    /// Where each of them takes datagrams.
    data: Vec<SocketAddr>,
}

/// Where a path leads, by whatever name.
#[derive(Clone, Debug)]
pub(in crate::daemon) enum Destination {
    /// To where this name leads when it is asked for.
    Endpoint(Endpoint),
    /// To the site with this key, which has registered with the last relay.
    Gateway(PublicKey),
}

impl Destination {
    async fn far(&self) -> Result<Far, RelayError> {
        let goal = match self {
            Self::Endpoint(endpoint) => Goal::Address(address_of(endpoint).await?),
            Self::Gateway(key) => Goal::Gateway(*key),
        };
        Ok(goal.far())
    }
}

/// The sessions that a path has at its relays.
#[derive(Debug)]
pub(super) struct Sessions {
    ids: Vec<SessionId>,
    /// After which time without use the first of them is forgotten.
    pub(super) idle: Duration,
}

impl Chain {
    /// Connects to the relays.
    pub(super) async fn open(
        caller: &Caller,
        local_end: &LocalEnd,
        relays: &[Relay],
    ) -> Result<Self, RelayError> {
        let mut chain = Self { links: Vec::new(), data: Vec::new() };
        for (index, relay) in relays.iter().enumerate() {
            let address = address_of(&relay.address).await?;
            let stream = reach(caller, local_end, &relays[..index], Goal::Address(address)).await?;
            let mut link = Link::open(caller, relay, stream).await?;
            let port = link.welcome().await?.data_port;
            chain.links.push(link);
            chain.data.push(SocketAddr::new(address.ip(), port));
        }
        Ok(chain)
    }

    /// Reserves sessions to `destination`, from the last relay to the first: each needs to know the label at the next one.
    /// The first gets datagrams in IP-in-IP from the address `inside`, if that is said.
    pub(super) async fn reserve(
        &mut self,
        destination: &Destination,
        rate: Option<u64>,
        inside: Option<Ipv4Addr>,
    ) -> Result<(Sessions, Via), RelayError> {
        let mut far = destination.far().await?;
        let mut made: Vec<Reserved> = Vec::new();
        for (number, (link, &data)) in self.links.iter_mut().zip(&self.data).enumerate().rev() {
            let reserved = reserve(link, rate, far, inside.filter(|_| number == 0)).await?;
            far = Far::Relay(data, reserved.near.clone());
            made.push(reserved);
        }
        made.reverse();
        self.tie(&made).await?;
        let (Some(first), Some(last), Some(link)) = (made.first(), made.last(), self.links.last()) else {
            unreachable!("a path through relays has one at least");
        };
        let via = Via {
            remote: self.data[0],
            near: first.near.clone(),
            relay: KeyBytes(*link.relay.public_key.as_bytes()),
            relay_address: self.data[self.data.len() - 1],
            far: last.far.clone(),
        };
        let idle = made.iter().map(|reserved| reserved.idle_s).min().unwrap_or_default();
        let ids = made.iter().map(|reserved| reserved.session).collect();
        Ok((Sessions { ids, idle: Duration::from_secs(idle.into()) }, via))
    }

    /// Tells each relay but the first what its datagrams to the one before it must carry.
    async fn tie(&mut self, made: &[Reserved]) -> Result<(), RelayError> {
        let before: Vec<Hop> = made.iter().map(|reserved| reserved.far.clone()).collect();
        for ((link, reserved), hop) in self.links.iter_mut().zip(made).skip(1).zip(before) {
            let session = reserved.session;
            link.order(|request| Message::Chain(request, session, hop)).await?;
        }
        Ok(())
    }

    /// Says that the sessions are still wanted. Returns whether all relays still know them.
    pub(super) async fn refresh(&mut self, sessions: &Sessions) -> Result<bool, RelayError> {
        for (link, &session) in self.links.iter_mut().zip(&sessions.ids) {
            match link.order(|request| Message::Refresh(request, session)).await {
                Ok(()) => {}
                Err(RelayError::Refused { refused, .. }) if refused.reason == Refusal::UnknownSession => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Gives sessions back. Where that fails they are forgotten in time.
    pub(super) async fn release(&mut self, sessions: &Sessions) {
        for (link, &session) in self.links.iter_mut().zip(&sessions.ids) {
            if let Err(error) = link.order(|request| Message::Release(request, session)).await {
                tracing::debug!(relay = %link.relay.name, error = crate::error_chain(&error), "session not released");
            }
        }
    }

    /// Waits until one of the connections is of no use any more. May be dropped and called again.
    pub(super) async fn broken(&mut self) -> RelayError {
        poll_fn(|cx| {
            let mut ended = self.links.iter_mut().map(|link| pin!(link.ended()).poll(cx));
            ended.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

async fn reserve(
    link: &mut Link,
    rate: Option<u64>,
    far: Far,
    inside: Option<Ipv4Addr>,
) -> Result<Reserved, RelayError> {
    let wanted = |request| {
        let session = Reserve { request, rate, far };
        match inside {
            Some(inside) => Message::ReserveTunnel(ReserveTunnel { session, inside }),
            None => Message::Reserve(session),
        }
    };
    let message = link.ask(wanted).await?;
    let Message::Reserved(reserved) = message else { return Err(link.unexpected(message)) };
    Ok(reserved)
}
