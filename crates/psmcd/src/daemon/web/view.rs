//! What the page is told: the status, as `psmc status --json` has it, of the site and one peer, and what follows from it.

use psmc_api::watch::{Event, PeerRates, Traffic};
use psmc_api::{PeerState, PeerStatus, SiteStatus};
use serde::Serialize;

use super::{Known, Source};

/// Peers that the page lists: more than people look through.
const MAX_PEERS: usize = 256;

/// Events that it lists.
const MAX_EVENTS: u64 = 100;

/// How the site is.
#[derive(Debug, Serialize)]
pub(super) struct State<'a> {
    /// When the daemon started, in milliseconds since 1970: another one has another past.
    run: i64,
    site: &'a SiteStatus,
    /// Whether those who show the token may change paths.
    orders: bool,
    peers: Vec<PeerLine<'a>>,
    /// Peers that are not listed.
    more_peers: usize,
    /// The chosen one, else the first; absent if there are none.
    peer: Option<&'a PeerStatus>,
    /// Its rates, once they are known.
    rates: Option<&'a PeerRates>,
    /// Those that the page has not seen, the latest last.
    events: Vec<EventLine<'a>>,
    /// How many there were by now.
    event_count: u64,
    /// The number of the next sample of the last hour.
    next_sample: u64,
}

/// A peer among others.
#[derive(Debug, Serialize)]
struct PeerLine<'a> {
    name: &'a str,
    state: PeerState,
    traffic: Option<Traffic>,
}

#[derive(Debug, Serialize)]
struct EventLine<'a> {
    /// In milliseconds since 1970.
    at: i64,
    what: &'a str,
}

impl<'a> State<'a> {
    /// For a page that shows this peer and has seen so many events; `None` if nothing is known.
    pub(super) fn new(source: &Source, known: &'a Known, peer: Option<&str>, seen: u64) -> Option<Self> {
        let watch = &known.watch;
        let (status, _) = watch.latest()?;
        let chosen = status.peers.iter().find(|other| Some(other.name.as_str()) == peer);
        let peer = chosen.or(status.peers.first());
        let line = |peer: &'a PeerStatus| PeerLine {
            name: &peer.name,
            state: peer.state,
            traffic: watch.rates(peer).map(|rates| rates.traffic),
        };
        let event_count = watch.event_count();
        // Who has seen more than there were has seen those of another daemon.
        let unseen = event_count.checked_sub(seen).unwrap_or(event_count).min(MAX_EVENTS);
        let event = |event: &'a Event<_>| EventLine {
            at: jiff::Timestamp::as_millisecond(event.at),
            what: &event.what,
        };
        Some(Self {
            run: source.run.as_millisecond(),
            site: &status.site,
            orders: source.caller.is_some(),
            peers: status.peers.iter().take(MAX_PEERS).map(line).collect(),
            more_peers: status.peers.len().saturating_sub(MAX_PEERS),
            peer,
            rates: peer.and_then(|peer| watch.rates(peer)),
            events: watch.events(usize::try_from(unseen).unwrap_or(0)).map(event).collect(),
            event_count,
            next_sample: known.hour.next(),
        })
    }
}
