//! What a front tells about itself: as JSON has it, with plain numbers whose units stand in their names, and to Prometheus.

mod metrics;

use std::iter;
use std::sync::atomic::Ordering;
use std::time::Duration;

use psmc_service::socket::Report;
use psmc_shares::ServerId;
use psmc_shares::admission::{ClassSnapshot, RatioState, ServerSnapshot};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::proxy::Front;
use crate::upstream::Server;

pub use crate::counters::Counts;
pub use metrics::METRICS;

/// The version of the status.
const VERSION: u32 = 1;

impl Report for Status {
    const PROGRAM: &'static str = "psmc-front";
    const DIRECTORY: &'static str = crate::config::RUN_DIR;
}

/// Everything there is to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this format.
    pub version: u32,
    /// What the front is called.
    pub name: String,
    /// For how long it has run.
    pub uptime_s: u64,
    /// What ratios are held of, as the file spells it.
    pub hold: String,
    /// The classes, in the order of the file.
    pub classes: Vec<ClassStatus>,
    /// The servers, in the order of the file.
    pub servers: Vec<ServerStatus>,
    /// What has happened since the start.
    pub counts: Counts,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// What people call it.
    pub name: String,
    /// Requests since the start.
    pub arrived: u64,
    /// Those that have had a place at a server.
    pub admitted: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Those whose server has failed.
    pub failed: u64,
    /// Those whose clients went away while they were answered.
    pub abandoned: u64,
    /// Those whose clients went away while they waited.
    pub cancelled: u64,
    /// Those that were refused as they came.
    pub refused: u64,
    /// Those that have waited in vain.
    pub expired: u64,
    /// Those that wait at present.
    pub waiting: usize,
    /// Those that are answered at present.
    pub in_service: u64,
    /// How long one that came now would wait.
    pub expected_wait_s: f64,
    /// Mean time of waiting in the last sampling period that had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_s: Option<f64>,
    /// Mean time of service in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_s: Option<f64>,
    /// Mean response time in it: the sum of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_s: Option<f64>,
    /// Response over service time in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// The first of those classes that share servers with it, to which its ratio is; absent if it is that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The ratio to that class that is wanted.
    pub wanted_ratio: f64,
    /// What is held in ratios over that of that class, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Why the wanted one cannot be held at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its address.
    pub address: String,
    /// The group that it is of.
    pub upstream: String,
    /// Whether it takes requests.
    pub up: bool,
    /// Requests that it has at present.
    pub in_flight: u32,
    /// How many it has at most at present.
    pub limit: u32,
    /// Connections that are kept for the next request.
    pub idle: usize,
    /// Connections that were made to it.
    pub connects: u64,
    /// Those that could not be made.
    pub failures: u64,
}

impl Status {
    /// How a front is after `uptime`.
    pub(crate) fn of(front: &Front, uptime: Duration) -> Self {
        let state = front.state();
        let snapshot = front.gate.snapshot();
        // The first class has no ratio: it is what the others are measured by.
        let ratios = iter::once(None).chain(snapshot.ratios.iter().map(Some)).chain(iter::repeat(None));
        let all = snapshot.classes.iter().zip(&snapshot.firsts).zip(ratios).enumerate();
        let classes = all.filter_map(|(place, ((now, first), ratio))| {
            ClassStatus::of(&state.config, place, *first, now, ratio)
        });
        let servers = state.servers.iter().zip(&snapshot.servers).enumerate();
        let servers = servers.map(|(place, (server, now))| {
            let upstream = &state.group_of(ServerId(place)).name;
            ServerStatus::of(server, upstream.to_string(), now)
        });
        Self {
            version: VERSION,
            name: state.config.name.to_string(),
            uptime_s: uptime.as_secs(),
            hold: state.config.hold.as_str().to_owned(),
            classes: classes.collect(),
            servers: servers.collect(),
            counts: front.counters.read(),
        }
    }
}

impl ClassStatus {
    fn of(
        config: &Config,
        place: usize,
        first: usize,
        now: &ClassSnapshot,
        ratio: Option<&RatioState>,
    ) -> Option<Self> {
        let (class, first_class) = (config.classes.get(place)?, config.classes.get(first)?);
        let (ratio, infeasible) = match ratio {
            None => (None, None),
            Some(RatioState::Held { ratio }) => (*ratio, None),
            Some(RatioState::Infeasible { ratio, reason }) => (*ratio, Some(reason.to_string())),
        };
        let (counters, last) = (&now.counters, now.last.as_ref());
        Some(Self {
            name: class.name.to_string(),
            arrived: counters.arrived,
            admitted: counters.admitted,
            answered: counters.answered,
            failed: counters.failed,
            abandoned: counters.abandoned,
            cancelled: counters.cancelled,
            refused: counters.refused,
            expired: counters.expired,
            waiting: now.waiting,
            in_service: now.in_service,
            expected_wait_s: now.expected_wait.as_secs_f64(),
            waiting_s: last.map(|means| means.waiting.as_secs_f64()),
            service_s: last.map(|means| means.service.as_secs_f64()),
            response_s: last.map(|means| means.response.as_secs_f64()),
            slowdown: last.map(|means| means.slowdown),
            beside: (first != place).then(|| first_class.name.to_string()),
            wanted_ratio: class.ratio / first_class.ratio,
            ratio,
            infeasible,
        })
    }
}

impl ServerStatus {
    fn of(server: &Server, upstream: String, now: &ServerSnapshot) -> Self {
        Self {
            address: server.address.to_string(),
            upstream,
            up: now.is_available,
            in_flight: now.in_flight,
            limit: now.limit,
            idle: server.idle_connections(),
            connects: server.connects.load(Ordering::Relaxed),
            failures: server.failures.load(Ordering::Relaxed),
        }
    }
}
