//! The web page: how the site is, live, and how its paths were in the last hour.
//!
//! | module | what it has |
//! |---|---|
//! | `access` | who is let in |
//! | `guesses` | who has shown wrong tokens of late |
//! | `hour` | the last hour of each path |
//! | `orders` | how paths are changed |
//! | `pages` | what is answered at which address |
//! | `view` | what the page is told |
//!
//! The page asks once a second while somebody looks at it. All pages together have the site asked for its status once a second at
//! most, and none of them holds up the rest: the connections are those of [`psmc_service::http`], few and short. Without a page the
//! status is collected for the last hour only, once in [`hour::INTERVAL`].

mod access;
mod guesses;
mod hour;
mod orders;
mod pages;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use psmc_api::watch::{PeerRates, Watch};
use psmc_api::{Caller, Status};
use psmc_service::http::{self, HttpError};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

use super::scrapes::Asker;
use crate::config::Web;
use access::Access;
use hour::{Hour, Key, Sample};
use pages::Pages;

/// How old an answer may be for another page: that of a page which asks once a second, and a little early.
const FRESH: Duration = Duration::from_millis(900);

/// Listens where the configuration says; the future shows the page, and remembers the last hour.
///
/// # Errors
/// [`HttpError`] if nothing can listen there.
pub(super) async fn serve(
    web: &Web,
    asker: Asker,
    caller: Caller,
) -> Result<impl Future<Output = ()> + Send + 'static, HttpError> {
    let source = Arc::new(Source::new(asker, web.orders.then_some(caller)));
    let served = http::serve(web.listen, Pages::new(source.clone(), Access::new(web))).await?;
    Ok(async move {
        tokio::join!(served, remember(&source));
    })
}

/// Has the last hour remembered until the daemon ends.
async fn remember(source: &Source) {
    let mut ticks = tokio::time::interval(hour::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if let Some(mut known) = source.refreshed().await {
            known.sample(source.begun);
        }
    }
}

/// What all pages have in common.
#[derive(Debug)]
struct Source {
    asker: Asker,
    /// Who asks for what is ordered; nobody if the page is read only.
    caller: Option<Caller>,
    /// When the first sample was due.
    begun: Instant,
    /// Tells this run of the daemon from others.
    run: Timestamp,
    known: Mutex<Known>,
}

/// What is known of the site.
#[derive(Debug, Default)]
struct Known {
    watch: Watch<Timestamp>,
    hour: Hour,
    /// Whether something was ordered since.
    is_changed: bool,
    /// What the latest samples were made of.
    sampled: Option<(Arc<Status>, Instant)>,
}

impl Source {
    fn new(asker: Asker, caller: Option<Caller>) -> Self {
        let (begun, run) = (Instant::now(), Timestamp::now());
        Self { asker, caller, begun, run, known: Mutex::default() }
    }

    /// What is known, with an answer that is not old; `None` if the daemon is about to end. Those who ask at the same time wait for
    /// the same answer.
    async fn refreshed(&self) -> Option<tokio::sync::MutexGuard<'_, Known>> {
        let mut known = self.known.lock().await;
        let is_young = known.watch.latest().is_some_and(|(_, at)| at.elapsed() < FRESH);
        if !is_young || known.is_changed {
            let status = self.asker.ask().await?;
            known.is_changed = false;
            known.watch.answered(Arc::new(status), Instant::now(), &Timestamp::now());
        }
        Some(known)
    }
}

impl Known {
    /// Adds a sample of each path, of the rates since the sample before.
    fn sample(&mut self, begun: Instant) {
        let Some((status, at)) = self.watch.latest() else { return };
        let (status, number) = (status.clone(), hour::number(at.saturating_duration_since(begun)));
        let samples = match &self.sampled {
            Some((before, then)) => samples(before, &status, at.saturating_duration_since(*then)),
            None => Vec::new(),
        };
        self.hour.add(number, samples);
        self.sampled = Some((status, at));
    }
}

fn samples(before: &Status, now: &Status, elapsed: Duration) -> Vec<(Key, Sample)> {
    let mut samples = Vec::new();
    for peer in &now.peers {
        let Some(before) = before.peers.iter().find(|before| before.name == peer.name) else { continue };
        let rates = PeerRates::between(before, peer, elapsed);
        let of_path = |path| (Key::of(peer, path), Sample::of(path, rates.paths.get(&path.id)));
        samples.extend(peer.paths.iter().map(of_path));
    }
    samples
}
