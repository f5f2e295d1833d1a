//! The name servers that the host asks as long as the site runs: set, looked after, and tried again where that fails.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_service::clock::Backoff;
use psmc_service::name_servers::{self, Integration, Place};
use psmc_service::programs;
use tokio::task::spawn_blocking;

use super::FootprintError;
use super::record::Saved;

/// The site's part in which name servers the host asks.
#[derive(Debug, Default)]
pub(super) struct NameServers {
    present: Option<Present>,
    /// Whether the site wants some that could not be set.
    has_failed: bool,
    schedule: Schedule,
}

#[derive(Debug)]
struct Present {
    servers: Vec<IpAddr>,
    interface: String,
    integration: Integration,
}

impl NameServers {
    /// Has the host ask `servers`, those it would ask by itself if there are none, and notes in `saved` what is to be put back.
    ///
    /// # Errors
    /// [`FootprintError::NameServers`]; [`is_due`](Self::is_due) says when to try again.
    pub(super) async fn match_site(
        &mut self,
        saved: &mut Saved,
        servers: &[IpAddr],
        interface: &str,
    ) -> Result<(), FootprintError> {
        if self.is_right(servers, interface) && (self.present.is_some() || saved.record.resolv_conf.is_none())
        {
            return Ok(());
        }
        self.schedule.tried(Instant::now());
        let done = self.set(saved, servers, interface).await;
        if done.is_ok() && std::mem::take(&mut self.has_failed) {
            tracing::info!("the name servers of `dns` are set");
        }
        self.has_failed = done.is_err();
        done
    }

    fn is_right(&self, servers: &[IpAddr], interface: &str) -> bool {
        match &self.present {
            Some(present) => {
                present.servers == servers && present.interface == interface && present.integration.holds()
            }
            None => servers.is_empty(),
        }
    }

    async fn set(
        &mut self,
        saved: &mut Saved,
        servers: &[IpAddr],
        interface: &str,
    ) -> Result<(), FootprintError> {
        self.present = None;
        if let Some(left) = &saved.record.resolv_conf {
            name_servers::restore(left)?;
            saved.record.resolv_conf = None;
        }
        if !servers.is_empty() {
            let place = place_for(interface);
            if let Place::ResolvConf(file) = &place {
                saved.record.resolv_conf = Some(file.clone());
                saved.save();
            }
            let listen: Vec<_> = servers.iter().map(|server| SocketAddr::new(*server, DNS_PORT)).collect();
            let begun = spawn_blocking(move || Integration::begin(&place, &listen)).await;
            // A task that was cancelled: the program ends.
            let Ok(begun) = begun else { return Ok(()) };
            let (servers, interface) = (servers.to_vec(), interface.to_owned());
            self.present = Some(Present { servers, interface, integration: begun? });
        }
        saved.save();
        Ok(())
    }

    /// Whether [`match_site`](Self::match_site) has something to mend, and it is time to. To be asked every second or so.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let holds = self.present.as_ref().is_none_or(|present| present.integration.holds());
        self.schedule.is_due(holds && !self.has_failed, now)
    }

    /// Puts back the earlier ones.
    pub(super) fn end(&mut self) {
        self.present = None;
    }
}

/// When something that others undo, or refuse, is done again.
#[derive(Debug)]
struct Schedule {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT), not_before: None }
    }
}

impl Schedule {
    fn tried(&mut self, now: Instant) {
        self.not_before = Some(now + self.backoff.wait());
    }

    /// What has lasted until it would have been done again is mended at once the next time.
    fn is_due(&mut self, is_right: bool, now: Instant) -> bool {
        let is_time = self.not_before.is_none_or(|at| at <= now);
        if is_right && is_time {
            self.backoff.reset();
        }
        is_time && !is_right
    }
}

/// Until the second attempt: a client of DHCP, or systemd-resolved on its start, has written all that it writes.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Between attempts at last: each starts a program or writes a file, and somebody who mends the machine should not have to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Where name servers listen.
const DNS_PORT: u16 = 53;

/// The file by which programs find name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The folder of systemd-resolved, to one of whose files resolv.conf leads where it is used.
const RESOLVED: &str = "/run/systemd/resolve";

/// Whom to tell of name servers: systemd-resolved where resolv.conf leads to it.
fn place_for(interface: &str) -> Place {
    let leads_there = std::fs::canonicalize(RESOLV_CONF).is_ok_and(|file| file.starts_with(RESOLVED));
    match programs::find("resolvectl") {
        Ok(program) if leads_there => {
            Place::Resolved { link: interface.to_owned(), domains: vec!["~.".to_owned()], program }
        }
        Ok(_) | Err(_) => Place::ResolvConf(RESOLV_CONF.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_ever_more_rarely_and_what_has_held_is_mended_at_once() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(false, start), "nothing was tried yet");
        let mut tried = Vec::new();
        for second in 0..200 {
            if schedule.is_due(false, at(second)) {
                schedule.tried(at(second));
                tried.push(second);
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        assert!(!schedule.is_due(true, at(201)));
        assert!(!schedule.is_due(false, at(202)), "it has not lasted");
        assert!(!schedule.is_due(true, at(243)));
        assert!(schedule.is_due(false, at(244)));
        schedule.tried(at(244));
        assert!(schedule.is_due(false, at(245)));
    }
}
