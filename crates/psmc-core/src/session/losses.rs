//! What this site could not carry on of what a peer has sent it: told to that peer, which can hold it down where it enters (seed QoS
//! §5.2, where reports travel from domain to domain). Section 2.14 of the protocol.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_wire::control::Message;
use psmc_wire::drops::{Drops, DropsOf, MAX_AGGREGATES};

use super::Session;
use crate::police::{Aggregate, Entry, Facts, Report};
use crate::shared::Shared;

/// Between two messages: the shortest round in which flows are judged.
const INTERVAL: Duration = Duration::from_millis(200);

/// What the peer is to be told, and when.
#[derive(Debug, Default)]
pub(super) struct Losses {
    of: Vec<DropsOf>,
    due_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Losses {
    /// When there is something to tell.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Adds to what is told already of the same packets. Without room what has lost least is not told.
    fn note(&mut self, more: DropsOf, now: Instant) {
        let what = |of: &DropsOf| (of.kind, of.sources, of.destinations);
        let lost = |of: &DropsOf| of.dropped.saturating_add(of.held_back);
        if let Some(of) = self.of.iter_mut().find(|of| what(of) == what(&more)) {
            of.delivered = of.delivered.saturating_add(more.delivered);
            of.dropped = of.dropped.saturating_add(more.dropped);
            of.held_back = of.held_back.saturating_add(more.held_back);
        } else if self.of.len() < MAX_AGGREGATES {
            self.of.push(more);
        } else if let Some(least) = self.of.iter_mut().min_by_key(|of| lost(of))
            && lost(least) < lost(&more)
        {
            *least = more;
        }
        self.due_at.get_or_insert(self.not_before.map_or(now, |at| at.max(now)));
    }
}

impl Session {
    /// Where packets of an aggregate go that were dropped on the way to this peer, as closely as it is told itself: to the peer's
    /// network of which the newest one is.
    pub(super) fn leads_to(&self, aggregate: &Aggregate, newest: &Facts) -> Option<IpNet> {
        if aggregate.destinations.is_some() {
            return aggregate.destinations;
        }
        if aggregate.flow.is_some() {
            return Some(IpNet::from(newest.destination));
        }
        let networks = self.config.allowed_ips.iter().filter(|network| network.contains(&newest.destination));
        networks.max_by_key(|network| network.prefix_len()).copied()
    }

    /// Somebody else could not be sent all of these packets, some of which may have come from this peer. Says whether any can have.
    pub(crate) fn note_lost_elsewhere(&mut self, entry: &Entry, now: Instant) -> bool {
        let (kind, prefix) = (entry.aggregate.kind, entry.aggregate.prefix);
        let Some(destinations) = entry.aggregate.destinations else { return false };
        let common = self.config.allowed_ips.iter().filter_map(|network| match network.contains(&prefix) {
            true => Some(prefix),
            false => prefix.contains(network).then_some(*network),
        });
        let before = self.losses.due_at;
        for sources in common {
            let Entry { delivered, dropped, shaped: held_back, .. } = *entry;
            self.losses.note(DropsOf { kind, sources, destinations, delivered, dropped, held_back }, now);
        }
        self.losses.due_at != before
    }

    /// Tells the peer, if that is due.
    pub(super) fn tell_losses(&mut self, shared: &mut Shared, now: Instant) {
        if self.losses.due_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        let of = std::mem::take(&mut self.losses.of);
        let Some((connection, ..)) = self.control.current() else { return };
        self.losses.not_before = Some(now + INTERVAL);
        shared.messages.push_back((connection, Message::Drops(Drops { of })));
    }

    /// The peer tells what it could not carry on of what this site has sent. It is believed as far as it hurts only what this site
    /// sends to this peer.
    pub(super) fn on_drops(&mut self, drops: &Drops, now: Instant) {
        let Some(police) = &mut self.police else { return };
        let entry = |of: &DropsOf| {
            let DropsOf { kind, sources: prefix, destinations, delivered, dropped, held_back } = *of;
            let destinations = Some(destinations);
            let aggregate = Aggregate { class: None, kind, prefix, destinations, flow: None };
            Entry { aggregate, delivered, dropped, shaped: held_back }
        };
        let report = Report { entries: drops.of.iter().map(entry).collect(), ..Report::default() };
        police.report(&report, now);
    }
}
