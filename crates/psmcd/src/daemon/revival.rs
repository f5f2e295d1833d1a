//! What is tried for a path that does not answer though its link is up. It is what a person would try:
//!
//! - another local port. A router on the way may keep an entry for the old one that leads nowhere any more, and the probes of
//!   the path would keep it alive for ever;
//! - the name of the endpoint, asked for again: it may have another address;
//! - its other addresses: one family may work where the other one does not.
//!
//! Another relay is the affair of the path's keeper.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use psmc_core::{PathAddress, PeerId, SilentPath, SocketId};
use psmc_net::udp::source_address;
use psmc_wire::PathId;

use super::DaemonError;
use super::control::Control;
use super::dial::Route;
use super::gathered::{Gathered, listed};
use super::paths::{LISTEN_SOCKET, OpenPath, bind_port, lacks_address, local_end};
use super::relays::Goal;
use crate::config::{Endpoint, PathSettings};

/// A path may be silent for so long before anything is tried: most come back by themselves. This and the times below are a little
/// short of whole seconds, for paths are looked at each second.
const FIRST_TURN: Duration = Duration::from_millis(900);

/// How long each attempt is given, again and again from the third on: a path should be in use again within five seconds of
/// when it can be. The longest is for paths whose answers take seconds, and would come to a port that is closed by then.
const WAITS: [Duration; 5] = [
    Duration::from_millis(1900),
    Duration::from_millis(1900),
    Duration::from_millis(3900),
    Duration::from_millis(3900),
    Duration::from_millis(9900),
];

/// Each attempt is given at least so many round trips of the path, if one is known.
const LEAST_ROUND_TRIPS: u32 = 3;

/// A name is asked for no more often: resolvers keep answers, and have others to serve.
const ASK_INTERVAL: Duration = Duration::from_millis(1900);

/// What is being tried, and for which paths.
#[derive(Debug, Default)]
pub(super) struct Revivals {
    trials: BTreeMap<(PeerId, PathId), Trial>,
    /// Addresses of this machine that peers have called and that are gone, to be told of.
    gone: Gathered<IpAddr, ()>,
}

/// What was tried for one path since it fell silent.
#[derive(Debug)]
struct Trial {
    /// Where its datagrams went when it fell silent, and go.
    origin: SocketAddr,
    remote: SocketAddr,
    turns: usize,
    next_turn: Instant,
    ask_at: Instant,
    /// All addresses of its endpoint, once they are known, and where the peer was when it was last heard.
    addresses: Vec<SocketAddr>,
}

impl Trial {
    fn new(remote: SocketAddr, now: Instant) -> Self {
        let next_turn = now + FIRST_TURN;
        Self { origin: remote, remote, turns: 0, next_turn, ask_at: now, addresses: Vec::new() }
    }

    /// Where the next attempt goes, if it is due: first to where the path went before, then by turns to another address.
    fn turn(&mut self, rtt: Option<Duration>, now: Instant) -> Option<SocketAddr> {
        if now < self.next_turn {
            return None;
        }
        if self.turns % 2 == 1 {
            let here = self.addresses.iter().position(|&address| address == self.remote);
            let next = here.map_or(0, |here| here + 1);
            let next = self.addresses.get(next).or(self.addresses.first());
            self.remote = next.copied().unwrap_or(self.remote);
        }
        self.wait(rtt, now);
        self.turns += 1;
        Some(self.remote)
    }

    fn wait(&mut self, rtt: Option<Duration>, now: Instant) {
        let again = WAITS.len() - 2;
        let nth = if self.turns < WAITS.len() { self.turns } else { 2 + (self.turns - 2) % again };
        let least = rtt.unwrap_or_default() * LEAST_ROUND_TRIPS;
        self.next_turn = now + WAITS[nth].max(least);
    }

    /// Its endpoint has these addresses. Where the path should go, if that is news. Otherwise they take turns: the peer may
    /// have moved, and its name not yet.
    fn learn(&mut self, mut addresses: Vec<SocketAddr>, now: Instant) -> Option<SocketAddr> {
        let is_as_ever = self.addresses.is_empty() && addresses.contains(&self.origin);
        let is_news = |address: &&SocketAddr| {
            !is_as_ever && **address != self.remote && !self.addresses.contains(address)
        };
        let is_like = |address: &&SocketAddr| address.is_ipv4() == self.remote.is_ipv4();
        let mut news = addresses.iter().filter(is_news);
        let next = news.clone().find(is_like).or(news.next()).copied();
        if !addresses.is_empty() {
            addresses.extend((!addresses.contains(&self.origin)).then_some(self.origin));
            self.addresses = addresses;
        }
        self.remote = next?;
        self.turns = 1;
        self.wait(None, now);
        next
    }

