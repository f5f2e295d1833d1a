//! What comes in, and what is done about what people, hooks, relays and name servers say.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use psmc_signal::{Alert, Message};
use tokio::sync::oneshot;

use super::Engine;
use crate::config::{Config, Service};
use crate::now;
use crate::publish::Published;
use crate::relay::News;
use crate::signal::{Joined, SessionId};
use crate::status::Status;

/// Why an order is not carried out. The text is for whoever gave it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Nobody knows that service.
    #[error("unknown service {0:?}: `psmc-coordinator status` lists the services")]
    UnknownService(String),
    /// Nobody knows that client.
    #[error("unknown client {0:?}: see the [[client]] sections of the configuration")]
    UnknownClient(String),
    /// A name that is too long to be kept.
    #[error("an alert's id has 1 to {MAX_ID} characters")]
    Id,
    /// There is no such alert to be renewed: it was cleared, or has lapsed.
    #[error("alert {0:?} is not open: raise it again")]
    NotOpen(String),
    /// Another coordinator decides, or none; why, for people.
    #[error("{0}")]
    NotLeading(String),
    /// What was ordered is done, but could not be kept, so that a restart may forget it; why, for people.
    #[error("the alert is in force, but could not be stored and may be lost at a restart: {0}")]
    NotKept(String),
}

/// Why nothing is done here, for whoever wants something done. `trouble` is what keeps this coordinator from leading, if it is
/// not that another one does.
#[must_use]
pub fn not_leading(leader: Option<&str>, trouble: Option<&str>) -> String {
    match (leader, trouble) {
        (Some(leader), _) => format!("this coordinator is a standby; ask the leader, {leader}"),
        (None, Some(trouble)) => format!("this coordinator is a standby and cannot become leader: {trouble}"),
        (None, None) => {
            "this coordinator is a standby, and there is no leader: try again in a moment".to_owned()
        }
    }
}

/// The longest identifier of an alert, as the signal channel says.
pub const MAX_ID: usize = 64;

/// What somebody wants done.
#[derive(Clone, Debug)]
pub enum Order {
    /// A service is attacked.
    Alert {
        /// The alert's source: alerts of different sources are different, whatever their identifiers.
        source: String,
        /// What is said.
        alert: Box<Alert>,
        /// Validity in seconds unless renewed; as the configuration says for the source, if that is `None`.
        lasts: Option<Duration>,
    },
    /// An attack goes on.
    Renew {
        /// Whose alert it was.
        source: String,
        /// The alert's identifier.
        id: String,
        /// The service's name.
        service: String,
        /// Validity in seconds unless renewed again, as above.
        lasts: Option<Duration>,
    },
    /// An attack is over.
    Clear {
        /// Whose alert it was.
        source: String,
        /// The alert's identifier.
        id: String,
        /// The service's name.
        service: String,
    },
    /// Relays are to be kept ready for a service.
    Prepare {
        /// Its name.
        service: String,
    },
    /// Whatever is done for a service ends.
    Withdraw {
        /// Its name.
        service: String,
    },
    /// A client misbehaves, or is trusted again.
    Block {
        /// Its name.
        client: String,
        /// Whether it is told nothing from here on.
        blocked: bool,
    },
}

/// What happens.
#[derive(Debug)]
pub enum Input {
    /// Somebody wants something done. `done` is told when it was kept.
    Order {
        /// What.
        order: Order,
        /// Who waits for it.
        done: oneshot::Sender<Result<(), OrderError>>,
    },
    /// Somebody asks how things are.
    Status(oneshot::Sender<Status>),
    /// A gateway or a client is there.
    Joined(Joined),
    /// It says something.
    Said {
        /// On which connection.
        session: SessionId,
        /// What.
        message: Message,
    },
    /// It is gone.
    Left(SessionId),
    /// A relay has answered, or has not.
    Relay(News),
    /// A name server has routes, or does not take them.
    Published(Published),
    /// The file was read anew.
    Configured(Arc<Config>),
}

