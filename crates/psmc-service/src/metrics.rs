//! Metrics for Prometheus, in the text format of OpenMetrics (version 1.0.0) over HTTP.
//!
//! A program describes what it tells once, in a constant [`Set`]: names, labels, meanings, and how the values follow from its status.
//! Whatever else speaks of its metrics (documents, boards, rules for alerts) can be compared with that.

use std::fmt::{self, Debug};
use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
    text as openmetrics,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tokio::task::spawn_blocking;

use crate::http::{self, Answer, Handler, HttpError, only, text};

/// The type of what is told (OpenMetrics 1.0, "Text format").
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Listens on `address`; the future tells at `/metrics` what `set` makes of the status that `ask` has, and that the program is
/// about to end if it has none.
///
/// # Errors
/// [`HttpError`] if nothing can listen there.
pub async fn serve<S, A, F>(
    address: SocketAddr,
    set: Set<S>,
    ask: A,
) -> Result<impl Future<Output = ()> + Send, HttpError>
where
    S: Debug + Send + Sync + 'static,
    A: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<S>> + Send,
{
    http::serve(address, Teller { set, ask }).await
}

struct Teller<S: 'static, A> {
    set: Set<S>,
    ask: A,
}

impl<S, A, F> Handler for Teller<S, A>
where
    S: Debug + Send + Sync + 'static,
    A: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<S>> + Send,
{
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return only(&[Method::GET, Method::HEAD]);
        }
        let Some(status) = (self.ask)().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the program is about to end\n");
        };
        // The text of a large site takes its time, and the daemon's only thread has more to do.
        let set = self.set;
        let Ok(written) = spawn_blocking(move || set.text(status)).await else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written; see the log\n");
        };
        let mut answer = text(StatusCode::OK, written);
        answer.headers_mut().insert(CONTENT_TYPE, OPENMETRICS);
        answer
    }
}

/// All metrics of a program.
#[derive(Debug)]
pub struct Set<S: 'static> {
    /// What the name of each begins with, before an underscore.
    pub prefix: &'static str,
    /// The metrics, in the order in which they are told.
    pub metrics: &'static [Metric<S>],
}

impl<S> Clone for Set<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Set<S> {}

/// A metric: what it is, and how its values follow from the status of a program.
#[derive(Debug)]
pub struct Metric<S> {
    /// Its name after the prefix. It ends in `_total` if it is a counter, in `_info` if it is a text, and before that in its unit, if
    /// it has one.
    pub name: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is.
    pub help: &'static str,
    values: fn(&S, &mut Values<'_>) -> fmt::Result,
}

/// What a metric does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It rises and falls.
    Gauge,
    /// It only rises, until the program starts anew.
    Counter,
    /// It is always 1, and its labels are what it tells.
    Info,
}

impl Kind {
    /// As OpenMetrics calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
        }
    }
}

impl<S> Metric<S> {
    /// A metric whose values are those that `values` adds.
    #[must_use]
    pub const fn new(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: fn(&S, &mut Values<'_>) -> fmt::Result,
    ) -> Self {
        Self { name, labels, help, values }
    }

    /// What it does.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.parts().0
    }

    /// What it does, the name without the unit and what its kind adds, and the unit.
    fn parts(&self) -> (Kind, &'static str, Option<Unit>) {
        let (kind, name) = if let Some(name) = self.name.strip_suffix("_total") {
            (Kind::Counter, name)
        } else if let Some(name) = self.name.strip_suffix("_info") {
            (Kind::Info, name)
        } else {
            (Kind::Gauge, self.name)
        };
        match name.rsplit_once('_') {
            Some((name, "seconds")) => (kind, name, Some(Unit::Seconds)),
            Some((name, "bytes")) => (kind, name, Some(Unit::Bytes)),
            Some(_) | None => (kind, name, None),
        }
    }

    fn encode(&self, status: &S, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (kind, name, unit) = self.parts();
        let metric_type = match kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Info => MetricType::Info,
        };
        let encoder = encoder.encode_descriptor(name, self.help, unit.as_ref(), metric_type)?;
        (self.values)(status, &mut Values { kind, labels: self.labels, encoder })
    }
}

impl<S: Debug + Send + Sync + 'static> Set<S> {
    /// All metrics at `status`, as Prometheus reads them.
    #[must_use]
    pub fn text(self, status: S) -> String {
        let mut registry = Registry::with_prefix(self.prefix);
        registry.register_collector(Box::new(Scrape { set: self, status }));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = openmetrics::encode(&mut text, &registry);
        text
    }
}

