//! The sessions of one path: one at each relay that it leads through.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use psmc_core::Via;
use psmc_net::keys::PublicKey;
use psmc_wire::hop::Hop;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Far, Message, Refusal, Reserve, ReserveTunnel, Reserved, SessionId};

use super::RelayError;
use super::client::{RelayClient, RelayCounts};
use super::reach::{Caller, Goal, LocalEnd, address_of, reach};
use crate::config::{Endpoint, Relay};

/// Connections to all relays of a path, the nearest first.
pub(super) struct Chain {
    links: Vec<RelayClient>,
    /// Where each of them takes datagrams.
    data: Vec<SocketAddr>,
    /// Whether the only one has been asked for a session, and the answer is not read yet.
    is_asked: bool,
}

/// What a path wants of its relays.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Wanted {
    /// Where the last one leads.
    pub(in crate::daemon) destination: Destination,
    /// With IP-in-IP, the address of this site within the tunnel.
    pub(in crate::daemon) inside: Option<Ipv4Addr>,
    /// Bits per second that it should carry.
    pub(in crate::daemon) rate: Option<u64>,
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
        let mut chain = Self { links: Vec::new(), data: Vec::new(), is_asked: false };
        for (index, relay) in relays.iter().enumerate() {
            let address = address_of(&relay.address).await?;
            let stream = reach(caller, local_end, &relays[..index], Goal::Address(address)).await?;
            chain.links.push(RelayClient::open(caller, relay, stream).await?);
            chain.welcome(address.ip()).await?;
        }
        Ok(chain)
    }

    /// Connects to the only relay of a path, and asks for its session in the same breath: the answer comes a round trip
    /// earlier. [`reserve`](Self::reserve) then hears it.
    pub(super) async fn open_asking(
        caller: &Caller,
        local_end: &LocalEnd,
        relay: &Relay,
        wanted: &Wanted,
    ) -> Result<Self, RelayError> {
        let (address, far) = (address_of(&relay.address).await?, wanted.destination.far().await?);
        let stream = reach(caller, local_end, &[], Goal::Address(address)).await?;
        let mut link = RelayClient::open(caller, relay, stream).await?;
        ask(&mut link, wanted, far, wanted.inside).await?;
        let mut chain = Self { links: vec![link], data: Vec::new(), is_asked: true };
        chain.welcome(address.ip()).await?;
        Ok(chain)
    }

    /// Hears what the last of the relays says of itself; it is at this address.
    async fn welcome(&mut self, ip: IpAddr) -> Result<(), RelayError> {
        if let Some(link) = self.links.last_mut() {
            let port = link.welcome().await?.data_port;
            self.data.push(SocketAddr::new(ip, port));
        }
        Ok(())
    }

    /// Reserves the sessions of a path, from the last relay to the first: each needs to know the label at the next one. The
    /// first gets datagrams in IP-in-IP, if that is wanted.
    pub(super) async fn reserve(&mut self, wanted: &Wanted) -> Result<(Sessions, Via), RelayError> {
        let mut far = wanted.destination.far().await?;
        let mut made: Vec<Reserved> = Vec::new();
        let is_asked = std::mem::take(&mut self.is_asked);
        for (number, (link, &data)) in self.links.iter_mut().zip(&self.data).enumerate().rev() {
            if !is_asked {
                ask(link, wanted, far, wanted.inside.filter(|_| number == 0)).await?;
            }
            let reserved = reserved(link).await?;
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

    /// Asks the relays that count what they have counted of the sessions.
    pub(super) async fn ask_for_counts(&mut self, sessions: &Sessions) -> Result<(), RelayError> {
        for (link, &session) in self.links.iter_mut().zip(&sessions.ids) {
            link.ask_for_counts(session).await?;
        }
        Ok(())
    }

    /// What the relays have told of that, by their places in the chain.
    pub(super) fn take_counts(&mut self) -> impl Iterator<Item = (usize, RelayCounts)> {
        let links = self.links.iter_mut().enumerate();
        links.filter_map(|(place, link)| Some((place, link.take_counts()?)))
    }

    /// The places of the relays that do not count.
    pub(super) fn without_counts(&self) -> impl Iterator<Item = usize> {
        let links = self.links.iter().enumerate();
        links.filter(|(_, link)| !link.can_count()).map(|(place, _)| place)
    }

    /// Waits until one of the relays has told what it has counted. May be dropped and called again.
    ///
    /// # Errors
    /// Why one of the connections is of no use any more.
    pub(super) async fn news(&mut self) -> Result<(), RelayError> {
        poll_fn(|cx| {
            let mut told = self.links.iter_mut().map(|link| pin!(link.news()).poll(cx));
            told.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

/// Asks a relay for a session to `far`.
async fn ask(
    link: &mut RelayClient,
    wanted: &Wanted,
    far: Far,
    inside: Option<Ipv4Addr>,
) -> Result<(), RelayError> {
    let rate = wanted.rate;
    let wanted = |request| {
        let session = Reserve { request, rate, far };
        match inside {
            Some(inside) => Message::ReserveTunnel(ReserveTunnel { session, inside }),
            None => Message::Reserve(session),
        }
    };
    link.say(wanted).await
}

/// The session that it was asked for.
async fn reserved(link: &mut RelayClient) -> Result<Reserved, RelayError> {
    let message = link.answer().await?;
    let Message::Reserved(reserved) = message else { return Err(link.unexpected(message)) };
    Ok(reserved)
}
