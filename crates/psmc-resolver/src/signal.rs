//! The connection to a coordinator, which tells of routes at once, and of what to show to their relays. It is told of relays
//! that fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_net::tls::Identity;
use psmc_signal::connection::{Coordinator, Event, Link, Options};
use psmc_signal::{Message, Role};
use tokio::time::{MissedTickBehavior, interval};

use super::Resolver;
use super::complaints::Complaints;
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