    /// Whether its name should be asked for now.
    fn asks(&mut self, now: Instant) -> bool {
        let is_due = self.ask_at <= now;
        if is_due {
            self.ask_at = now + ASK_INTERVAL;
        }
        is_due
    }
}

impl Control {
    /// Looks at the paths that are silent, and tries what is due.
    pub(super) async fn revive(&mut self) -> Result<(), DaemonError> {
        let silent = self.plane.call(|plane| plane.site.silent_paths()).await?;
        let now = Instant::now();
        let are_silent: BTreeSet<_> = silent.iter().map(|path| (path.peer, path.path)).collect();
        let ended = self.revivals.trials.extract_if(.., |id, _| !are_silent.contains(id));
        for ((peer, path), _) in ended.collect::<Vec<_>>() {
            self.settle(peer, path).await?;
        }
        for silent in silent {
            let Some(path) = self.peers.path_mut(silent.peer, silent.path) else { continue };
            if path.is_in_tunnel() || path.is_in_stream() {
                continue;
            }
            let endpoint = direct_endpoint(path).cloned();
            let remote = silent.address.remote;
            let trials = &mut self.revivals.trials;
            let trial = trials.entry((silent.peer, silent.path)).or_insert_with(|| Trial::new(remote, now));
            trial.remote = remote;
            if let Some(endpoint) = endpoint.filter(|_| trial.asks(now)) {
                match endpoint.socket_addr() {
                    Some(address) => self.tell_silent_paths(&endpoint, &[address]).await?,
                    None => self.names.ask(&endpoint, &mut self.tasks),
                }
            }
            self.take_turn(&silent, now).await?;
        }
        Ok(())
    }

    async fn take_turn(&mut self, silent: &SilentPath, now: Instant) -> Result<(), DaemonError> {
        let Some(trial) = self.revivals.trials.get_mut(&(silent.peer, silent.path)) else { return Ok(()) };
        let (is_first, before) = (trial.turns == 0, trial.remote);
        let is_from_home = trial.turns % 2 == 1;
        let Some(remote) = trial.turn(silent.rtt, now) else { return Ok(()) };
        if self
            .peers
            .path_mut(silent.peer, silent.path)
            .is_some_and(|path| lacks_address(&path.settings, remote))
        {
            return Ok(());
        }
        if let Some(path) = self.peers.path_mut(silent.peer, silent.path).filter(|_| is_first) {
            let path = path.settings.name.as_str();
            tracing::info!(path, %remote, "no answer: trying other local ports and addresses");
        }
        self.lead_to((silent.peer, silent.path), remote, is_from_home).await?;
        if remote == before { Ok(()) } else { self.dial_unless_connected(silent.peer).await }
    }

    /// An endpoint has these addresses; none if nobody says.
    pub(super) async fn tell_silent_paths(
        &mut self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
    ) -> Result<(), DaemonError> {
        self.lead_elsewhere(endpoint, addresses).await?;
        let now = Instant::now();
        let mut moved = BTreeSet::new();
        for (peer, path) in self.revivals.trials.keys().copied().collect::<Vec<_>>() {
            let Some(open) =
                self.peers.path_mut(peer, path).filter(|open| direct_endpoint(open) == Some(endpoint))
            else {
                continue;
            };
            let (name, usable) = (open.settings.name.clone(), usable(&open.settings, addresses));
            let Some(trial) = self.revivals.trials.get_mut(&(peer, path)) else { continue };
            let Some(remote) = trial.learn(usable, now) else { continue };
            tracing::info!(path = %name, %endpoint, %remote, "the endpoint of a silent path has another address");
            self.lead_to((peer, path), remote, false).await?;
            moved.insert(peer);
        }
        for peer in moved {
            self.dial_anew(peer).await?;
        }
        Ok(())
    }

    /// The peer was heard at another address on a path of this site: connections lead there, too.
    pub(super) async fn on_moved(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        if self.peers.path_mut(peer, path).is_none() {
            return Ok(());
        }
        let address = self.plane.call(move |plane| plane.site.path_address(peer, path)).await?;
        if let (Some(address), Some(open)) = (address, self.peers.path_mut(peer, path)) {
            let left = Some(open.socket).filter(|&left| left != address.socket && left != open.home);
            open.note_address(address);
            self.close_ports(left).await?;
        }
        Ok(())
    }

    /// A path answers.
    pub(super) async fn on_answer(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        match self.revivals.trials.remove(&(peer, path)) {
            Some(_) => self.settle(peer, path).await,
            None => Ok(()),
        }
    }

    /// A path is not silent any more: the sockets that it does without are closed.
    async fn settle(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        self.on_moved(peer, path).await?;
        let Some(open) = self.peers.path_mut(peer, path) else { return Ok(()) };
        let left = (open.home != open.socket && open.home != LISTEN_SOCKET).then_some(open.home);
        open.home = open.socket;
        self.close_ports(left).await
    }

