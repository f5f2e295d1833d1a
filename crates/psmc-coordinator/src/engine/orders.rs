//! What people, hooks, relays and name servers say.

use std::net::IpAddr;

use psmc_signal::Alert;

use super::{Engine, MAX_ID, Order, OrderError};
use crate::config::Service;
use crate::now;
use crate::publish::Published;
use crate::relay::News;

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
                    tracing::info!(relay, "the relay answers");
                    self.relay_errors.remove(&relay);
                    self.look_for_relays();
                }
            }
            Err(error) => {
                if self.relay_errors.get(&relay) != Some(&error) {
                    tracing::warn!(relay, error, "the relay is of no use");
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
                tracing::warn!(service, server, error, "a name server is behind");
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
