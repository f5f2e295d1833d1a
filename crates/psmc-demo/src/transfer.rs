//! The file, and what happens while it is on its way.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, Digest, SHA256};
use aws_lc_rs::rand;
use psmc_testbed::netns::NetnsError;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until};

use super::DemoError;
use super::network::{Cut, Links, Network, best_goodput};
use super::sites::{HQ_INSIDE, Relays, Sites};
use super::tcp::{self, Deliveries, Flow};
use super::view::{Frame, Lane, View};
use psmc_api::PathStatus;

/// When the fastest link is cut: by then TCP has been at full speed for some seconds.
const CUT_AT: Duration = Duration::from_secs(5);

/// How long it stays cut.
const CUT_FOR: Duration = Duration::from_secs(3);

/// How long the transfer takes if the tunnel carries all that it can; that leaves time to see the link come back.
const LENGTH: Duration = Duration::from_secs(12);

/// How much of the file is made and hashed at once.
const CHUNK: usize = 16 * 1024;

/// What was seen of the transfer. Times are counted from its start.
pub(super) struct Transfer {
    pub(super) deliveries: Deliveries,
    /// From when to when the fastest link was cut.
    pub(super) cut: Range<Duration>,
    pub(super) hash_ok: bool,
    /// The van's paths at the end; their counts of bytes and packets are those of the transfer.
    pub(super) paths: Vec<PathStatus>,
}

/// Sends a file, cuts and mends the fastest link meanwhile, or kills its relay, and shows it all in `view`.
pub(super) async fn run(
    network: &Arc<Network>,
    sites: &mut Sites,
    relays: &mut Relays,
    how: Cut,
    view: &mut View,
) -> Result<Transfer, DemoError> {
    let before = sites.paths().await?;
    let flow = tcp::connect(&network.van, &network.hq, HQ_INSIDE).await;
    let mut flow = flow.map_err(failed)?;
    let started = Instant::now();
    let deliveries = RefCell::new(Deliveries::new(started));
    let work = async {
        tokio::try_join!(
            send_and_compare(&mut flow, file_size(network.links), &deliveries),
            cut_and_mend(network, relays, how, started)
        )
    };
    let (hash_ok, cut) = tokio::select! {
        done = work => done?,
        failed = watch(sites, network.links, &deliveries, view) => match failed? {},
    };
    view.clear();
    Ok(Transfer {
        deliveries: deliveries.into_inner(),
        cut,
        hash_ok,
        paths: since(&before, sites.paths().await?),
    })
}

fn failed(source: io::Error) -> DemoError {
    DemoError::Tcp { over: "through the tunnel".to_owned(), source }
}

/// As many bytes as the tunnel carries in [`LENGTH`] if it does its best.
fn file_size(links: Links) -> u64 {
    let whole = best_goodput(links) * (LENGTH - CUT_FOR).as_secs();
    let reduced = best_goodput(&links[1..]) * CUT_FOR.as_secs();
    (whole + reduced) / 8
}

/// Sends the file, and says whether it arrives as it was sent.
async fn send_and_compare(
    flow: &mut Flow,
    size: u64,
    deliveries: &RefCell<Deliveries>,
) -> Result<bool, DemoError> {
    let mut received = Context::new(&SHA256);
    let receive = tcp::receive(&mut flow.receiver, deliveries, |bytes| received.update(bytes));
    let (sent, ()) = tokio::try_join!(send(&mut flow.sender, size), receive).map_err(failed)?;
    Ok(sent.as_ref() == received.finish().as_ref())
}

/// Sends random data, which nothing on the way can shorten, and returns their digest.
async fn send(stream: &mut TcpStream, size: u64) -> io::Result<Digest> {
    let mut digest = Context::new(&SHA256);
    let mut chunk = [0; CHUNK];
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        rand::fill(&mut chunk[..length]).map_err(io::Error::other)?;
        digest.update(&chunk[..length]);
        stream.write_all(&chunk[..length]).await?;
        left -= length as u64;
    }
    stream.shutdown().await?;
    Ok(digest.finish())
}

async fn cut_and_mend(
    network: &Arc<Network>,
    relays: &mut Relays,
    how: Cut,
    started: Instant,
) -> Result<Range<Duration>, DemoError> {
    let link = network.fastest();
    sleep_until((started + CUT_AT).into()).await;
    let cut = started.elapsed();
    aside(network, move |network| network.cut(link, how)).await?;
    if how == Cut::Killed {
        relays.kill(link);
    }
    sleep_until((started + CUT_AT + CUT_FOR).into()).await;
    aside(network, move |network| network.mend(link, how)).await?;
    if how == Cut::Killed {
        relays.restart(network, link)?;
    }
    // The kernel may take half a second to do so, while it removes other namespaces.
    Ok(cut..started.elapsed())
}

/// Changes the network on another thread: the kernel takes its time for it, and what arrives meanwhile must be noticed.
async fn aside(
    network: &Arc<Network>,
    change: impl FnOnce(&Network) -> Result<(), NetnsError> + Send + 'static,
) -> Result<(), NetnsError> {
    let network = Arc::clone(network);
    let outcome = spawn_blocking(move || change(&network)).await;
    outcome.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
}

/// Shows how it goes, until something is wrong with a daemon.
async fn watch(
    sites: &mut Sites,
    links: Links,
    deliveries: &RefCell<Deliveries>,
    view: &mut View,
) -> Result<Infallible, DemoError> {
    let (mut then, mut before) = (Instant::now(), sites.paths().await?);
    loop {
        sleep(view.interval()).await;
        let (now, paths) = (Instant::now(), sites.paths().await?);
        let lanes = lanes(links, &since(&before, paths.clone()), now - then);
        view.show(&frame(&deliveries.borrow(), file_size(links), lanes, then..now));
        (then, before) = (now, paths);
    }
}

fn frame(deliveries: &Deliveries, size: u64, lanes: Vec<Lane>, window: Range<Instant>) -> Frame {
    let window = deliveries.time(window.start)..deliveries.time(window.end);
    Frame { elapsed: window.end, mbps: deliveries.mbps(window), arrived: deliveries.total(), size, lanes }
}

/// What the paths do, of what they sent in so much time.
fn lanes(links: Links, paths: &[PathStatus], time: Duration) -> Vec<Lane> {
    let lane = |path: &PathStatus| Lane {
        name: path.name.clone(),
        mbps: path.tx_bytes as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        limit_mbps: links.iter().find(|link| link.name == path.name).map_or(0.0, |link| link.mbps.into()),
        rtt_ms: path.rtt_ms,
        state: path.state,
    };
    paths.iter().map(lane).collect()
}

/// The paths as they are, with the counts of what was sent since they were as `before`.
fn since(before: &[PathStatus], mut now: Vec<PathStatus>) -> Vec<PathStatus> {
    for path in &mut now {
        let earlier = before.iter().find(|earlier| earlier.name == path.name);
        let sent = earlier.map_or(0, |earlier| earlier.tx_bytes);
        // A path that was made anew counts from zero.
        path.tx_bytes = path.tx_bytes.checked_sub(sent).unwrap_or(path.tx_bytes);
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DIRECT;

    #[test]
    fn the_file_takes_as_long_as_it_should() {
        // 81.9 Mbit/s for 9 s and 45.5 Mbit/s for 3 s.
        assert_eq!(file_size(DIRECT) / 1_000_000, 109);
    }
}