impl Engine {
    pub(super) fn handle_order(&mut self, order: Order) -> Result<(), OrderError> {
        let now = now();
        match order {
            Order::Alert { source, alert, lasts } => {
                let alert = Alert { service: self.named(&alert.service), ..*alert };
                if alert.id.is_empty() || alert.id.chars().count() > MAX_ID {
                    return Err(OrderError::Id);
                }
                let Some(life) = self.lives.get_mut(&alert.service) else {
                    return Err(OrderError::UnknownService(alert.service));
                };
                let lasts = lasts.unwrap_or_else(|| self.config.leases.of(&source));
                self.counts.alerts += 1;
                life.handle_alert(&source, alert, lasts, &mut self.relays, now);
            }
            Order::Renew { source, id, service, lasts } => {
                let service = self.named(&service);
                let life = self.lives.get_mut(&service).ok_or(OrderError::UnknownService(service))?;
                let lasts = lasts.unwrap_or_else(|| self.config.leases.of(&source));
                if !life.handle_renewal(&source, &id, lasts, now) {
                    return Err(OrderError::NotOpen(id));
                }
            }
            Order::Clear { source, id, service } => {
                let service = self.named(&service);
                let life = self.lives.get_mut(&service).ok_or(OrderError::UnknownService(service))?;
                life.handle_clear(&source, &id, now);
            }
            Order::Prepare { service } => {
                let service = self.named(&service);
                let life = self.lives.get_mut(&service).ok_or(OrderError::UnknownService(service))?;
                life.handle_prepare(&mut self.relays, now);
            }
            Order::Withdraw { service } => {
                let service = self.named(&service);
                let life = self.lives.get_mut(&service).ok_or(OrderError::UnknownService(service))?;
                life.handle_withdraw(&mut self.relays, now);
                self.look_for_relays();
            }
            Order::Block { client, blocked } => self.block(client, blocked)?,
        }
        Ok(())
    }

    pub(super) fn handle_relay(&mut self, News { relay, result }: News) {
        match result {
            Ok(rtt) => {
                let is_news = !self.relays.is_alive(&relay);
                self.relays.answers(&relay, rtt);
                if is_news {
                    tracing::info!(relay, "relay reachable");
                    self.relay_errors.remove(&relay);
                    self.look_for_relays();
                }
            }
            Err(error) => {
                if self.relay_errors.get(&relay) != Some(&error) {
                    tracing::warn!(relay, error, "relay unusable");
                }
                self.relays.is_silent(&relay);
                let user = self.relays.user(&relay).map(str::to_owned);
                if let Some(life) = user.and_then(|user| self.lives.get_mut(&user)) {
                    life.handle_relay_failed(&relay, &error, &mut self.relays, now());
                }
                self.relay_errors.insert(relay, error);
            }
        }
    }

    pub(super) fn handle_published(&mut self, published: Published) {
        match &published.result {
            Ok(took) => {
                let took_ms = took.as_millis();
                tracing::info!(service = published.service, server = published.server, took_ms, "published");
                if let Some(life) = self.lives.get_mut(&published.service) {
                    life.handle_published(published.serial, now());
                }
            }
            Err(error) => {
                self.counts.publish_failures += 1;
                let (service, server) = (&published.service, &published.server);
                tracing::warn!(service, server, error, "name server not up to date");
            }
        }
        self.published.insert((published.service.clone(), published.server.clone()), published);
    }

    /// A service's name as the configuration has it. Tools that know addresses only name one of those.
    fn named(&self, name: &str) -> String {
        let has = |service: &&Service| {
            name.parse::<IpAddr>().is_ok_and(|ip| service.addresses.iter().any(|net| net.contains(&ip)))
        };
        let by_address = self.config.services.iter().find(has).map(Service::title);
        by_address.unwrap_or_else(|| name.trim_end_matches('.').to_lowercase())
    }

    /// There are relays that were not there before.
    fn look_for_relays(&mut self) {
        let now = now();
        for life in self.lives.values_mut() {
            life.handle_relay_found(now);
        }
    }
}
