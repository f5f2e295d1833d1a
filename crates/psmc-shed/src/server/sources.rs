//! From where it is known what of a class is accepted, where that is not the file: limits in nftables, and signs of overload.
//!
//! | module | what it has |
//! |---|---|
//! | [`nft`] | limits of somebody else's rules in nftables |
//! | [`kernel`] | listen queues that overflow, and what waits for processors, memory and disks |
//! | [`haproxy`] | requests that wait in HAProxy |

pub mod haproxy;
pub mod kernel;
pub mod nft;

use std::collections::BTreeMap;
use std::time::Instant;

use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Accept, Basis, Chain, Sign};
use crate::router::INTERVAL;
use haproxy::HaProxyError;
use kernel::KernelError;
use nft::Limits;

/// Rules of others are read at every so many intervals, each 2 s: people change them, who do not notice sooner; `nft monitor` in place
/// of it would be a process more, which loses events while rulesets of thousands of elements are loaded.
const RULES_EVERY: u32 = 4;

/// What a source says of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// What is accepted, in bytes per second.
    Rate(u64),
    /// Whether the server was overloaded since it said so last.
    Overloaded(bool),
}

/// Why a source says nothing.
#[derive(Debug, Error)]
pub enum SourceError {
    /// nftables, or its rules.
    #[error(transparent)]
    Nft(#[from] nft::LimitsError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// HAProxy.
    #[error(transparent)]
    HaProxy(#[from] HaProxyError),
}

/// What sources say, by the place of the class; classes of which nothing is known yet, and those of the file, are not in it.
pub type News = Vec<(usize, Result<Said, SourceError>)>;

/// Asks all sources for as long as it is polled, and calls `tell` with what they say. Ends at once if there are none.
pub async fn watch(accepts: Vec<Accept>, tell: impl AsyncFn(News)) {
    if accepts.iter().all(|accept| accept.basis == Basis::File) {
        return;
    }
    let mut reader = Reader { accepts, last: BTreeMap::new(), round: 0 };
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let work = spawn_blocking(move || {
            let news = reader.read(Instant::now());
            (reader, news)
        });
        // A panic was reported where it happened.
        let Ok((kept, news)) = work.await else { return };
        reader = kept;
        tell(news).await;
    }
}

/// Reads sources, and remembers counters that only rise.
#[derive(Debug)]
struct Reader {
    accepts: Vec<Accept>,
    /// What a counter said, and when.
    last: BTreeMap<usize, (u64, Instant)>,
    round: u32,
}

impl Reader {
    fn read(&mut self, now: Instant) -> News {
        let is_due = self.round.is_multiple_of(RULES_EVERY);
        self.round = self.round.wrapping_add(1);
        // Each chain is listed once, however many classes follow it.
        let mut listed: BTreeMap<Chain, Result<Limits, String>> = BTreeMap::new();
        let mut news = News::new();
        for (number, accept) in self.accepts.iter().enumerate() {
            let said = match &accept.basis {
                Basis::File => continue,
                Basis::Nft(_) if !is_due => continue,
                Basis::Nft(follow) => {
                    let limits = listed.entry(follow.chain.clone()).or_insert_with(|| {
                        nft::list(&follow.chain).map_err(|error| crate::error_chain(&error))
                    });
                    let rate = match limits {
                        Ok(limits) => limits.of(&accept.class, follow),
                        Err(error) => Err(nft::LimitsError::NotListed(error.clone())),
                    };
                    Some(rate.map(Said::Rate).map_err(SourceError::from))
                }
                Basis::Measured(measured) => {
                    let outcome = sign(&measured.sign, self.last.remove(&number), now);
                    let overloaded = outcome.map(|(overloaded, counter)| {
                        // After an error the next is compared with nothing from before.
                        self.last.extend(counter.map(|counter| (number, (counter, now))));
                        overloaded.map(Said::Overloaded)
                    });
                    overloaded.transpose()
                }
            };
            news.extend(said.map(|said| (number, said)));
        }
        news
    }
}

/// Whether a sign shows, if that can be said yet, and what its counter says if it has one; `last` is what that said before.
fn sign(
    sign: &Sign,
    last: Option<(u64, Instant)>,
    now: Instant,
) -> Result<(Option<bool>, Option<u64>), SourceError> {
    let counter = match sign {
        Sign::HaProxy { socket, backend, above } => {
            return Ok((Some(haproxy::waiting(socket, backend)? > *above), None));
        }
        Sign::ListenQueue => kernel::listen_drops()?,
        Sign::Pressure { resource, .. } => kernel::stalled(*resource)?,
    };
    let Some((before, at)) = last else { return Ok((None, Some(counter))) };
    let risen = counter.checked_sub(before).ok_or(KernelError::Backwards)?;
    let is = match sign {
        Sign::Pressure { percent, .. } => kernel::share(risen, now.saturating_duration_since(at))? > *percent,
        Sign::ListenQueue | Sign::HaProxy { .. } => risen > 0,
    };
    Ok((Some(is), Some(counter)))
}
