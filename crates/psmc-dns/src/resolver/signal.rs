//! The connection to a coordinator, which tells of routes at once, and of what to show to their relays.

use std::sync::Arc;

use hickory_proto::rr::Name;
use psmc_net::tls::Identity;
use psmc_signal::connection::{Coordinator, Event, Link, Options};
use psmc_signal::{Message, Role};

use super::Resolver;
use super::config::CoordinatorConfig;

/// Listens to the coordinator until the program ends. What it says of routes is believed no more than what DNS says: the
/// service has signed them, or they do not count.
pub(super) async fn listen(resolver: Arc<Resolver>, config: CoordinatorConfig) {
    let mut link = Link::open(Options {
        identity: Identity::new(&config.private_key),
        role: Role::Client,
        services: resolver.services.keys().map(plain).collect(),
        coordinators: vec![Coordinator { address: config.address, public_key: config.public_key }],
        interface: None,
        local: None,
    });
    let mut is_down = false;
    loop {
        match link.next().await {
            Event::Up { coordinator } => {
                is_down = false;
                tracing::info!(%coordinator, "connected to the coordinator");
            }
            Event::Down { coordinator, reason } => {
                if !is_down {
                    tracing::info!(%coordinator, reason, "no connection to the coordinator; routes come by DNS");
                }
                is_down = true;
            }
            Event::Message(Message::Routes(routes)) => {
                let name = Name::from_utf8(&routes.service).map(|mut name| {
                    name.set_fqdn(true);
                    name.to_lowercase()
                });
                match name.ok().and_then(|name| resolver.services.get(&name)) {
                    Some(service) => service.tell(routes).await,
                    None => tracing::debug!(service = routes.service, "routes of a service that is not ours"),
                }
            }
            // The other messages are for gateways.
            Event::Message(_) => {}
        }
    }
}

/// A name as the signal channel writes it: without the dot at the end.
fn plain(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}
