//! Metrics for Prometheus, in its text format over HTTP.

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

use super::tunnels::write_metrics;
use super::{Observer, Status};

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

/// Listens on `address`; the future answers requests.
pub(crate) async fn serve(
    address: SocketAddr,
    observer: Observer,
) -> Result<impl Future<Output = ()>, MetricsError> {
    let listener = TcpListener::bind(address).await.map_err(|source| MetricsError { address, source })?;
    Ok(answer_all(listener, observer))
}

async fn answer_all(listener: TcpListener, observer: Observer) {
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                // One client too many is hung up on.
                let Ok(permit) = clients.clone().try_acquire_owned() else { continue };
                let observer = observer.clone();
                tokio::spawn(async move {
                    let _permit = permit;
                    // A client that goes away or says nothing has only itself to blame.
                    let _ = timeout(TIMEOUT, answer(client, &observer)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept clients for metrics");
                sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
}

async fn answer(mut client: TcpStream, observer: &Observer) -> io::Result<()> {
    let head = read_head(&mut client).await?;
    let (code, body) = if head.starts_with(b"GET /metrics ") {
        ("200 OK", text(&observer.status().await.map_err(io::Error::other)?))
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
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

/// The status in Prometheus' text format (version 0.0.4).
fn text(status: &Status) -> String {
    let mut out = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "# HELP psmc_relay_{name} {help}\n# TYPE psmc_relay_{name} {kind}\npsmc_relay_{name} {value}"
        );
    };
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    one("uptime_seconds", "gauge", "Time since the start.", status.uptime_s);
    one("sessions", "gauge", "Sessions that stand.", count(status.sessions.len()));
    one("gateways", "gauge", "Gateways that are connected.", count(status.gateways));
    one("streams", "gauge", "Control streams that stand.", count(status.streams));
    one("stream_bytes_total", "counter", "Bytes of control streams.", status.stream_bytes);
    let datagrams = &status.datagrams;
    one("received_datagrams_total", "counter", "Datagrams received.", datagrams.received);
    one("received_bytes_total", "counter", "Bytes received.", datagrams.received_bytes);
    one("sent_datagrams_total", "counter", "Datagrams sent.", datagrams.sent);
    one("sent_bytes_total", "counter", "Bytes sent.", datagrams.sent_bytes);
    one("send_drops_total", "counter", "Datagrams that the network did not take.", datagrams.send_drops);
    one("strayed_total", "counter", "Datagrams handed over between workers.", datagrams.strayed);
    one("stray_drops_total", "counter", "Datagrams dropped between workers.", datagrams.stray_drops);
    if let Some(heard) = status.heard_too_big {
        one("heard_too_big_total", "counter", "ICMP errors about datagrams too long for a link.", heard);
    }
    one("control_accepted_total", "counter", "Handshakes that succeeded.", status.control_accepted);
    one("control_unknown_key_total", "counter", "Dialers with unknown keys.", status.control_unknown_key);
    one("control_failed_total", "counter", "Handshakes that failed.", status.control_failed_handshake);
    refused(status, &mut out);
    by_site(status, &mut out);
    write_metrics(status, &mut out);
    out
}

fn refused(status: &Status, out: &mut String) {
    let refused = &status.refused;
    let reasons = [
        ("malformed", refused.malformed),
        ("unknown_label", refused.unknown_label),
        ("replayed", refused.replayed),
        ("forged", refused.forged),
        ("misaddressed", refused.misaddressed),
        ("too_many_hops", refused.too_many_hops),
        ("no_address", refused.no_address),
        ("too_long", refused.too_long),
        ("queue_full", refused.queue_full),
    ];
    out.push_str("# HELP psmc_relay_refused_datagrams_total Datagrams that went no further.\n");
    out.push_str("# TYPE psmc_relay_refused_datagrams_total counter\n");
    for (reason, value) in reasons {
        let _ = writeln!(out, "psmc_relay_refused_datagrams_total{{reason=\"{reason}\"}} {value}");
    }
    out.push_str("# HELP psmc_relay_queue_drops_total Datagrams dropped to keep queues short.\n");
    out.push_str("# TYPE psmc_relay_queue_drops_total counter\n");
    for (precedence, value) in refused.dropped.into_iter().enumerate() {
        let _ = writeln!(out, "psmc_relay_queue_drops_total{{precedence=\"{precedence}\"}} {value}");
    }
}

fn by_site(status: &Status, out: &mut String) {
    out.push_str(
        "# HELP psmc_relay_site_sessions Sessions of a site.\n# TYPE psmc_relay_site_sessions gauge\n",
    );
    for site in &status.sites {
        // Names of granted sites are their own words.
        let name: String = site.name.chars().filter(|c| !matches!(c, '"' | '\\' | '\n')).collect();
        let key = &site.public_key;
        let _ = writeln!(out, "psmc_relay_site_sessions{{site=\"{name}\",key=\"{key}\"}} {}", site.sessions);
    }
}
