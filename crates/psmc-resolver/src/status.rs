//! What the resolver tells about itself, over its local socket.

use std::fmt::Write as _;
use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use serde::{Deserialize, Serialize};

use super::{RoutesStatus, ServiceStatus, UpstreamStatus};

/// What there is to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What the resolver is called.
    pub name: String,
    /// How long it has been up, in seconds.
    pub uptime_s: u64,
    /// What it has done.
    pub counts: Counts,
    /// Answers in the cache.
    pub kept: usize,
    /// About how many bytes they take.
    pub kept_bytes: usize,
    /// Questions to upstream servers that have no answer yet.
    pub under_way: usize,
    /// The upstream servers.
    pub upstreams: Vec<UpstreamStatus>,
    /// The services.
    pub services: Vec<ServiceStatus>,
}

impl Report for Status {
    const PROGRAM: &'static str = "psmc-dns";
    const DIRECTORY: &'static str = psmc_routes::setting::RUN_DIR;
}

impl Status {
    /// The same for people; `now_s` is in seconds since 1970.
    #[must_use]
    pub fn describe(&self, now_s: u64) -> String {
        let counts = &self.counts;
        let mut text = format!(
            "resolver {}, up {} s\n\
             {} questions: {} out of the cache, {} of them expired, {} forwarded, {} merged, {} failed\n\
             {} limited, {} overloaded, {} malformed, {} refused; {} answers kept in {} KiB, {} under way\n\
             routes: {} believed, {} handed to psmcd; refused: {} forged, {} replayed, {} expired, {} malformed, \
             {} of other groups\n",
            self.name,
            self.uptime_s,
            counts.questions,
            counts.cache_hits + counts.stale,
            counts.stale,
            counts.forwarded,
            counts.merged,
            counts.failed,
            counts.limited,
            counts.overloaded,
            counts.malformed,
            counts.refused,
            self.kept,
            self.kept_bytes >> 10,
            self.under_way,
            counts.routes_believed,
            counts.routes_handed,
            counts.routes_forged,
            counts.routes_replayed,
            counts.routes_expired,
            counts.routes_malformed,
            counts.routes_of_other_groups,
        );
        for server in &self.upstreams {
            let round_trip =
                server.round_trip_ms.map_or_else(|| "never answered".to_owned(), |ms| format!("{ms:.1} ms"));
            let silent = if server.answers { "" } else { ", silent" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "upstream {}: {round_trip}{silent}", server.server);
        }
        for service in &self.services {
            let _ = writeln!(text, "{}", describe_service(service, now_s));
        }
        text
    }
}

fn describe_service(service: &ServiceStatus, now_s: u64) -> String {
    let tunnel = match service.tunnel {
        None => "psmcd does not answer",
        Some(state) if state.direct_well => "reached directly",
        Some(state) if state.learned_up => "reached by alternate routes",
        Some(state) if state.usable => "reached, but not well",
        Some(_) => "not reached",
    };
    let routes = service
        .routes
        .as_ref()
        .map_or_else(|| "no alternate routes".to_owned(), |routes| describe_routes(routes, now_s));
    format!("service {} (peer {}): {tunnel}; {routes}", service.name, service.peer)
}

fn describe_routes(routes: &RoutesStatus, now_s: u64) -> String {
    let relays: Vec<String> = routes.relays.iter().map(ToString::to_string).collect();
    let whose = if routes.of_group { "of the group" } else { "for everyone" };
    let problem = match &routes.problem {
        Some(problem) => format!(", not taken by psmcd: {problem}"),
        None if routes.handed => String::new(),
        None => ", not in use".to_owned(),
    };
    let left = routes.expires_s.saturating_sub(now_s);
    format!("routes {} {whose} over {}, for {left} s{problem}", routes.serial, relays.join(", "))
}

/// Asks the resolver whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}

psmc_service::counters! {
    /// Questions that came in.
    questions,
    /// Requests that could not be parsed, or are none that a resolver answers.
    malformed,
    /// Requests of who may not ask, or for what nobody may.
    #[serde(default)]
    refused,
    /// Answers out of the cache.
    cache_hits,
    /// Answers out of the cache that had expired, for no upstream server answered.
    stale,
    /// Questions that waited for the answer to the same question of another.
    merged,
    /// Questions that were put to the upstream servers.
    forwarded,
    /// Questions that no upstream server answered.
    failed,
    /// Questions that were refused because too many were under way: of their source, of their domain, or of all.
    limited,
    /// Datagrams and connections that were dropped because too many were being served.
    overloaded,
    /// Names with alternate routes whose answers waited until the tunnel could be used.
    awaited,
    /// Of those, the ones that waited in vain.
    awaited_in_vain,
    /// Sets of routes that were believed.
    routes_believed,
    /// Sets that their service has not signed.
    routes_forged,
    /// Sets that are older than one that was seen.
    routes_replayed,
    /// Sets that have expired, or claim to last too long.
    routes_expired,
    /// Sets that are sealed to other groups of clients.
    routes_of_other_groups,
    /// Records that are no sets.
    routes_malformed,
    /// Sets that were handed to psmcd.
    routes_handed,
    /// Sets that psmcd has refused, or could not be told.
    routes_not_handed,
    /// Sets that could not be kept on disk.
    routes_not_kept,
    /// Looks for routes in DNS.
    checks,
    /// Those of them that no name server answered.
    checks_failed,
    /// Routes that a coordinator sent.
    routes_told,
}
