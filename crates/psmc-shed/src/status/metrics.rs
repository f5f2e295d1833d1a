//! What Prometheus is told.

use std::fmt;

use psmc_service::metrics::{Metric, Set, Values};

use super::{ClassStatus, Counts, RuleStatus, Status};

/// What an agent tells Prometheus.
pub const METRICS: Set<Status> = Set {
    prefix: "psmc_shed",
    metrics: &[
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| out.add(&[], of.uptime_s)),
        Metric::new("accepted", &["class"], "What the server accepts, in bytes per second.", |of, out| {
            of_classes(of, out, |class| Some(class.accepted_bytes_per_s))
        }),
        Metric::new(
            "source_trouble",
            &["class"],
            "Whether the source of what is accepted of a class says nothing.",
            |of, out| of_classes(of, out, |class| Some(f64::from(u8::from(class.trouble.is_some())))),
        ),
        Metric::new("offered", &["class"], "What upstreams are offered, in bytes per second.", |of, out| {
            of_classes(of, out, |class| Some(class.offered_bytes_per_s))
        }),
        Metric::new("passed", &["class"], "What upstreams let pass, in bytes per second.", |of, out| {
            of_classes(of, out, |class| Some(class.passed_bytes_per_s))
        }),
        Metric::new(
            "arriving",
            &["class"],
            "What arrives at the server, in bytes per second, where that is counted.",
            |of, out| of_classes(of, out, |class| class.arriving_bytes_per_s),
        ),
        Metric::new(
            "upstream_current",
            &["upstream"],
            "Whether an upstream has the rules that are wanted of it.",
            |of, out| {
                let mut upstreams = of.server.iter().flat_map(|server| &server.upstreams);
                upstreams.try_for_each(|upstream| out.add(&[&upstream.name], upstream.current))
            },
        ),
        Metric::new("upstream_rules", &["upstream"], "Rules that are wanted of an upstream.", |of, out| {
            let mut upstreams = of.server.iter().flat_map(|server| &server.upstreams);
            upstreams.try_for_each(|upstream| out.add(&[&upstream.name], upstream.rules))
        }),
        Metric::new("refused_reports_total", &[], "Reports of routers that were not believed.", |of, out| {
            of.server.as_ref().map_or(Ok(()), |server| out.add(&[], server.refused_reports))
        }),
        Metric::new("enforced", &[], "Whether the router enforces limits.", |of, out| {
            of.router.as_ref().map_or(Ok(()), |router| out.add(&[], router.enforced))
        }),
        Metric::new("trouble", &[], "Whether the router cannot do what it should.", |of, out| {
            of.router.as_ref().map_or(Ok(()), |router| out.add(&[], router.trouble.is_some()))
        }),
        Metric::new(
            "messages_total",
            &["outcome"],
            "Messages of servers, by what became of them.",
            |of, out| {
                let Some(router) = &of.router else { return Ok(()) };
                let Counts { taken, replayed, expired, too_many, .. } = router.counts;
                let malformed = router.malformed;
                let all = [
                    ("taken", taken),
                    ("replayed", replayed),
                    ("expired", expired),
                    ("too_many", too_many),
                    ("malformed", malformed),
                ];
                all.into_iter().try_for_each(|(outcome, count)| out.add(&[outcome], count))
            },
        ),
        Metric::new("refused_rules_total", &["reason"], "Rules that were not taken.", |of, out| {
            let Some(router) = &of.router else { return Ok(()) };
            let Counts { foreign, contradictory, illegal, .. } = router.counts;
            let all = [("foreign", foreign), ("contradictory", contradictory), ("illegal", illegal)];
            all.into_iter().try_for_each(|(reason, count)| out.add(&[reason], count))
        }),
        Metric::new("lapsed_total", &[], "Servers whose rules have ended without a renewal.", |of, out| {
            of.router.as_ref().map_or(Ok(()), |router| out.add(&[], router.counts.lapsed))
        }),
        Metric::new("unknown_keys_total", &[], "Connections with keys that nobody knows.", |of, out| {
            of.router.as_ref().map_or(Ok(()), |router| out.add(&[], router.unknown_keys))
        }),
        Metric::new(
            "server_connected",
            &["server"],
            "Whether a server is connected to the router.",
            |of, out| {
                let mut servers = of.router.iter().flat_map(|router| &router.servers);
                servers.try_for_each(|server| out.add(&[&server.name], server.connected))
            },
        ),
        Metric::new(
            "rule_limit",
            &["server", "rule"],
            "What may pass of a rule, in bytes per second.",
            |of, out| {
                let mut rules = rules(of);
                rules.try_for_each(|(server, rule)| {
                    let limit = rule.limit_bytes_per_s;
                    limit.map_or(Ok(()), |limit| out.add(&[server, &rule.name], limit))
                })
            },
        ),
        Metric::new(
            "rule_offered_bytes_total",
            &["server", "rule"],
            "What has come for a rule.",
            |of, out| {
                let mut rules = rules(of);
                rules.try_for_each(|(server, rule)| out.add(&[server, &rule.name], rule.offered_bytes))
            },
        ),
        Metric::new("rule_dropped_bytes_total", &["server", "rule"], "What of it was dropped.", |of, out| {
            let mut rules = rules(of);
            rules.try_for_each(|(server, rule)| out.add(&[server, &rule.name], rule.dropped_bytes))
        }),
    ],
};

fn of_classes(status: &Status, out: &mut Values<'_>, value: fn(&ClassStatus) -> Option<f64>) -> fmt::Result {
    let mut classes = status.server.iter().flat_map(|server| &server.classes);
    classes.try_for_each(|class| out.add_known(&[&class.name], value(class)))
}

fn rules(status: &Status) -> impl Iterator<Item = (&str, &RuleStatus)> {
    let servers = status.router.iter().flat_map(|router| &router.servers);
    servers.flat_map(|server| server.rules.iter().map(|rule| (server.name.as_str(), rule)))
}
