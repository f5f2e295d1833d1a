//! What can be asked of a daemon, as calls.

use std::path::Path;
use std::time::Duration;

use psmc_service::socket::{self, Protocol, only_socket};
use psmc_toml::{Name, RUN_DIR, SocketPath};

pub use psmc_service::socket::ClientError;

use crate::{
    Additions, Captured, Flows, PathPing, PathSegments, PeerPaths, PeerReport, PeerRoutes, PeerSpec, Psmcd,
    RegisterSpec, RegistrationStatus, ReloadReport, Request, Response, RouteSpec, ShedAnswer, ShedSpec,
    SlaStatus, Status, WaitFor,
};

/// A set of routes as a client gives it.
#[derive(Clone, Copy, Debug)]
pub struct RouteSet<'a> {
    /// The relays, the preferred one first.
    pub routes: &'a [RouteSpec],
    /// When it ends, in seconds since 1970.
    pub expires: u64,
    /// Its number.
    pub serial: u64,
    /// When its paths are used; `None` for what the configuration says.
    pub policy: Option<&'a str>,
    /// What may be shown to the relays, as `psmc grant` prints it.
    pub grants: &'a [String],
}

/// A connection to a daemon. It blocks: a tool has nothing else to do.
#[derive(Debug)]
pub struct Client(socket::Client<Psmcd>);

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        socket::Client::connect(path).map(Self)
    }

    /// Connects to the daemon of a site, by its name.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_to_site(name: &Name) -> Result<Self, ClientError> {
        Self::connect(SocketPath::of_site(name).as_path())
    }

    /// Connects to the only daemon of this machine.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_to_only_site() -> Result<Self, ClientError> {
        Self::connect(&only_socket(Psmcd::PROGRAM, Path::new(RUN_DIR))?)
    }

    /// Asks, and waits for the response.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the daemon answers with [`Response::Error`].
    pub fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.0.ask(request)
    }
}

