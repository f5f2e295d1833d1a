//! A resolver in a namespace, and a psmcd that is none.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_resolver::config::Config;
use psmc_resolver::daemon::serve;
use psmc_resolver::status::{Status, ask};
use psmc_resolver::tunnels::{FailedRelay, Tunnel, TunnelError, TunnelRoutes, TunnelState, Tunnels, Until};
use psmc_testbed::netns::Namespace;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use crate::harness::{dig, service_key, write};

/// Where the resolver listens.
pub(crate) const RESOLVER: &str = "127.0.0.54";

/// A psmcd that notes what it is given, and says of its peer what it is told to say.
#[derive(Debug, Default)]
pub(crate) struct Psmcd(Mutex<Peer>);

#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) state: TunnelState,
    /// Whether routes are refused.
    pub(crate) refuses: bool,
    /// Whether a path comes up as soon as there are routes.
    pub(crate) comes_up: bool,
    pub(crate) given: Vec<TunnelRoutes>,
    pub(crate) cleared: usize,
    /// The relays that fail, by their keys.
    pub(crate) failed: Vec<String>,
}

impl Psmcd {
    pub(crate) fn peer(&self) -> MutexGuard<'_, Peer> {
        self.0.lock().unwrap()
    }

    /// The serial numbers of the routes that it was given.
    pub(crate) fn serials(&self) -> Vec<u64> {
        self.peer().given.iter().map(|routes| routes.serial).collect()
    }
}

impl Tunnels for Psmcd {
    fn set(&self, tunnel: &Tunnel, routes: &TunnelRoutes) -> Result<(), TunnelError> {
        assert_eq!(tunnel.peer.as_str(), "hq");
        let mut peer = self.peer();
        if peer.refuses || peer.state.serial.is_some_and(|serial| routes.serial < serial) {
            return Err(TunnelError("refused".to_owned()));
        }
        (peer.state.serial, peer.state.expires_s) = (Some(routes.serial), Some(routes.expires_s));
        if peer.comes_up {
            (peer.state.usable, peer.state.learned_up) = (true, true);
        }
        peer.given.push(routes.clone());
        Ok(())
    }

    fn clear(&self, _: &Tunnel) -> Result<(), TunnelError> {
        let mut peer = self.peer();
        (peer.state.expires_s, peer.state.learned_up) = (None, false);
        peer.cleared += 1;
        Ok(())
    }

    fn failed(&self, _: &Tunnel) -> Result<Vec<FailedRelay>, TunnelError> {
        let failed = |key: &String| FailedRelay { key: key.clone(), reason: "silent".to_owned() };
        Ok(self.peer().failed.iter().map(failed).collect())
    }

    fn wait(&self, _: &Tunnel, _: Until, patience: Duration) -> Result<TunnelState, TunnelError> {
        // Whatever was waited for, it is so after a moment.
        sleep(patience.min(Duration::from_millis(10)));
        Ok(self.peer().state)
    }
}

/// A resolver that runs until it is dropped.
pub(crate) struct Resolving {
    namespace: Arc<Namespace>,
    stop: Option<oneshot::Sender<()>>,
    configs: mpsc::Sender<Config>,
    thread: Option<JoinHandle<()>>,
    pub(crate) psmcd: Arc<Psmcd>,
    pub(crate) directory: Arc<TempDir>,
}

impl Resolving {
    /// Starts one with these upstream servers and further lines.
    pub(crate) fn start(namespace: &Arc<Namespace>, upstream: &str, more: &str) -> Self {
        Self::start_in(namespace, Arc::new(tempfile::tempdir().unwrap()), upstream, more)
    }

    /// The same in a directory that may have the routes of an earlier one.
    pub(crate) fn start_in(
        namespace: &Arc<Namespace>,
        directory: Arc<TempDir>,
        upstream: &str,
        more: &str,
    ) -> Self {
        let path = directory.path();
        write(path, "ca.pem", include_str!("../data/ca.pem"));
        write(path, "group.key", &PrivateKey::from_seed([9; 32]).to_base64());
        let config = configuration(path, upstream, more);
        let psmcd = Arc::new(Psmcd::default());
        let (stop, stopped) = oneshot::channel();
        let (configs, read) = mpsc::channel(1);
        let (inside, tunnels) = (namespace.clone(), psmcd.clone());
        let thread = spawn(move || {
            let served = inside.block_on(|| serve(config, tunnels, async { drop(stopped.await) }, read));
            served.unwrap().unwrap();
        });
        let (namespace, stop, thread) = (namespace.clone(), Some(stop), Some(thread));
        let resolving = Self { namespace, stop, configs, thread, psmcd, directory };
        while ask(Path::new(&socket(resolving.directory.path()))).is_err() {
            assert!(!resolving.thread.as_ref().unwrap().is_finished(), "the resolver has ended");
            sleep(Duration::from_millis(10));
        }
        resolving
    }

    /// Gives it another configuration, as at SIGHUP.
    pub(crate) fn reload(&self, upstream: &str, more: &str) {
        let config = configuration(self.directory.path(), upstream, more);
        self.configs.blocking_send(config).unwrap();
    }

    pub(crate) fn status(&self) -> Status {
        ask(Path::new(&socket(self.directory.path()))).unwrap()
    }

    /// What it answers, in short.
    pub(crate) fn short(&self, words: &[&str]) -> String {
        self.dig(&[&["+short"], words].concat())
    }

    /// What `dig` prints of its answer.
    pub(crate) fn dig(&self, words: &[&str]) -> String {
        dig(&self.namespace, &[&[&format!("@{RESOLVER}"), "+tries=1", "+time=20"], words].concat())
    }
}

impl Drop for Resolving {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
        // A program that another test is about to start has copies of this process's sockets for a moment.
        let is_free = || self.namespace.run(|| UdpSocket::bind((RESOLVER, 53)).is_ok());
        while !is_free() {
            sleep(Duration::from_millis(1));
        }
    }
}

/// That of a resolver in a directory.
fn configuration(path: &Path, upstream: &str, more: &str) -> Config {
    let text = format!(
        "[resolver]\nname = \"test\"\nlisten = [\"{RESOLVER}\", \"[::1]:53\"]\nupstream = [{upstream}]\nca_file = \"ca.pem\"\n\
         state_directory = \"state\"\ncontrol_socket = \"{}\"\n{more}",
        socket(path)
    );
    Config::parse(&text, &path.join("resolver.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// The service www.example.com of the harness, and further lines.
pub(crate) fn service(more: &str) -> String {
    let key = service_key().public();
    format!(
        "[[service]]\nname = \"www.example.com\"\npublic_key = \"{key}\"\npeer = \"hq\"\nsocket = \"/run/none.sock\"\n{more}"
    )
}

fn socket(directory: &Path) -> String {
    directory.join("sock").display().to_string()
}
