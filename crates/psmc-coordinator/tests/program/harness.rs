//! A bed for tests: a namespace with relays, a name server and a coordinator.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::Identity;
use psmc_routes::update::{Patience, Target, TsigKey, published};
use psmc_routes::{AltRecord, RouteSet};
use psmc_service::clock::unix_seconds;
use psmc_signal::connection::{Coordinator as Address, Event, Link, Options};
use psmc_signal::{Alert, AlertKind, Measured, Message, Role};
use psmc_testbed::netns::Namespace;
use serde_json::Value;
use tempfile::TempDir;

use crate::parts::{
    KEY, Place, Running, SERVICE, coordinator_key, relay_key, service_key, spawn, start_dns, start_relay,
    write, write_keys,
};
use psmc_testbed::programs::program;

/// For what takes no time to speak of, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The network of the relays' addresses.
const RELAYS: &str = "127.0.1";

/// All of it. `relays` are by number; one that was killed is `None`.
pub(crate) struct Bed {
    pub(crate) relays: Vec<Option<Running>>,
    _dns: Running,
    pub(crate) coordinator: Option<Running>,
    pub(crate) directory: TempDir,
    pub(crate) namespace: Namespace,
}

impl Bed {
    /// Relays, a name server and a coordinator, whose service has these further settings, and whose file this at its end.
    pub(crate) fn new(relays: usize, service: &str, more: &str) -> Self {
        let namespace = Namespace::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        write_keys(path);
        let place = Place {
            name: "co1",
            listen: "127.0.0.1:5117",
            store: "sqlite:state.db",
            relays: RELAYS,
            dns: "127.0.0.1",
        };
        write(path, "co.toml", &place.file(path, relays, service, more));
        let dns = start_dns(&namespace, path, &["127.0.0.1"]);
        let relays =
            (0..relays).map(|number| Some(start_relay(&namespace, path, place.relays, number))).collect();
        let mut bed = Self { relays, _dns: dns, coordinator: None, directory, namespace };
        bed.start_coordinator();
        bed
    }

    pub(crate) fn start_coordinator(&mut self) {
        let running =
            spawn(&self.namespace, self.directory.path(), "psmc-coordinator", &["--config", "co.toml"]);
        self.coordinator = Some(running);
        self.wait_for("the coordinator", |status| status.is_object());
    }

    pub(crate) fn kill_coordinator(&mut self) {
        self.coordinator.take().unwrap().kill();
    }

    pub(crate) fn kill_relay(&mut self, number: usize) {
        self.relays[number].take().unwrap().kill();
    }

    pub(crate) fn start_relay(&mut self, number: usize) {
        self.relays[number] = Some(start_relay(&self.namespace, self.directory.path(), RELAYS, number));
    }

    pub(crate) fn relay_answers(&self, number: usize) -> bool {
        psmc_relay::status::ask(&self.directory.path().join(format!("relay{number}.sock"))).is_ok()
    }

    /// Does this to the coordinator's file.
    pub(crate) fn change_file(&self, change: impl Fn(String) -> String) {
        let path = self.directory.path().join("co.toml");
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// What `psmc-coordinator` says.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Output {
        tool(&self.directory.path().join("co.sock"), arguments)
    }

    /// The status; null while the coordinator does not answer.
    pub(crate) fn status(&self) -> Value {
        json(&self.tool(&["status", "--json"]))
    }

    /// Waits until the status is as `is_so` says.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            let log = fs::read_to_string(self.directory.path().join("psmc-coordinator.log")).unwrap();
            assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {status:#}\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until so many relays answer.
    pub(crate) fn wait_for_relays(&self, count: usize) {
        self.wait_for("relays", |status| {
            let relays = status["relays"].as_array();
            relays.is_some_and(|all| all.iter().filter(|relay| relay["alive"] == true).count() == count)
        });
    }

    /// What a relay says of itself.
    pub(crate) fn relay_status(&self, number: usize) -> psmc_relay::status::Status {
        relay_status(self.directory.path(), number)
    }

    /// Somebody who dials the coordinator in the namespace.
    pub(crate) fn dial(&self, role: Role, key: &PrivateKey) -> Caller {
        Caller::dial(&self.namespace, role, key, &["127.0.0.1:5117"])
    }

    /// The open routes that the name server has, if the service has signed them.
    pub(crate) fn routes_in_dns(&self) -> Option<RouteSet> {
        routes_in_dns(&self.namespace)
    }

    pub(crate) fn block_on<F: Future<Output: Send> + Send>(&self, future: F) -> F::Output {
        self.namespace.run(|| runtime().block_on(future))
    }
}

/// What `psmc-coordinator` says of the one with that socket.
pub(crate) fn tool(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program("psmc-coordinator"));
    command.args(arguments).arg("--socket").arg(socket);
    command.output().unwrap()
}

