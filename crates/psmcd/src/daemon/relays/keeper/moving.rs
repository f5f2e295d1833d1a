//! A path that gets another relay.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{CHECK_TIMEOUT, KeeperSpec, Work};
use crate::config::Name;
use crate::daemon::relays::RelayError;
use crate::daemon::relays::chain::Chain;
use crate::daemon::relays::judge::{Comparison, Fault, LONGEST_WAIT};

/// A relay that does not answer in this time is no better than any other.
const LONGEST_RACE: Duration = Duration::from_secs(4);

/// Round trips until a relay has welcomed a site: one for TCP, one for TLS, one for the hello.
const ROUND_TRIPS: u32 = 3;

impl Work {
    /// Leads the path, which is dead, through the spare relay that answers first, and returns the connection to that.
    pub(super) async fn move_to_spare(&mut self) -> Option<Chain> {
        self.swap("is dead", &[]).await
    }

    /// Looks at the path, and moves it if it is bad for long and there is a spare relay that may be better.
    pub(super) async fn weigh(&mut self, chain: &mut Chain, seen: Comparison) -> Result<(), RelayError> {
        let Some(fault) = self.judge.look(seen, Instant::now()) else { return Ok(()) };
        let spare = self.better(fault, seen.own.rtt).await;
        let now = Instant::now();
        self.judge.on_tried(now);
        match spare {
            Some((left, spare)) => {
                self.left.push((left, now));
                self.leave(chain, spare).await
            }
            None => Ok(()),
        }
    }

    /// A relay in place of the one that is at fault, and the name of that. What a relay loses or carries shows only in use;
    /// a long way to it shows at once.
    async fn better(&mut self, fault: Fault, rtt: Option<Duration>) -> Option<(Name, Chain)> {
        let [relay] = self.spec.relays.as_slice() else { return None };
        let name = relay.name.clone();
        let patience = match (fault, rtt) {
            (Fault::Delay, Some(rtt)) => (ROUND_TRIPS * rtt * 2 / 3).min(LONGEST_RACE),
            (Fault::Delay, None) | (Fault::Loss | Fault::Rate, _) => LONGEST_RACE,
        };
        let now = Instant::now();
        self.left.retain(|&(_, at)| now < at + LONGEST_WAIT);
        let left: Vec<_> = self.left.iter().map(|(name, _)| name.clone()).collect();
        let chain = timeout(patience, self.swap(fault.name(), &left)).await.ok()??;
        Some((name, chain))
    }

    /// Takes another relay, none of `except`, and returns the connection to it.
    async fn swap(&mut self, why: &str, except: &[Name]) -> Option<Chain> {
        let KeeperSpec { caller, local_end, relays, spares, .. } = &self.spec;
        let [relay] = relays.as_slice() else { return None };
        let (spare, chain) = spares.swap(caller, local_end, relay, except).await?;
        let (path, from, to) = (&self.spec.name, &relay.name, &spare.name);
        tracing::warn!(%path, %from, %to, "the path {why}, and moves to a spare relay");
        self.spec.relays = vec![spare];
        self.told.send_modify(|keeping| keeping.relays.clone_from(&self.spec.relays));
        Some(chain)
    }

    /// Goes on at other relays than those of `chain`, and gives back there what they still know.
    pub(super) async fn leave(&mut self, chain: &mut Chain, spare: Chain) -> Result<(), RelayError> {
        let (mut left, spent) = (std::mem::replace(chain, spare), self.sessions.take());
        self.settle(chain).await?;
        if let Some(spent) = spent {
            // One that does not answer forgets them in time.
            let _ = timeout(CHECK_TIMEOUT, left.release(&spent)).await;
        }
        Ok(())
    }
}
