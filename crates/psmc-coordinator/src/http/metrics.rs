//! Metrics for Prometheus, in its text format (version 0.0.4).

use std::fmt::Write as _;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use psmc_signal::Stage;
use tokio::sync::{mpsc, oneshot};

use super::{Answer, Handler, only, text};
use crate::engine::Input;
use crate::status::{EveStatus, Status};

/// What tells metrics.
pub(crate) struct Metrics {
    pub(crate) engine: mpsc::Sender<Input>,
}

impl Handler for Metrics {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        // hyper leaves out the body that HEAD does not want (RFC 9110, section 9.3.2).
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return only(&[Method::GET, Method::HEAD]);
        }
        let (asker, status) = oneshot::channel();
        // Where the engine has ended, so has the other end of `status`.
        let _ = self.engine.send(Input::Status(asker)).await;
        let Ok(status) = status.await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the coordinator is about to end\n");
        };
        let mut answer = text(StatusCode::OK, written(&status));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        answer
    }
}

fn suricata(eve: &EveStatus, out: &mut String) {
    for (name, kind, help, value) in [
        ("readable", "gauge", "Whether Suricata's events can be read.", u64::from(eve.error.is_none())),
        ("lines_total", "counter", "Lines of events that were read.", eve.lines),
        ("alerts_total", "counter", "Alerts about services in them.", eve.alerts),
        ("unreadable_lines_total", "counter", "Lines that are no JSON, or too long.", eve.unreadable),
        ("rotations_total", "counter", "How often another file had the name.", eve.rotations),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "# HELP psmc_coordinator_suricata_{name} {help}\n# TYPE psmc_coordinator_suricata_{name} {kind}\n\
             psmc_coordinator_suricata_{name} {value}"
        );
    }
}

fn written(status: &Status) -> String {
    let mut out = String::new();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (counts, handshakes) = (&status.counts, &status.handshakes);
    for (name, kind, help, value) in [
        ("uptime_seconds", "gauge", "Time since the start.", status.uptime_s),
        ("leads", "gauge", "Whether it decides, and does not stand by.", u64::from(status.leads)),
        ("gateways", "gauge", "Gateways that are connected.", count(status.gateways)),
        ("clients", "gauge", "Clients that are connected.", count(status.clients)),
        ("kept", "gauge", "Whether what happens is kept.", u64::from(status.not_kept.is_none())),
        ("alerts_total", "counter", "Alerts taken.", counts.alerts),
        ("told_total", "counter", "Routes that connected clients were told.", counts.told),
        ("not_told_total", "counter", "Routes that connected clients were not told.", counts.not_told),
        ("refused_total", "counter", "Messages that were not the sender's to send.", counts.refused),
        (
            "relays_reported_total",
            "counter",
            "Relays that were reported and replaced.",
            counts.relays_reported,
        ),
        ("publish_failures_total", "counter", "Updates that failed.", counts.publish_failures),
        ("handshakes_total", "counter", "Handshakes that succeeded.", handshakes.accepted),
        ("unknown_keys_total", "counter", "Dialers with unknown keys.", handshakes.unknown_key),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "# HELP psmc_coordinator_{name} {help}\n# TYPE psmc_coordinator_{name} {kind}\npsmc_coordinator_{name} {value}"
        );
    }
    if let Some(eve) = &status.suricata {
        suricata(eve, &mut out);
    }
    out.push_str(
        "# HELP psmc_coordinator_relay_up Whether a relay answers.\n# TYPE psmc_coordinator_relay_up gauge\n",
    );
    for relay in &status.relays {
        let _ =
            writeln!(out, "psmc_coordinator_relay_up{{relay=\"{}\"}} {}", relay.name, u8::from(relay.alive));
    }
    out.push_str(
        "# HELP psmc_coordinator_mitigated Whether something is done for a service.\n\
         # TYPE psmc_coordinator_mitigated gauge\n",
    );
    for service in &status.services {
        let active = !matches!(service.stage, Stage::Withdrawn | Stage::Prepared);
        let _ =
            writeln!(out, "psmc_coordinator_mitigated{{service=\"{}\"}} {}", service.name, u8::from(active));
    }
    out
}
