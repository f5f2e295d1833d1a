//! The connection to a coordinator, which tells of routes at once, and of what to show to their relays. It is told of relays
//! that fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_net::tls::Identity;
use psmc_signal::connection::{Coordinator, Event, Link, Options};
use psmc_signal::{Message, Role};
use tokio::time::{MissedTickBehavior, interval};

use super::Resolver;
use super::config::CoordinatorConfig;
use super::tunnels::FailedRelay;

/// How often psmcd is asked for relays that fail.
const LOOK: Duration = Duration::from_millis(200);

/// Listens to the coordinator until the program ends. What it says of routes is believed no more than what DNS says: the
/// service has signed them, or they do not count.
pub(super) async fn listen(resolver: Arc<Resolver>, config: CoordinatorConfig) {
    let mut link = Link::open(Options {
        identity: Identity::new(&config.private_key),
        role: Role::Client,
        services: resolver.services.keys().map(plain).collect(),
        coordinators: config
            .addresses
            .iter()
            .map(|address| Coordinator { address: *address, public_key: config.public_key })
            .collect(),
        interface: None,
        local: None,
    });
    let mut listener = Listener { resolver, is_down: false, complaints: Complaints::default() };
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = link.next() => listener.handle(event).await,
            _ = looks.tick() => {
                for complaint in listener.complain(Instant::now()).await {
                    // Without a connection it is thrown away, and repeated later if it still holds.
                    let _ = link.send(complaint);
                }
            }
        }
    }
}

struct Listener {
    resolver: Arc<Resolver>,
    is_down: bool,
    complaints: Complaints,
}

impl Listener {
    async fn handle(&mut self, event: Event) {
        match event {
            Event::Up { coordinator } => {
                self.is_down = false;
                self.complaints.forget();
                tracing::info!(%coordinator, "connected to the coordinator");
            }
            Event::Down { coordinator, reason } => {
                if !self.is_down {
                    tracing::info!(%coordinator, reason, "no connection to the coordinator; using DNS only");
                }
                self.is_down = true;
            }
            Event::Message(Message::Routes(routes)) => {
                let name = Name::from_utf8(&routes.service).map(|mut name| {
                    name.set_fqdn(true);
                    name.to_lowercase()
                });
                match name.ok().and_then(|name| self.resolver.services.get(&name)) {
                    Some(service) => service.tell(routes).await,
                    None => tracing::debug!(service = routes.service, "routes of a service that is not ours"),
                }
            }
            // The other messages are for gateways.
            Event::Message(_) => {}
        }
    }

    /// What there is to say of relays through which nothing comes. Without a connection nobody would hear it.
    async fn complain(&mut self, now: Instant) -> Vec<Message> {
        let mut said = Vec::new();
        if self.is_down {
            return said;
        }
        for (name, service) in &self.resolver.services {
            let name = plain(name);
            for FailedRelay { key: relay, reason } in service.failed_relays(&self.resolver.shared).await {
                if self.complaints.is_due(&name, &relay, now) {
                    tracing::info!(service = name, relay, reason, "failed relay reported to the coordinator");
                    said.push(Message::RelayFailed { service: name.clone(), relay, reason });
                }
            }
        }
        said
    }
}

/// A name as the signal channel writes it: without the dot at the end.
fn plain(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}

/// A relay is complained about once in this time: the coordinator remembers a complaint for longer.
const AGAIN: Duration = Duration::from_secs(10);

/// Complaints of the last [`AGAIN`]: as many as a set of routes has relays.
const MAX_COMPLAINTS: usize = 16;

/// What the coordinator was told of relays of late.
#[derive(Debug, Default)]
struct Complaints {
    said: BTreeMap<(String, String), Instant>,
}

impl Complaints {
    /// Whether to complain about a relay of a service now.
    fn is_due(&mut self, service: &str, relay: &str, now: Instant) -> bool {
        self.said.retain(|_, at| now < *at + AGAIN);
        let about = (service.to_owned(), relay.to_owned());
        let is_due = self.said.len() < MAX_COMPLAINTS && !self.said.contains_key(&about);
        if is_due {
            self.said.insert(about, now);
        }
        is_due
    }

    /// Another coordinator, or the same once more, knows of none.
    fn forget(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_repeated_after_a_while_and_there_are_only_so_many() {
        let (mut complaints, now) = (Complaints::default(), Instant::now());
        assert!(complaints.is_due("www", "a", now));
        assert!(!complaints.is_due("www", "a", now + AGAIN / 2));
        assert!(complaints.is_due("ftp", "a", now + AGAIN / 2));
        assert!(complaints.is_due("www", "a", now + AGAIN));
        for relay in 0..100 {
            complaints.is_due("www", &relay.to_string(), now + AGAIN);
        }
        assert_eq!(complaints.said.len(), MAX_COMPLAINTS);
        complaints.forget();
        assert!(complaints.is_due("www", "a", now + AGAIN));
    }
}
