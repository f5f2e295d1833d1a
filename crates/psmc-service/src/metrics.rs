//! Metrics for Prometheus, in its text format (version 0.0.4) over HTTP.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Clients at a time: a few Prometheus servers and somebody with a browser.
const MAX_CLIENTS: usize = 8;

/// The longest head of a request, in bytes: a browser's.
const MAX_HEAD: usize = 8 * 1024;

/// How long a client may take in all.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after `accept` failed, which it does for want of descriptors: they do not come back at once.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(200);

/// Nothing can listen there.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: `ss -ltnp` shows who does")]
pub struct MetricsError {
    /// The address and port.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// Listens on `address`; the future answers requests with what `report` says, and hangs up if it says nothing.
///
/// # Errors
/// [`MetricsError`] if nothing can listen there.
pub async fn serve<R, F>(
    address: SocketAddr,
    report: R,
) -> Result<impl Future<Output = ()> + Send, MetricsError>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<Metrics>> + Send,
{
    let listener = TcpListener::bind(address).await.map_err(|source| MetricsError { address, source })?;
    Ok(answer_all(listener, Arc::new(report)))
}

async fn answer_all<R, F>(listener: TcpListener, report: Arc<R>)
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Option<Metrics>> + Send,
{
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                // One client too many is hung up on.
                let Ok(permit) = clients.clone().try_acquire_owned() else { continue };
                let report = report.clone();
                tokio::spawn(async move {
                    let _permit = permit;
                    // A client that goes away or says nothing has only itself to blame.
                    let _ = timeout(TIMEOUT, answer(client, &*report)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept clients for metrics");
                sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
}

async fn answer<F>(mut client: TcpStream, report: &(impl Fn() -> F + Sync)) -> io::Result<()>
where
    F: Future<Output = Option<Metrics>> + Send,
{
    let head = read_head(&mut client).await?;
    let (method, target) = request(&head);
    let (code, body) = match (target, method) {
        (b"/metrics", b"GET" | b"HEAD") => {
            let metrics = report().await.ok_or(io::ErrorKind::NotConnected)?;
            ("200 OK", metrics.text)
        }
        // RFC 9110, section 15.5.6.
        (b"/metrics", _) => {
            ("405 Method Not Allowed\r\nAllow: GET, HEAD", "this takes GET, HEAD only\n".to_owned())
        }
        _ => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
    };
    let length = body.len();
    // Who asks for the head gets what it would be, without the body (RFC 9110, section 9.3.2).
    let body = if method == b"HEAD" { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

/// The method of a request, and the path of its target, without a query.
fn request(head: &[u8]) -> (&[u8], &[u8]) {
    let mut words = head.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    (method, target.split(|byte| *byte == b'?').next().unwrap_or_default())
}

/// Reads to the empty line; what follows it is no concern of ours.
async fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut more = [0; 1024];
        let count = client.read(&mut more).await?;
        if count == 0 || head.len() + count > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&more[..count]);
    }
    Ok(head)
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

    /// Adds a metric that has one value.
    pub fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.many(name, kind, help, [(Vec::new(), value)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let mut metrics = Metrics::new("psmc");
        metrics.one("uptime_seconds", Kind::Gauge, "Time since the start.", 7.0);
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
            metrics.one("up", Kind::Gauge, "Up.", 1.0);
            Some(metrics)
        };
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(serve(address, report).await.unwrap());
        let ask = async |request: &str| {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(format!("{request} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
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
        assert!(other.starts_with("HTTP/1.1 405 ") && other.contains("\r\nAllow: GET, HEAD\r\n"), "{other}");
        assert!(ask("GET /").await.starts_with("HTTP/1.1 404 "));
    }
}