/// All of these fail with what [`Client::ask`] fails with.
impl Client {
    /// Everything there is to know.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let Response::Status(status) = self.ask(&Request::Status)? else { return wrong() };
        Ok(*status)
    }

    /// The paths of one peer, or of all.
    pub fn paths(&mut self, peer: Option<&str>) -> Result<Vec<PeerPaths>, ClientError> {
        let request = Request::PathList { peer: peer.map(str::to_owned) };
        let Response::Paths(paths) = self.ask(&request)? else { return wrong() };
        Ok(paths)
    }

    /// Asks a peer to drop what this site cannot take, and says what the peer has answered last.
    pub fn shed(&mut self, spec: ShedSpec) -> Result<Option<ShedAnswer>, ClientError> {
        let Response::Shed(answer) = self.ask(&Request::Shed(spec))? else { return wrong() };
        Ok(answer)
    }

    /// Replaces the learned routes.
    pub fn set_routes(&mut self, peer: &str, set: RouteSet<'_>) -> Result<(), ClientError> {
        self.order(&Request::RoutesSet {
            peer: peer.to_owned(),
            routes: set.routes.to_vec(),
            expires: set.expires,
            serial: set.serial,
            policy: set.policy.map(str::to_owned),
            grants: set.grants.to_vec(),
        })
    }

    /// Ends the learned routes to a peer.
    pub fn clear_routes(&mut self, peer: &str) -> Result<(), ClientError> {
        self.order(&Request::RoutesClear { peer: peer.to_owned() })
    }

    /// The learned routes to one peer, or to all.
    pub fn routes(&mut self, peer: Option<&str>) -> Result<Vec<PeerRoutes>, ClientError> {
        let request = Request::RoutesList { peer: peer.map(str::to_owned) };
        let Response::Routes(routes) = self.ask(&request)? else { return wrong() };
        Ok(routes)
    }

    /// Waits, [`MAX_WAIT`](crate::MAX_WAIT) at most, and says how it stands with a peer by then.
    pub fn wait_for_peer(
        &mut self,
        peer: &str,
        until: WaitFor,
        time: Duration,
    ) -> Result<PeerReport, ClientError> {
        let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Response::Peer(report) =
            self.ask(&Request::PeerWait { peer: peer.to_owned(), until, timeout_ms })?
        else {
            return wrong();
        };
        Ok(report)
    }

    /// Measures the round trip of each path to a peer, once; waits so long for answers, [`MAX_WAIT`](crate::MAX_WAIT) at most.
    pub fn ping(&mut self, peer: &str, time: Duration) -> Result<Vec<PathPing>, ClientError> {
        let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Response::Ping(paths) = self.ask(&Request::Ping { peer: peer.to_owned(), timeout_ms })? else {
            return wrong();
        };
        Ok(paths)
    }

    /// What has been lost and delayed by segment, on the paths to a peer, or to all.
    pub fn segments(&mut self, peer: Option<&str>) -> Result<Vec<PathSegments>, ClientError> {
        let peer = peer.map(str::to_owned);
        let Response::Segments(paths) = self.ask(&Request::Segments { peer })? else { return wrong() };
        Ok(paths)
    }

    /// The flows that lose much, and how those are held down that heed no loss.
    pub fn flows(&mut self) -> Result<Flows, ClientError> {
        let Response::Flows(flows) = self.ask(&Request::Flows)? else { return wrong() };
        Ok(flows)
    }

    /// How what was promised to the site is kept.
    pub fn sla(&mut self) -> Result<Vec<SlaStatus>, ClientError> {
        let Response::Sla(targets) = self.ask(&Request::Sla)? else { return wrong() };
        Ok(targets)
    }

    /// The inner packets that have passed since this was last asked.
    pub fn captured(&mut self) -> Result<Captured, ClientError> {
        let Response::Captured(captured) = self.ask(&Request::CaptureNext)? else { return wrong() };
        Ok(captured)
    }

    /// Registers the site with these relays, beside those of its configuration.
    pub fn set_registrations(
        &mut self,
        relays: &[RegisterSpec],
        grants: &[String],
    ) -> Result<(), ClientError> {
        self.order(&Request::RegisterSet { relays: relays.to_vec(), grants: grants.to_vec() })
    }

    /// The relays with which the site registers.
    pub fn registrations(&mut self) -> Result<Vec<RegistrationStatus>, ClientError> {
        let Response::Registrations(relays) = self.ask(&Request::RegisterList)? else { return wrong() };
        Ok(relays)
    }

    /// Adds a peer, until the daemon ends.
    pub fn add_peer(
        &mut self,
        name: &str,
        public_key: &str,
        allowed_ips: &[String],
        endpoint: Option<&str>,
    ) -> Result<(), ClientError> {
        self.order(&Request::PeerAdd(PeerSpec {
            name: name.to_owned(),
            public_key: public_key.to_owned(),
            allowed_ips: allowed_ips.to_vec(),
            endpoint: endpoint.map(str::to_owned),
        }))
    }

    /// Removes a peer that was added while the daemon ran.
    pub fn remove_peer(&mut self, name: &str) -> Result<(), ClientError> {
        self.order(&Request::PeerRemove { name: name.to_owned() })
    }

    /// Reloads the configuration.
    pub fn reload(&mut self) -> Result<ReloadReport, ClientError> {
        let Response::Reloaded(report) = self.ask(&Request::Reload)? else { return wrong() };
        Ok(report)
    }

    /// What was added while the daemon ran.
    pub fn additions(&mut self) -> Result<Additions, ClientError> {
        let Response::Additions(additions) = self.ask(&Request::Additions)? else { return wrong() };
        Ok(additions)
    }

    /// Asks for something that has no other answer than that it is done.
    pub fn order(&mut self, request: &Request) -> Result<(), ClientError> {
        let Response::Ok = self.ask(request)? else { return wrong() };
        Ok(())
    }

    /// The same for something of which there may be more to say.
    pub fn order_noted(&mut self, request: &Request) -> Result<Option<String>, ClientError> {
        let response = self.ask(request)?;
        if let Response::Noted { note } = response {
            return Ok(Some(note));
        }
        if response == Response::Ok { Ok(None) } else { wrong() }
    }
}

fn wrong<T>() -> Result<T, ClientError> {
    Err(ClientError::WrongAnswer { program: Psmcd::PROGRAM })
}
