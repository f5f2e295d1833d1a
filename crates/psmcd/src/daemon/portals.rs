//! Captive portals: networks that answer for everybody with a page of their own until somebody has signed in there (RFC 8952).
//!
//! On request they are looked for by plain HTTP, over each uplink whose path does not work, and over no other. Whoever is asked answers
//! with 204 and no content, as those do that telephones ask; any other page, or the way to one, is the network's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, LOCATION};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use psmc_core::{PathState, PeerId};
use psmc_net::tls::tcp::connect_tcp;
use psmc_wire::PathId;
use tokio::time::timeout;

use super::DaemonError;
use super::control::Control;
use super::lookup::lookup;
use super::paths::OpenPath;
use super::plane::Plane;
use super::tasks::TaskEnd;
use crate::config::PortalCheck;

/// How long a path does not work before somebody is asked: most are back within moments.
const SILENCE: Duration = Duration::from_secs(3);

/// How often it is asked, as long as it does not: somebody who signs in need not wait for long until that is seen.
const INTERVAL: Duration = Duration::from_secs(10);

/// How long to wait for a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// The longest address of a page that is shown, in bytes.
const LONGEST: usize = 200;

/// When the networks behind uplinks were asked.
#[derive(Debug, Default)]
pub(super) struct Portals {
    asked: BTreeMap<String, Instant>,
}

impl Portals {
    /// Whether it is time to ask over this uplink.
    fn take_due(&mut self, interface: &str, now: Instant) -> bool {
        let is_due = self.asked.get(interface).is_none_or(|at| *at + INTERVAL <= now);
        if is_due {
            self.asked.insert(interface.to_owned(), now);
        }
        is_due
    }
}

impl Control {
    /// Has whoever the configuration names asked over the uplinks whose paths do not work. To be called every second.
    pub(super) async fn look_for_portals(&mut self) -> Result<(), DaemonError> {
        let Some(check) = self.site.portal_check.clone() else { return Ok(()) };
        let states = self.path_states().await?;
        let now = Instant::now();
        let mut asked = Vec::new();
        for peer in self.peers.iter_mut() {
            for path in peer.paths.iter_mut() {
                let Some(interface) = path.settings.interface.as_ref().map(ToString::to_string) else {
                    continue;
                };
                match states.get(&(peer.id, path.id)) {
                    Some((PathState::Active, _)) => path.portal = None,
                    Some((PathState::Probing | PathState::Suspect | PathState::Dead, since))
                        if now.saturating_duration_since(*since) >= SILENCE
                            && path.interface_index.is_some() =>
                    {
                        asked.push(interface);
                    }
                    Some(_) | None => {}
                }
            }
        }
        for interface in asked {
            if self.portals.take_due(&interface, now) {
                let check = check.clone();
                self.tasks.spawn(async move {
                    let portal = ask(&check, &interface).await;
                    TaskEnd::LookedForPortal(interface, portal)
                });
            }
        }
        Ok(())
    }

    /// What all paths are doing, and since when.
    async fn path_states(&self) -> Result<BTreeMap<(PeerId, PathId), (PathState, Instant)>, DaemonError> {
        let peers: Vec<_> = self.peers.iter().map(|peer| peer.id).collect();
        let ask = move |plane: &mut Plane| {
            let of_peer = |peer| {
                let paths = plane.site.status(peer).map(|status| status.paths).unwrap_or_default();
                paths.into_iter().map(move |path| ((peer, path.id), (path.state, path.since)))
            };
            peers.into_iter().flat_map(of_peer).collect()
        };
        self.plane.call(ask).await
    }

    /// Somebody was asked over an uplink, and this portal was found, or none.
    pub(super) fn on_portal(&mut self, interface: &str, portal: Option<&str>) {
        let is_over = |path: &&mut OpenPath| {
            path.settings.interface.as_ref().is_some_and(|other| other.as_str() == interface)
        };
        let mut is_news = false;
        for path in self.peers.iter_mut().flat_map(|peer| peer.paths.iter_mut()).filter(is_over) {
            is_news |= path.portal.as_deref() != portal;
            path.portal = portal.map(ToOwned::to_owned);
        }
        match portal.filter(|_| is_news) {
            Some(page) => tracing::warn!(interface, page, "a captive portal is in the way: sign in there"),
            None if is_news => tracing::info!(interface, "no captive portal is in the way any more"),
            None => {}
        }
    }
}

/// Asks over an interface; the page to sign in at, if there is one.
async fn ask(check: &PortalCheck, interface: &str) -> Option<String> {
    let remotes = match check.host().parse() {
        Ok(ip) => vec![SocketAddr::new(ip, check.port())],
        Err(_) => lookup(check.host(), check.port()).await,
    };
    for remote in remotes {
        let Ok(stream) = connect_tcp(Some(interface), None, remote, PATIENCE).await else { continue };
        let asked = timeout(PATIENCE, async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
            let request = Request::get(check.path())
                .header(HOST, check.authority())
                .header(CONNECTION, "close")
                .body(Empty::<Bytes>::new())
                .ok()?;
            let answer = sender.send_request(request);
            tokio::pin!(answer);
            tokio::select! {
                answer = &mut answer => answer.ok(),
                // The answer came with the end.
                _ = connection => answer.await.ok(),
            }
        });
        return portal_of(&asked.await.ok()??, check);
    }
    None
}

/// What an answer says: nothing if it is the one that was expected, or one of a server in trouble.
fn portal_of<T>(answer: &Response<T>, check: &PortalCheck) -> Option<String> {
    let status = answer.status();
    let is_portals = status.is_redirection()
        || status == StatusCode::NETWORK_AUTHENTICATION_REQUIRED
        || status.is_success() && status != StatusCode::NO_CONTENT;
    // Visible characters only, as the header is read.
    let page = answer.headers().get(LOCATION).and_then(|page| page.to_str().ok());
    let page = page.filter(|page| page.starts_with("http") && page.len() <= LONGEST);
    is_portals.then(|| page.map_or_else(|| check.to_string(), ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_or_the_way_to_one_is_the_networks_and_no_content_is_not() {
        let check: PortalCheck = "http://check.example.net/free".parse().unwrap();
        let portal = |status: u16, page: Option<&str>| {
            let mut answer = Response::builder().status(status);
            if let Some(page) = page {
                answer = answer.header(LOCATION, page);
            }
            portal_of(&answer.body(()).unwrap(), &check)
        };
        let here = Some("http://check.example.net/free".to_owned());
        for (status, page, expected) in [
            (204, None, None),
            (500, None, None),
            (404, None, None),
            (302, Some("https://hotel.example/login"), Some("https://hotel.example/login".to_owned())),
            (307, Some("/login"), here.clone()),
            (302, Some(&*"http".repeat(100)), here.clone()),
            (200, None, here.clone()),
            (511, None, here),
        ] {
            assert_eq!(portal(status, page), expected, "{status} {page:?}");
        }
    }

    #[test]
    fn uplinks_are_asked_now_and_then_each_by_itself() {
        let (mut portals, now) = (Portals::default(), Instant::now());
        assert!(portals.take_due("wlan0", now) && portals.take_due("wwan0", now));
        assert!(!portals.take_due("wlan0", now + INTERVAL / 2));
        assert!(portals.take_due("wlan0", now + INTERVAL));
    }
}
