//! Servers: how many requests each has, and which of them gets the next one.

use std::cmp::Ordering;
use std::time::Duration;

use super::config::{LimitConfig, ServerConfig};
use super::snapshot::ServerSnapshot;
use crate::limit::Adaptive;
use crate::{ClassId, ClassSet, ServerId};

/// All servers, by their places. Those that are gone from the configuration stay, not available, until their last request is over.
#[derive(Debug)]
pub(super) struct Servers(Vec<Server>);

#[derive(Debug)]
struct Server {
    limit: Limit,
    classes: ClassSet,
    in_flight: u32,
    is_available: bool,
    is_configured: bool,
}

#[derive(Debug)]
enum Limit {
    Fixed(u32),
    Adaptive(Box<Adaptive>),
}

impl Servers {
    pub(super) fn new(configs: &[ServerConfig]) -> Self {
        Self(configs.iter().map(Server::new).collect())
    }

    pub(super) fn reconfigure(&mut self, configs: &[ServerConfig]) {
        for (place, config) in configs.iter().enumerate() {
            match self.0.get_mut(place) {
                Some(server) => server.reconfigure(config),
                None => self.0.push(Server::new(config)),
            }
        }
        for server in self.0.iter_mut().skip(configs.len()) {
            server.is_configured = false;
        }
        while self.0.last().is_some_and(|server| !server.is_configured && server.in_flight == 0) {
            self.0.pop();
        }
    }

    /// The classes that a server has room for.
    pub(super) fn room(&self) -> ClassSet {
        self.classes_of(Server::has_room)
    }

    /// The classes that are served by a server that is available.
    pub(super) fn served(&self) -> ClassSet {
        self.classes_of(Server::is_in_use)
    }

    fn classes_of(&self, is_one: impl Fn(&Server) -> bool) -> ClassSet {
        let mut all = ClassSet::NONE;
        for server in self.0.iter().filter(|server| is_one(server)) {
            all = all.with(server.classes);
            if all == ClassSet::ALL {
                break;
            }
        }
        all
    }

    pub(super) fn set_available(&mut self, server: ServerId, is_available: bool) {
        if let Some(server) = self.0.get_mut(server.0) {
            server.is_available = is_available;
        }
    }

    /// A place at the server with the least of its limit in use among those that serve the class, and how many requests it has then; of
    /// equals at the one that serves fewer classes, so that the others keep room. The one to be avoided gets it only if no other has room.
    pub(super) fn take(&mut self, class: ClassId, avoid: Option<ServerId>) -> Option<(ServerId, u32)> {
        let with_room =
            self.0.iter().enumerate().filter(|(_, server)| server.has_room() && server.classes.has(class));
        let key = |place: usize| Some(ServerId(place)) == avoid;
        let (place, _) = with_room.min_by(|(one_place, one), (other_place, other)| {
            let fewer = || one.classes.len().cmp(&other.classes.len());
            key(*one_place).cmp(&key(*other_place)).then_with(|| one.by_load(other)).then_with(fewer)
        })?;
        let server = self.0.get_mut(place)?;
        server.in_flight += 1;
        Some((ServerId(place), server.in_flight))
    }

    pub(super) fn leave(&mut self, server: ServerId) {
        if let Some(server) = self.0.get_mut(server.0) {
            server.in_flight = server.in_flight.saturating_sub(1);
        }
    }

    pub(super) fn answered(&mut self, server: ServerId, service: Duration, at_once: u32) {
        if let Some(Limit::Adaptive(limit)) = self.0.get_mut(server.0).map(|server| &mut server.limit) {
            limit.answered(service, at_once);
        }
    }

    pub(super) fn failed(&mut self, server: ServerId) {
        if let Some(Limit::Adaptive(limit)) = self.0.get_mut(server.0).map(|server| &mut server.limit) {
            limit.failed();
        }
    }

    pub(super) fn snapshot(&self) -> Vec<ServerSnapshot> {
        let configured = self.0.iter().filter(|server| server.is_configured);
        configured.map(Server::snapshot).collect()
    }
}

impl Server {
    fn new(config: &ServerConfig) -> Self {
        Self {
            limit: Limit::new(config.limit),
            classes: config.classes,
            in_flight: 0,
            is_available: true,
            is_configured: true,
        }
    }

    fn reconfigure(&mut self, config: &ServerConfig) {
        self.is_configured = true;
        self.classes = config.classes;
        match (&mut self.limit, config.limit) {
            (Limit::Adaptive(_), LimitConfig::Adaptive) => {}
            (limit @ (Limit::Fixed(_) | Limit::Adaptive(_)), config) => *limit = Limit::new(config),
        }
    }

    fn is_in_use(&self) -> bool {
        self.is_available && self.is_configured
    }

    fn has_room(&self) -> bool {
        self.is_in_use() && self.in_flight < self.limit.value()
    }

    /// By the share of the limit that is in use. Products, since shares of whole numbers are compared.
    fn by_load(&self, other: &Self) -> Ordering {
        let [one, another] = [(self, other), (other, self)]
            .map(|(one, other)| u64::from(one.in_flight) * u64::from(other.limit.value()));
        one.cmp(&another)
    }

    fn snapshot(&self) -> ServerSnapshot {
        let base_service = match &self.limit {
            Limit::Fixed(_) => None,
            Limit::Adaptive(limit) => limit.base(),
        };
        ServerSnapshot {
            in_flight: self.in_flight,
            limit: self.limit.value(),
            is_available: self.is_available,
            base_service,
        }
    }
}

impl Limit {
    fn new(config: LimitConfig) -> Self {
        match config {
            LimitConfig::Fixed(limit) => Self::Fixed(limit),
            LimitConfig::Adaptive => Self::Adaptive(Box::default()),
        }
    }

    fn value(&self) -> u32 {
        match self {
            Self::Fixed(limit) => *limit,
            Self::Adaptive(limit) => limit.limit(),
        }
    }
}
