//! Those who only play their parts: a coordinator that says what a test wants, and writes down what it hears, and a psmcd
//! that does at once whatever it is told.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc as sync};
use std::thread::{self, JoinHandle};

use psmc_api::{RegisterSpec, RegistrationStatus, Request, Response, Server, Status};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Identity};
use psmc_signal::connection::Greeting;
use psmc_signal::{ALPN, Message};
use psmc_testbed::netns::Namespace;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::world::PATIENCE;

pub(crate) struct Coordinator {
    pub(crate) address: SocketAddr,
    pub(crate) key: PublicKey,
    say: Option<mpsc::Sender<Message>>,
    heard: sync::Receiver<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Coordinator {
    /// Takes one guard after the other, at a port of the loopback interface. Each alert and each end of one is noted.
    pub(crate) fn start(namespace: &Namespace, guard: PublicKey) -> Self {
        let identity = Identity::new(&PrivateKey::generate());
        let key = identity.public();
        let (say, to_say) = mpsc::channel(16);
        let (heard_to, heard) = sync::channel();
        let (address_to, address) = sync::channel();
        let acceptor = Acceptor::for_protocol(&identity, [guard].into_iter().collect::<AllowedKeys>(), ALPN);
        // The thread belongs to the namespace for good.
        let fd = namespace.fd().try_clone_to_owned().unwrap();
        let thread = thread::spawn(move || {
            nix::sched::setns(&fd, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(&acceptor, &address_to, to_say, &heard_to));
        });
        let address = address.recv().unwrap();
        Self { address, key, say: Some(say), heard, thread: Some(thread) }
    }

    pub(crate) fn say(&self, message: Message) {
        self.say.as_ref().unwrap().blocking_send(message).unwrap();
    }

    /// The next message of which `choose` makes something; others are passed over.
    pub(crate) fn hear<T>(&self, what: &str, mut choose: impl FnMut(Message) -> Option<T>) -> T {
        loop {
            let message =
                self.heard.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} was not heard"));
            if let Some(found) = choose(message) {
                return found;
            }
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.say = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

async fn serve(
    acceptor: &Acceptor,
    address: &sync::Sender<SocketAddr>,
    mut to_say: mpsc::Receiver<Message>,
    heard: &sync::Sender<Message>,
) {
    let listener = listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    address.send(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let secured = acceptor.accept(stream).await.unwrap();
    let channel = Greeting::receive(secured.stream).await.unwrap().welcome().await.unwrap();
    let (out, mut outgoing) = mpsc::channel(16);
    let (incoming, mut received) = mpsc::channel(16);
    let carry = channel.run(&mut outgoing, &incoming);
    let talk = async {
        loop {
            tokio::select! {
                message = to_say.recv() => match message {
                    Some(message) => out.send(message).await.unwrap(),
                    None => return,
                },
                message = received.recv() => {
                    let message = message.unwrap();
                    if let Message::Alert(psmc_signal::Alert { id, .. }) | Message::Clear { id, .. } = &message {
                        out.send(Message::Noted { id: id.clone() }).await.unwrap();
                    }
                    // A test that has ended hears nothing any more.
                    let _ = heard.send(message);
                }
            }
        }
    };
    tokio::select! {
        // The guard may end first.
        _ = carry => {}
        () = talk => {}
    }
}

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
        | Request::PathQuota { .. }
        | Request::PeerSet { .. }
        | Request::PeerWait { .. }
        | Request::Ping { .. }
        | Request::Segments { .. }
        | Request::Shed(_)
        | Request::NatProbe(_)
        | Request::Sla
        | Request::Flows
        | Request::FlowPin(_)
        | Request::CaptureStart(_)
        | Request::CaptureNext
        | Request::CaptureStop
        | Request::RoutesSet { .. }
        | Request::RoutesClear { .. }
        | Request::RoutesList { .. }
        | Request::Log { .. }
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
