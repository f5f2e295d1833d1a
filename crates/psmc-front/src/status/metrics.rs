//! What Prometheus is told.

use std::fmt;

use psmc_service::metrics::{Metric, Set, Value, Values};

use super::{ClassStatus, Counts, ServerStatus, Status};

/// What a front tells Prometheus.
pub const METRICS: Set<Status> = Set {
    prefix: "psmc_front",
    metrics: &[
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| out.add(&[], of.uptime_s)),
        Metric::new("connections_total", &[], "Connections of clients.", |of, out| {
            out.add(&[], of.counts.connections)
        }),
        Metric::new(
            "failed_handshakes_total",
            &[],
            "Connections that failed before their first request.",
            |of, out| out.add(&[], of.counts.failed_handshakes),
        ),
        Metric::new("requests_total", &["outcome"], "Requests that have ended, by how.", |of, out| {
            let Counts { malformed, refused, unreachable, timed_out, complete, cut, abandoned, .. } =
                of.counts;
            let all = [
                ("complete", complete),
                ("refused", refused),
                ("malformed", malformed),
                ("unreachable", unreachable),
                ("timed_out", timed_out),
                ("cut", cut),
                ("abandoned", abandoned),
            ];
            all.into_iter().try_for_each(|(outcome, count)| out.add(&[outcome], count))
        }),
        Metric::new("repeated_total", &[], "Requests that were sent once more.", |of, out| {
            out.add(&[], of.counts.repeated)
        }),
        Metric::new("upgraded_total", &[], "Connections that changed their protocol.", |of, out| {
            out.add(&[], of.counts.upgraded)
        }),
        Metric::new("class_arrived_total", &["class"], "Requests of a class.", |of, out| {
            of_classes(of, out, |class| Some(class.arrived))
        }),
        Metric::new("class_answered_total", &["class"], "Requests that were answered.", |of, out| {
            of_classes(of, out, |class| Some(class.answered))
        }),
        Metric::new(
            "class_refused_total",
            &["class"],
            "Requests that were refused, or have waited in vain.",
            |of, out| of_classes(of, out, |class| Some(class.refused + class.expired)),
        ),
        Metric::new(
            "class_cancelled_total",
            &["class"],
            "Requests whose clients went away while they waited.",
            |of, out| of_classes(of, out, |class| Some(class.cancelled)),
        ),
        Metric::new("class_waiting", &["class"], "Requests that wait.", |of, out| {
            of_classes(of, out, |class| Some(class.waiting))
        }),
        Metric::new("class_in_service", &["class"], "Requests that servers have.", |of, out| {
            of_classes(of, out, |class| Some(class.in_service))
        }),
        Metric::new("class_waiting_time_seconds", &["class"], "Mean time of waiting.", |of, out| {
            of_classes(of, out, |class| class.waiting_s)
        }),
        Metric::new("class_service_time_seconds", &["class"], "Mean time of service.", |of, out| {
            of_classes(of, out, |class| class.service_s)
        }),
        Metric::new("class_response_time_seconds", &["class"], "Mean response time.", |of, out| {
            of_classes(of, out, |class| class.response_s)
        }),
        Metric::new(
            "class_slowdown",
            &["class"],
            "Mean response time over mean time of service.",
            |of, out| of_classes(of, out, |class| class.slowdown),
        ),
        Metric::new(
            "class_ratio",
            &["class"],
            "Response time, or slowdown, of a class over that of the first.",
            |of, out| of_classes(of, out, |class| class.ratio),
        ),
        Metric::new("class_feasible", &["class"], "Whether the wanted ratio can be held.", |of, out| {
            of_classes(of, out, |class| Some(class.infeasible.is_none()))
        }),
        Metric::new("server_up", &["upstream", "server"], "Whether a server takes requests.", |of, out| {
            of_servers(of, out, |server| server.up)
        }),
        Metric::new("server_requests", &["upstream", "server"], "Requests that a server has.", |of, out| {
            of_servers(of, out, |server| server.in_flight)
        }),
        Metric::new(
            "server_limit",
            &["upstream", "server"],
            "Requests that a server has at most.",
            |of, out| of_servers(of, out, |server| server.limit),
        ),
        Metric::new(
            "server_connects_total",
            &["upstream", "server"],
            "Connections to a server.",
            |of, out| of_servers(of, out, |server| server.connects),
        ),
        Metric::new(
            "server_failures_total",
            &["upstream", "server"],
            "Connections to a server that could not be made.",
            |of, out| of_servers(of, out, |server| server.failures),
        ),
    ],
};

fn of_classes<V: Into<Value>>(
    status: &Status,
    out: &mut Values<'_>,
    value: impl Fn(&ClassStatus) -> Option<V>,
) -> fmt::Result {
    for class in &status.classes {
        if let Some(value) = value(class) {
            out.add(&[&class.name], value)?;
        }
    }
    Ok(())
}

fn of_servers<V: Into<Value>>(
    status: &Status,
    out: &mut Values<'_>,
    value: impl Fn(&ServerStatus) -> V,
) -> fmt::Result {
    status.servers.iter().try_for_each(|server| out.add(&[&server.upstream, &server.address], value(server)))
}
