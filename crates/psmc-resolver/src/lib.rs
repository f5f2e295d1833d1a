//! The client's side: a local resolver that answers for services as soon as they are reached.
//!
//! It forwards questions to upstream servers, and keeps their answers. For the names of services it looks for alternate
//! routes as well, hands those that the service has signed to psmcd, and lets the answer wait until the tunnel can be used.
//! The application sees a name that works.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file |
//! | [`daemon`] | the program; `resolving` is what its file makes of it |
//! | `listen`, `lookup`, `cache`, `upstream`, `limit` | a resolver like any other |
//! | `special`, `foreign` | names that nobody else is asked for, and addresses that no name of others has |
//! | `service` | what it does for services |
//! | [`tunnels`] | what it asks of psmcd |
//! | `signal` | the connection to a coordinator, and what it is told of relays |
//! | [`status`] | what it tells about itself |

mod cache;
pub mod config;
pub mod daemon;
mod foreign;
mod limit;
mod listen;
mod lookup;
mod question;
mod reply;
mod resolving;
mod service;
mod signal;
mod special;
pub mod status;
pub mod tunnels;
mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::rr::Name;
use ipnet::IpNet;

pub(crate) use psmc_service::error_chain;

pub use service::{RoutesStatus, ServiceConfig, ServiceStatus};
pub use status::{Counters, Counts};
pub use upstream::{TlsError, Transport, UpstreamAddress, UpstreamStatus};

use lookup::Asker;
use question::Question;
use reply::Reply;
use service::{Service, Shared, names_with_addresses};
use status::Status;

/// All that answers.
struct Resolver {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    services: BTreeMap<Name, Service>,
    /// Special names that the upstream servers are asked for all the same.
    passed_on: Vec<Name>,
    /// Under which names there may be addresses of this machine and its networks.
    own: Vec<Name>,
    /// Who may ask, beside this machine.
    clients: Vec<IpNet>,
}

impl Resolver {
    /// The answer to a question that came from `source`.
    async fn answer(&self, question: &Question, source: IpAddr) -> Reply {
        let lookup = &self.shared.lookup;
        let service = self.services.get(question.name()).filter(|_| question.is_of_address());
        match service {
            Some(service) => {
                let plain = lookup.answer(question, Asker::Service);
                service.answer(question, plain, &self.shared).await
            }
            None => {
                let special = special::answer(question, &self.passed_on);
                let reply = match special {
                    Some(reply) => reply,
                    None => {
                        let found = lookup.answer(question, Asker::Client(source)).await;
                        foreign::without(found, &self.own)
                    }
                };
                self.adapt(question, reply).await
            }
        }
    }

    /// Whether somebody at this address may ask.
    fn serves(&self, source: IpAddr) -> bool {
        source.is_loopback() || self.clients.iter().any(|net| net.contains(&source))
    }

    /// An answer that has addresses of services, as those say.
    async fn adapt(&self, question: &Question, mut reply: Reply) -> Reply {
        if self.services.is_empty() {
            return reply;
        }
        let concerned: BTreeSet<Name> =
            names_with_addresses(&reply).filter(|name| self.services.contains_key(name)).collect();
        for service in concerned.iter().filter_map(|name| self.services.get(name)) {
            reply = service.adapt(question, reply, &self.shared).await;
        }
        reply
    }

    /// What there is to know, of a resolver of this name that has been up for so many seconds.
    fn status(&self, name: String, uptime_s: u64) -> Status {
        let (kept, kept_bytes, under_way) = self.shared.lookup.size();
        Status {
            name,
            uptime_s,
            counts: self.counters.read(),
            kept,
            kept_bytes,
            under_way,
            upstreams: self.shared.lookup.upstreams().status(),
            services: self.services.values().map(Service::status).collect(),
        }
    }
}