    async fn close_ports(&mut self, left: Option<SocketId>) -> Result<(), DaemonError> {
        let Some(left) = left.filter(|&left| left != LISTEN_SOCKET) else { return Ok(()) };
        self.plane.post(move |plane| plane.close_port(left)).await
    }

    /// Addresses of this machine come and go. Peers that have called at one that is gone are answered from another.
    pub(super) async fn look_at_called_addresses(&mut self) -> Result<(), DaemonError> {
        let called = self.plane.call(|plane| plane.site.called_addresses()).await?;
        for gone in called.into_iter().filter(|&address| !is_local(address)) {
            self.revivals.gone.note(gone, ());
            self.plane.post(move |plane| plane.site.handle_address_gone(gone, Instant::now())).await?;
        }
        self.log_gone_addresses();
        Ok(())
    }

    /// Says which addresses are gone, once a second.
    pub(super) fn log_gone_addresses(&mut self) {
        let gone = self.revivals.gone.due(Instant::now());
        if !gone.is_empty() {
            let address = listed(gone.keys());
            tracing::info!(address, "the listening address was removed: answering peers from another one");
        }
    }

    /// The ways to the other addresses of what silent paths of a peer lead to.
    pub(super) fn other_routes(&self, peer: usize) -> impl Iterator<Item = Route> {
        let peer = &self.peers[peer];
        peer.paths.iter().flat_map(|path| {
            let trial = self.revivals.trials.get(&(peer.id, path.id));
            let to = trial.into_iter().flat_map(|trial| &trial.addresses);
            to.map(|&address| Route { to: Goal::Address(address), ..path.route() })
        })
    }

    /// Leads a path to this address, from a local port that it had not before, or from the one at which it last answered. That
    /// one listens on: a peer that has moved may still be heard there.
    async fn lead_to(
        &mut self,
        (peer, path): (PeerId, PathId),
        remote: SocketAddr,
        is_from_home: bool,
    ) -> Result<(), DaemonError> {
        let fresh = self.sockets.number();
        let Some(open) = self.peers.path_mut(peer, path) else { return Ok(()) };
        let (before, home) = (open.socket, open.home);
        let is_from_home = is_from_home && open.remote.is_ipv4() == remote.is_ipv4();
        let socket = if is_from_home { home } else { fresh };
        open.lead_to(remote, socket);
        let bind = open.bind().filter(|_| !is_from_home);
        let left = Some(before).filter(|&before| before != home && before != socket);
        self.plane
            .post(move |plane| {
                let bound = bind.map_or(Ok(()), |bind| bind_port(plane, socket, &bind));
                let (address, now) = (PathAddress { socket, local_ip: None, remote }, Instant::now());
                // A path that was removed meanwhile needs no address.
                if let Some(mut path) = plane.path(peer, path) {
                    path.rebind(address, now);
                }
                match bound {
                    // It may have rested.
                    Ok(()) => plane.site.handle_link(socket, true, now),
                    Err(error) => {
                        tracing::debug!(
                            error = crate::error_chain(&error),
                            "no other port for a silent path"
                        );
                    }
                }
            })
            .await?;
        self.close_ports(left).await
    }

    /// Asks where a path could lead whose interface has no address for where it leads: to another of its peer's addresses.
    pub(super) fn ask_for_another(&mut self, (peer, path): (PeerId, PathId)) {
        let endpoint = self.peers.path_mut(peer, path).and_then(|open| direct_endpoint(open).cloned());
        if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.socket_addr().is_none()) {
            self.names.ask(&endpoint, &mut self.tasks);
        }
    }

    /// Leads paths whose interfaces have no address for where they lead to the first of these for which they have one.
    async fn lead_elsewhere(
        &mut self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
    ) -> Result<(), DaemonError> {
        let mut led = Vec::new();
        for peer in self.peers.iter() {
            let rest = |open: &&OpenPath| open.has_no_address && !open.is_idle;
            for open in peer.paths.iter().filter(rest).filter(|open| direct_endpoint(open) == Some(endpoint))
            {
                let has_source = |remote: &&SocketAddr| has_source(&open.settings, **remote);
                led.extend(addresses.iter().find(has_source).map(|remote| ((peer.id, open.id), *remote)));
            }
        }
        for ((peer, path), remote) in led {
            if let Some(open) = self.peers.path_mut(peer, path) {
                open.has_no_address = false;
                let path = open.settings.name.as_str();
                tracing::info!(path, %remote, "no source address for the path's destination: using another destination");
            }
            self.revivals.trials.insert((peer, path), Trial::new(remote, Instant::now()));
            self.lead_to((peer, path), remote, false).await?;
            self.dial_unless_connected(peer).await?;
        }
        Ok(())
    }

    async fn dial_unless_connected(&mut self, peer: PeerId) -> Result<(), DaemonError> {
        let is_connected = self.plane.call(move |plane| {
            plane.site.status(peer).is_some_and(|status| status.connected_since.is_some())
        });
        if is_connected.await? { Ok(()) } else { self.dial_anew(peer).await }
    }
}

