//! Whether packets to addresses that several peers share are for this one.

use std::time::{Duration, Instant};

use super::Session;
use crate::event::Event;
use crate::routing::Standing;
use crate::shared::Shared;

/// What is known of it.
#[derive(Debug)]
pub(super) struct Trial {
    standing: Standing,
    /// Since when a path works, after none has.
    works_since: Option<Instant>,
    /// Whether it worked before that.
    has_failed: bool,
}

impl Default for Trial {
    /// Nothing works yet, which is no failure.
    fn default() -> Self {
        Self { standing: Standing::Down, works_since: None, has_failed: false }
    }
}

impl Trial {
    /// What its standing is, given whether a path works.
    fn judge(&mut self, works: bool, failback: Option<Duration>, now: Instant) -> Standing {
        if !works {
            self.has_failed |= self.works_since.take().is_some();
            return Standing::Down;
        }
        let since = *self.works_since.get_or_insert(now);
        let is_over = |time: Duration| now.saturating_duration_since(since) >= time;
        if self.has_failed && !failback.is_some_and(is_over) {
            return Standing::OnTrial;
        }
        self.has_failed = false;
        Standing::Trusted
    }

    /// When its trial is over.
    fn ends_at(&self, failback: Option<Duration>) -> Option<Instant> {
        let since = self.works_since.filter(|_| self.has_failed)?;
        failback.map(|time| since + time)
    }
}

impl Session {
    /// Gives networks that other peers claim as well to whom they are for by now.
    pub(crate) fn tend_standing(&mut self, shared: &mut Shared, now: Instant) {
        let works = self.paths.is_any_active() && self.keys.ended_at().is_none();
        let standing = self.trial.judge(works, self.config.gateway.failback, now);
        if standing == std::mem::replace(&mut self.trial.standing, standing) {
            return;
        }
        let networks = shared.routes.set_standing(self.peer, standing);
        if let Some(&network) = networks.first()
            && let Some(peer) = shared.routes.lookup(network.addr())
        {
            shared.events.push_back(Event::GatewayChanged { peer, network, others: networks.len() - 1 });
        }
    }

    /// When packets may be for this one again.
    pub(super) fn trial_ends_at(&self) -> Option<Instant> {
        self.trial.ends_at(self.config.gateway.failback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILBACK: Duration = Duration::from_secs(5);

    #[test]
    fn who_comes_back_is_on_trial_and_who_comes_first_is_not() {
        let (mut trial, now) = (Trial::default(), Instant::now());
        assert_eq!(trial.judge(false, Some(FAILBACK), now), Standing::Down);
        assert_eq!(trial.judge(true, Some(FAILBACK), now), Standing::Trusted);
        assert_eq!(trial.ends_at(Some(FAILBACK)), None);
        assert_eq!(trial.judge(false, Some(FAILBACK), now), Standing::Down);
        assert_eq!(trial.judge(true, Some(FAILBACK), now), Standing::OnTrial);
        assert_eq!(trial.ends_at(Some(FAILBACK)), Some(now + FAILBACK));
        // A relapse begins the time anew.
        let later = now + FAILBACK / 2;
        assert_eq!(trial.judge(false, Some(FAILBACK), later), Standing::Down);
        assert_eq!(trial.judge(true, Some(FAILBACK), later), Standing::OnTrial);
        assert_eq!(trial.judge(true, Some(FAILBACK), now + FAILBACK), Standing::OnTrial);
        assert_eq!(trial.judge(true, None, later + FAILBACK), Standing::OnTrial, "for ever");
        assert_eq!((trial.ends_at(None), trial.ends_at(Some(FAILBACK))), (None, Some(later + FAILBACK)));
        assert_eq!(trial.judge(true, Some(FAILBACK), later + FAILBACK), Standing::Trusted);
        assert_eq!(trial.judge(true, None, later + FAILBACK), Standing::Trusted, "and stays so");
    }
}
