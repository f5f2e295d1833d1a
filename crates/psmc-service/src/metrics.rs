//! Metrics for Prometheus, in its text format (version 0.0.4) over HTTP.

use std::fmt::Write;
use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};

use crate::http::{self, Answer, Handler, HttpError, only, text};

/// The type of what is told (Prometheus, "Exposition formats").
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// Listens on `address`; the future tells at `/metrics` what `report` says, and that the program is about to end if it says nothing.
///
/// # Errors
/// [`HttpError`] if nothing can listen there.
pub async fn serve<R, F>(address: SocketAddr, report: R) -> Result<impl Future<Output = ()> + Send, HttpError>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<Metrics>> + Send,
{
    http::serve(address, Teller(report)).await
}

struct Teller<R>(R);

impl<R, F> Handler for Teller<R>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<Metrics>> + Send,
{
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return only(&[Method::GET, Method::HEAD]);
        }
        let Some(metrics) = (self.0)().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the program is about to end\n");
        };
        let mut answer = text(StatusCode::OK, metrics.text);
        answer.headers_mut().insert(CONTENT_TYPE, TEXT);
        answer
    }
}

/// Metrics, as they are written.
#[derive(Clone, Debug)]
pub struct Metrics {
    prefix: &'static str,
    text: String,
}

/// What a metric does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It rises and falls.
    Gauge,
    /// It only rises, until the program starts anew.
    Counter,
}

impl Metrics {
    /// None yet. The name of each will begin with this.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    /// Adds gauges that have one value each: their names, what they are, and the values.
    pub fn gauges<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, &'a str, u64)>) {
        for (name, help, value) in all {
            self.many(name, Kind::Gauge, help, [(Vec::new(), number(value))]);
        }
    }

    /// The same with counters.
    pub fn counters<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, &'a str, u64)>) {
        for (name, help, value) in all {
            self.many(name, Kind::Counter, help, [(Vec::new(), number(value))]);
        }
    }

    /// Adds a metric that has a value for each set of labels.
    pub fn many<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        values: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, f64)>,
    ) {
        let (prefix, out) = (self.prefix, &mut self.text);
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {prefix}_{name} {help}\n# TYPE {prefix}_{name} {kind}");
        for (labels, value) in values {
            let _ = write!(out, "{prefix}_{name}");
            for (index, (label, text)) in labels.iter().enumerate() {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let open = if index == 0 { '{' } else { ',' };
                let _ = write!(out, "{open}{label}=\"{text}\"");
            }
            let close = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{close} {value}");
        }
    }

    /// All of them, as Prometheus reads them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A count as Prometheus has it.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "exact up to nine million billion")]
pub fn number(value: u64) -> f64 {
    value as f64
}

/// A yes or no as Prometheus has it.
#[must_use]
pub fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let mut metrics = Metrics::new("psmc");
        metrics.gauges([("uptime_seconds", "Time since the start.", 7)]);
        let labels = vec![("service", "a\"b"), ("relay", "r1")];
        metrics.many("lost_total", Kind::Counter, "Losses.", [(labels, 0.5)]);
        assert_eq!(
            metrics.as_str(),
            "# HELP psmc_uptime_seconds Time since the start.\n# TYPE psmc_uptime_seconds gauge\n\
             psmc_uptime_seconds 7\n# HELP psmc_lost_total Losses.\n# TYPE psmc_lost_total counter\n\
             psmc_lost_total{service=\"a\\\"b\",relay=\"r1\"} 0.5\n"
        );
    }

    #[tokio::test]
    async fn they_are_at_their_place_and_nowhere_else() {
        let report = || async {
            let mut metrics = Metrics::new("psmc");
            metrics.gauges([("up", "Up.", 1)]);
            Some(metrics)
        };
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(serve(address, report).await.unwrap());
        let ask = async |request: &str| {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(format!("{request} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let whole = ask("GET /metrics").await;
        assert!(whole.ends_with("psmc_up 1\n"));
        assert_eq!(ask("GET /metrics?x=1").await, whole);
        let head = ask("HEAD /metrics").await;
        assert!(whole.starts_with(&head) && head.ends_with("\r\n\r\n"), "{head}");
        let other = ask("POST /metrics").await;
        assert!(other.starts_with("HTTP/1.1 405 ") && other.contains("\r\nallow: GET, HEAD\r\n"), "{other}");
        assert!(ask("GET /").await.starts_with("HTTP/1.1 404 "));
    }
}