/// What was said in JSON; null if nothing was.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// What a relay says of itself.
pub(crate) fn relay_status(path: &Path, number: usize) -> psmc_relay::status::Status {
    psmc_relay::status::ask(&path.join(format!("relay{number}.sock"))).unwrap()
}

/// The open routes that the name server in a namespace has, if the service has signed them.
pub(crate) fn routes_in_dns(namespace: &Namespace) -> Option<RouteSet> {
    let target = Target {
        zone: name("example.com."),
        key: KEY.parse::<TsigKey>().unwrap(),
        servers: vec!["127.0.0.1".parse().unwrap()],
        patience: Patience { attempts: 1, timeout: PATIENCE },
    };
    let service = name("www.example.com.");
    let found = namespace.run(|| runtime().block_on(published(&target, &service)));
    let records = found.ok()?.0;
    let mut sets = records.iter().filter_map(|data| match AltRecord::of_rdata(&service, data)? {
        Ok(AltRecord::Open(signed)) => {
            Some(signed.verify(&service_key().public(), unix_seconds(), 0).unwrap().clone())
        }
        Ok(AltRecord::Sealed(_)) | Err(_) => None,
    });
    sets.next()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A guard or a client: a thread in the namespace with a [`Link`].
pub(crate) struct Caller {
    events: std::sync::mpsc::Receiver<Event>,
    say: tokio::sync::mpsc::Sender<Message>,
}

impl Caller {
    /// Somebody who dials one of these coordinators, which have one key.
    pub(crate) fn dial(namespace: &Namespace, role: Role, key: &PrivateKey, coordinators: &[&str]) -> Self {
        let (to_events, events) = std::sync::mpsc::channel();
        let (say, mut said) = tokio::sync::mpsc::channel::<Message>(64);
        let options = Options {
            identity: Identity::new(key),
            role,
            services: vec![SERVICE.to_owned()],
            coordinators: coordinators
                .iter()
                .map(|text| Address {
                    address: text.parse().unwrap(),
                    public_key: coordinator_key().public(),
                })
                .collect(),
            interface: None,
            local: None,
        };
        let work = async move {
            let mut link = Link::open(options);
            loop {
                tokio::select! {
                    event = link.next() => {
                        if to_events.send(event).is_err() {
                            return;
                        }
                    }
                    message = said.recv() => match message {
                        Some(message) => link.send(message).unwrap(),
                        None => return,
                    }
                }
            }
        };
        let runtime = runtime();
        let namespace = namespace.fd().try_clone_to_owned().unwrap();
        std::thread::spawn(move || {
            nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            runtime.block_on(work);
        });
        Self { events, say }
    }

    pub(crate) fn say(&self, message: Message) {
        self.say.blocking_send(message).unwrap();
    }

    /// The next event.
    pub(crate) fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("something happens")
    }

    /// The next event, if there is one in time.
    pub(crate) fn event_within(&self, time: Duration) -> Option<Event> {
        self.events.recv_timeout(time).ok()
    }

    /// The next message for which `pick` has a use; others are passed over.
    pub(crate) fn hear<T>(&self, pick: impl Fn(Message) -> Option<T>) -> T {
        loop {
            if let Event::Message(message) = self.event()
                && let Some(picked) = pick(message)
            {
                return picked;
            }
        }
    }

    /// Waits for the connection.
    pub(crate) fn up(self) -> Self {
        while !matches!(self.event(), Event::Up { .. }) {}
        self
    }
}

/// An alert for the service.
pub(crate) fn alert(id: &str) -> Message {
    Message::Alert(Alert {
        id: id.to_owned(),
        service: SERVICE.to_owned(),
        target: None,
        kind: AlertKind::Rate,
        measured: Measured { packets: Some(1e6), ..Measured::default() },
        usual: Measured::default(),
    })
}

/// The mitigation that is told next, with relays; the guard says that it is registered at all of them.
pub(crate) fn register(guard: &Caller) -> psmc_signal::Mitigation {
    let mitigation = guard.hear(|message| {
        let Message::Mitigation(mitigation) = message else { return None };
        (!mitigation.relays.is_empty()).then_some(mitigation)
    });
    let relays = mitigation.relays.iter().map(|relay| relay.public_key.clone()).collect();
    guard.say(Message::Ready { id: mitigation.id, relays, is_last: true });
    mitigation
}

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// The addresses of a set's relays, by number.
pub(crate) fn numbers(set: &RouteSet) -> Vec<usize> {
    let number = |key: &PublicKey| (0..16).find(|number| relay_key(*number).public() == *key).unwrap();
    let mut numbers: Vec<usize> = set.relays().iter().map(|relay| number(&relay.key)).collect();
    numbers.sort_unstable();
    numbers
}