/// What one answer tells.
#[derive(Debug)]
struct Scrape<S: 'static> {
    set: Set<S>,
    status: S,
}

impl<S: Debug + Send + Sync + 'static> Collector for Scrape<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.set.metrics.iter().try_for_each(|metric| metric.encode(&self.status, &mut encoder))
    }
}

/// The values of a metric, as they are written.
#[derive(Debug)]
pub struct Values<'a> {
    kind: Kind,
    labels: &'static [&'static str],
    encoder: MetricEncoder<'a>,
}

impl Values<'_> {
    /// Adds the value of these labels, which come in the order of their names. No two values have the same labels.
    ///
    /// # Errors
    /// If what is written to takes no more.
    pub fn add(&mut self, labels: &[&str], value: impl Into<Value>) -> fmt::Result {
        debug_assert_eq!(labels.len(), self.labels.len(), "{:?}", self.labels);
        let labels = Labels { names: self.labels, values: labels };
        if self.kind == Kind::Info {
            return self.encoder.encode_info(&labels);
        }
        let mut encoder = self.encoder.encode_family(&labels)?;
        match (self.kind, value.into()) {
            (Kind::Counter, Value::Whole(value)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
            }
            (Kind::Counter, Value::Real(value)) => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            (Kind::Gauge | Kind::Info, Value::Whole(value)) => encoder.encode_gauge(&value),
            (Kind::Gauge | Kind::Info, Value::Real(value)) => encoder.encode_gauge(&value),
        }
    }

    /// Adds the value if there is one.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_known(&mut self, labels: &[&str], value: Option<impl Into<Value>>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.add(labels, value))
    }
}

/// A number, or a yes (1) or no (0).
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// Anything else.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Whole(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut labels = self.names.iter().zip(self.values);
        labels.try_for_each(|(name, value)| (*name, *value).encode(encoder.encode_label()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const SET: Set<u64> = Set {
        prefix: "psmc",
        metrics: &[
            Metric::new("uptime_seconds", &[], "Time since the start.", |status, out| out.add(&[], *status)),
            Metric::new("site_info", &["site"], "The site.", |_, out| out.add(&["hq"], true)),
            Metric::new("lost_bytes_total", &["service", "relay"], "Losses.", |_, out| {
                out.add(&["a\"b\\c\nd", "r1"], 5_u64)?;
                out.add(&["", "r2"], 0.5)
            }),
            Metric::new("rtt", &["path"], "How long it takes.", |_, out| {
                out.add(&["a"], 0.25)?;
                out.add_known(&["b"], None::<f64>)
            }),
        ],
    };

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        assert_eq!(
            SET.text(7),
            "# HELP psmc_uptime_seconds Time since the start.\n# TYPE psmc_uptime_seconds gauge\n\
             # UNIT psmc_uptime_seconds seconds\npsmc_uptime_seconds 7\n\
             # HELP psmc_site The site.\n# TYPE psmc_site info\npsmc_site_info{site=\"hq\"} 1\n\
             # HELP psmc_lost_bytes Losses.\n# TYPE psmc_lost_bytes counter\n# UNIT psmc_lost_bytes bytes\n\
             psmc_lost_bytes_total{service=\"a\\\"b\\\\c\\nd\",relay=\"r1\"} 5\n\
             psmc_lost_bytes_total{service=\"\",relay=\"r2\"} 0.5\n\
             # HELP psmc_rtt How long it takes.\n# TYPE psmc_rtt gauge\npsmc_rtt{path=\"a\"} 0.25\n# EOF\n"
        );
    }

    #[tokio::test]
    async fn they_are_at_their_place_and_nowhere_else() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(serve(address, SET, || async { Some(1) }).await.unwrap());
        let ask = async |request: &str| {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(format!("{request} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let whole = ask("GET /metrics").await;
        assert!(whole.contains("\npsmc_uptime_seconds 1\n") && whole.ends_with("# EOF\n"), "{whole}");
        let kind = "\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(whole.contains(kind), "{whole}");
        assert_eq!(ask("GET /metrics?x=1").await, whole);
        let head = ask("HEAD /metrics").await;
        assert!(whole.starts_with(&head) && head.ends_with("\r\n\r\n"), "{head}");
        let other = ask("POST /metrics").await;
        assert!(other.starts_with("HTTP/1.1 405 ") && other.contains("\r\nallow: GET, HEAD\r\n"), "{other}");
        assert!(ask("GET /").await.starts_with("HTTP/1.1 404 "));
    }
}
