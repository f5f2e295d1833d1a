//! A psmcd that does at once whatever it is told.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use psmc_api::{RegisterSpec, RegistrationStatus, Request, Response, Server, Status};
use serde_json::json;
use tokio::sync::oneshot;

/// What it was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) relays: Vec<RegisterSpec>,
    pub(crate) grants: Vec<String>,
    pub(crate) peers: Vec<String>,
    pub(crate) register_sets: usize,
    /// Whether half of what it sends on its direct path is lost.
    pub(crate) loses: bool,
    sent: u64,
    lost: u64,
}

pub(crate) struct Gateway {
    told: Arc<Mutex<Told>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    pub(crate) fn start(socket: &Path) -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let (stop, stopped) = oneshot::channel();
        let (socket, shared) = (socket.to_owned(), told.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut server = Server::bind(&socket).unwrap();
                let serve = async {
                    while let Some(call) = server.next_call().await {
                        let response = answer(&mut shared.lock().unwrap(), call.request());
                        call.respond(response);
                    }
                };
                tokio::select! { () = serve => {}, _ = stopped => {} }
            });
        });
        Self { told, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn lose(&self, loses: bool) {
        self.told.lock().unwrap().loses = loses;
    }

    pub(crate) fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        // If it has panicked, the test has seen that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(told: &mut Told, request: &Request) -> Response {
    match request {
        Request::Status => Response::Status(Box::new(status(told))),
        Request::RegisterSet { relays, grants } => {
            (told.relays, told.grants) = (relays.clone(), grants.clone());
            told.register_sets += 1;
            Response::Ok
        }
        Request::RegisterList => Response::Registrations(told.relays.iter().map(registered).collect()),
        Request::PeerAdd(peer) => {
            told.peers.push(peer.name.clone());
            Response::Ok
        }
        Request::PeerRemove { name } => {
            told.peers.retain(|peer| peer != name);
            Response::Ok
        }
        other @ (Request::Reload
        | Request::PathList { .. }
        | Request::PathAdd { .. }
        | Request::PathRemove { .. }
        | Request::PathSet { .. }
        | Request::PeerSet { .. }
        | Request::PeerWait { .. }
        | Request::RoutesSet { .. }
        | Request::RoutesClear { .. }
        | Request::RoutesList { .. }
        | Request::Additions) => Response::error(format!("{other:?} is nothing for a guard")),
    }
}

fn registered(relay: &RegisterSpec) -> RegistrationStatus {
    // What psmcd's own file calls a relay is nothing to the guard.
    serde_json::from_value(json!({ "relay": "own", "public_key": relay.public_key, "registered": true }))
        .unwrap()
}

/// A daemon with a direct path, on which it sends a hundred datagrams between two looks.
fn status(told: &mut Told) -> Status {
    told.sent += 100;
    told.lost += if told.loses { 50 } else { 0 };
    let site = json!({
        "name": "hq", "public_key": "k", "interface": "psmc0", "addresses": [], "listen": "nothing",
        "uptime_s": 1.0, "version": "0.1.0",
    });
    let path = json!({
        "name": "direct", "id": 1, "state": "active", "weight": 1, "loss_pct": 0.0, "tx_bytes": 0, "rx_bytes": 0,
        "tx_packets": told.sent, "rx_packets": 0, "lost_packets": told.lost,
    });
    let peer = json!({
        "name": "ann", "public_key": "k", "state": "connected", "control": { "connected": true, "since_s": 1.0 },
        "allowed_ips": [], "tx_bytes": 0, "rx_bytes": 0, "tx_packets": 0, "rx_packets": 0, "drops": {},
        "paths": [path],
    });
    serde_json::from_value(json!({ "site": site, "peers": [peer], "counters": {} })).unwrap()
}