/// The endpoint of a path that leads straight to it.
fn direct_endpoint(path: &OpenPath) -> Option<&Endpoint> {
    path.settings.endpoint.as_ref().filter(|_| path.keeper.is_none())
}

/// Those of the addresses to which a path with these settings has a route; all that it could have one to, if none has.
fn usable(settings: &PathSettings, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let local = settings.address.map(|address| address.get());
    let may_reach = |address: &&SocketAddr| local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
    let all: Vec<_> = addresses.iter().filter(may_reach).copied().collect();
    let reached: Vec<_> = all.iter().filter(|address| has_source(settings, **address)).copied().collect();
    if reached.is_empty() { all } else { reached }
}

/// Whether there is a way to the address, and an address to send from.
fn has_source(settings: &PathSettings, remote: SocketAddr) -> bool {
    source_address(local_end(settings).interface.as_deref(), remote).is_ok()
}

/// Whether an address is this machine's, as far as can be told.
fn is_local(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// The times, in milliseconds, and the targets of the attempts in the first `seconds`, as they are looked for each second.
    fn attempts(trial: &mut Trial, rtt: Option<Duration>, start: Instant, seconds: u64) -> Vec<(u64, u16)> {
        let looks = (0..=seconds).map(|second| (second, start + Duration::from_secs(second)));
        looks.filter_map(|(second, now)| Some((second, trial.turn(rtt, now)?.port()))).collect()
    }

    #[test]
    fn ports_and_addresses_take_turns_and_each_has_its_time() {
        let start = Instant::now();
        let mut trial = Trial::new(address("192.0.2.1:1"), start);
        assert_eq!(attempts(&mut trial, None, start, 4), [(1, 1), (3, 1)], "there is one address");
        let mut trial = Trial::new(address("192.0.2.1:1"), start);
        trial.learn(vec![address("192.0.2.1:1"), address("[2001:db8::2]:2"), address("192.0.2.3:3")], start);
        let turns = attempts(&mut trial, None, start, 60);
        assert_eq!(turns[..5], [(1, 1), (3, 2), (5, 2), (9, 3), (13, 3)]);
        assert!(turns[5..].iter().any(|turn| turn.1 == 1), "all come round: {turns:?}");
        let longest = turns.windows(2).map(|two| two[1].0 - two[0].0).max();
        assert_eq!(longest, Some(10), "a path with slow answers is given the time now and then");
    }

    #[test]
    fn a_slow_path_is_given_its_round_trips() {
        let start = Instant::now();
        let mut trial = Trial::new(address("192.0.2.1:1"), start);
        let turns = attempts(&mut trial, Some(Duration::from_secs(3)), start, 20);
        assert_eq!(turns, [(1, 1), (10, 1), (19, 1)]);
    }

    #[test]
    fn a_name_with_another_address_is_followed_at_once_and_in_its_own_family_first() {
        let start = Instant::now();
        let mut trial = Trial::new(address("192.0.2.1:1"), start);
        let (old, new, other) = (address("192.0.2.1:1"), address("192.0.2.2:1"), address("[2001:db8::2]:1"));
        assert_eq!(trial.learn(Vec::new(), start), None, "nobody knows");
        assert_eq!(trial.learn(vec![other, old], start), None, "there is no news");
        assert_eq!(trial.learn(vec![other, new], start), Some(new));
        assert_eq!(trial.learn(vec![other, new], start), None);
        let mut trial = Trial::new(old, start);
        assert_eq!(trial.learn(vec![other], start), Some(other));
    }

    /// A peer that has moved is heard before its name is changed.
    #[test]
    fn where_the_peer_was_last_heard_is_tried_too_whatever_its_name_says() {
        let start = Instant::now();
        let (heard, named) = (address("192.0.2.1:1"), address("192.0.2.2:2"));
        let mut trial = Trial::new(heard, start);
        assert_eq!(trial.learn(vec![named], start), Some(named));
        assert_eq!(attempts(&mut trial, None, start, 8), [(2, 1), (4, 1), (8, 2)]);
        assert_eq!(
            trial.learn(vec![named], start),
            None,
            "and is not given up each time that it is asked for"
        );
    }

    #[test]
    fn names_are_not_asked_for_all_the_time() {
        let start = Instant::now();
        let mut trial = Trial::new(address("192.0.2.1:1"), start);
        let times = (0..=60).filter(|tenth| trial.asks(start + Duration::from_millis(100 * tenth)));
        assert_eq!(times.collect::<Vec<_>>(), [0, 19, 38, 57]);
    }
}
