//! A bed for tests: a namespace with relays, a name server and a coordinator.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_dns::routes::{AltRecord, RouteSet};
use psmc_dns::update::{Patience, Target, TsigKey, published, unix_now};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::netns::Namespace;
use psmc_net::tls::Identity;
use psmc_signal::connection::{Coordinator as Address, Event, Link, Options};
use psmc_signal::{Alert, AlertKind, Measured, Message, Role};
use serde_json::Value;
use tempfile::TempDir;

use crate::programs::program;

/// For what takes no time to speak of, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What whoever raises alerts by HTTP has to show.
pub(crate) const TOKEN: &str = "0123456789abcdef";

pub(crate) const SERVICE: &str = "www.example.com";

const KEY: &str = "hmac-sha256:up:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

const ZONE: &str = "$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\nwww IN A 203.0.113.5\n";

/// Who is who.
pub(crate) fn coordinator_key() -> PrivateKey {
    PrivateKey::from_seed([1; 32])
}

pub(crate) fn service_key() -> PrivateKey {
    PrivateKey::from_seed([2; 32])
}

pub(crate) fn guard_key() -> PrivateKey {
    PrivateKey::from_seed([3; 32])
}

pub(crate) fn relay_key(number: usize) -> PrivateKey {
    PrivateKey::from_seed([10 + u8::try_from(number).unwrap(); 32])
}

pub(crate) fn client_key(name: &str) -> PrivateKey {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    PrivateKey::from_seed(seed)
}

/// The secret of the group `staff`.
pub(crate) fn group_secret() -> PrivateKey {
    PrivateKey::from_seed([5; 32])
}

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    /// As by `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

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
        write(path, "zone", ZONE);
        write(path, "up.key", KEY);
        write(path, "token", TOKEN);
        for (name, key) in
            [("co.key", coordinator_key()), ("www.key", service_key()), ("staff.key", group_secret())]
        {
            write(path, name, &key.to_base64());
        }
        write(
            path,
            "dns.toml",
            &format!(
                "[server]\nname = \"ns1\"\nlisten = [\"127.0.0.1\"]\ndatabase = \"zones.db\"\ncontrol_socket = \"{0}/dns.sock\"\n\
             [[key]]\nfile = \"up.key\"\n\
             [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\n",
                path.display()
            ),
        );
        write(path, "co.toml", &coordinator_file(path, relays, service, more));
        let dns = spawn(&namespace, path, "psmc-dns", &["serve", "dns.toml"]);
        let relays = (0..relays).map(|number| Some(start_relay(&namespace, path, number))).collect();
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

    /// What `psmc-coordinator` says.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("psmc-coordinator"));
        command.args(arguments).arg("--socket").arg(self.directory.path().join("co.sock"));
        command.output().unwrap()
    }

    /// The status; null while the coordinator does not answer.
    pub(crate) fn status(&self) -> Value {
        let output = self.tool(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
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
        psmc_relay::status::ask(&self.directory.path().join(format!("relay{number}.sock"))).unwrap()
    }

    /// Somebody who dials the coordinator in the namespace.
    pub(crate) fn dial(&self, role: Role, key: &PrivateKey) -> Caller {
        Caller::dial(&self.namespace, role, key)
    }

    /// The open routes that the name server has, if the service has signed them.
    pub(crate) fn routes_in_dns(&self) -> Option<RouteSet> {
        let target = Target {
            zone: name("example.com."),
            key: KEY.parse::<TsigKey>().unwrap(),
            servers: vec!["127.0.0.1".parse().unwrap()],
            patience: Patience { attempts: 1, timeout: PATIENCE },
        };
        let service = name("www.example.com.");
        let found = self.block_on(published(&target, &service));
        let records = found.ok()?.0;
        let mut sets = records.iter().filter_map(|data| match AltRecord::of_rdata(&service, data)? {
            Ok(AltRecord::Open(signed)) => {
                Some(signed.verify(&service_key().public(), unix_now(), 0).unwrap().clone())
            }
            Ok(AltRecord::Sealed(_)) | Err(_) => None,
        });
        sets.next()
    }

    pub(crate) fn block_on<F: Future<Output: Send> + Send>(&self, future: F) -> F::Output {
        self.namespace.run(|| runtime().block_on(future))
    }
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
    fn dial(namespace: &Namespace, role: Role, key: &PrivateKey) -> Self {
        let (to_events, events) = std::sync::mpsc::channel();
        let (say, mut said) = tokio::sync::mpsc::channel::<Message>(64);
        let options = Options {
            identity: Identity::new(key),
            role,
            services: vec![SERVICE.to_owned()],
            coordinators: vec![Address {
                address: "127.0.0.1:5117".parse().unwrap(),
                public_key: coordinator_key().public(),
            }],
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
    guard.say(Message::Ready { id: mitigation.id, relays });
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

fn coordinator_file(path: &Path, relays: usize, service: &str, more: &str) -> String {
    let mut text = format!(
        "[coordinator]\nname = \"co1\"\nprivate_key_file = \"co.key\"\nlisten = \"127.0.0.1:5117\"\n\
         store = \"sqlite:state.db\"\ncontrol_socket = \"{}/co.sock\"\n",
        path.display()
    );
    let _ = writeln!(text, "{more}");
    for number in 0..relays {
        let public = relay_key(number).public();
        let _ = writeln!(
            text,
            "[[relay]]\nname = \"r{number}\"\naddress = \"127.0.1.{number}:5115\"\npublic_key = \"{public}\""
        );
    }
    for (client, group) in [("van", "staff"), ("lab", "public"), ("bad", "public")] {
        let public = client_key(client).public();
        let _ = writeln!(
            text,
            "[[client]]\nname = \"{client}\"\npublic_key = \"{public}\"\ngroup = \"{group}\"\nallowed_ips = [\"10.77.0.{}/32\"]",
            client.len()
        );
    }
    let guard = guard_key().public();
    let _ = writeln!(
        text,
        "[[group]]\nname = \"public\"\n[[group]]\nname = \"staff\"\nkey_file = \"staff.key\"\n\
         [[service]]\nname = \"{SERVICE}\"\nkey_file = \"www.key\"\ngateway = \"{guard}\"\nservers = [\"127.0.0.1\"]\n\
         tsig_key_file = \"up.key\"\n{service}"
    );
    text
}

pub(crate) fn start_relay(namespace: &Namespace, path: &Path, number: usize) -> Running {
    write(path, &format!("relay{number}.key"), &relay_key(number).to_base64());
    let file = format!("relay{number}.toml");
    let coordinator = coordinator_key().public();
    write(
        path,
        &file,
        &format!(
            "[relay]\nname = \"r{number}\"\nprivate_key_file = \"relay{number}.key\"\nlisten = \"127.0.1.{number}:5115\"\n\
         destinations = [\"127.0.0.0/8\"]\nipip = false\ncoordinator = \"{coordinator}\"\ncontrol_socket = \"{}/relay{number}.sock\"\n",
            path.display()
        ),
    );
    spawn(namespace, path, "psmc-relay", &["--config", &file])
}

fn write(directory: &Path, name: &str, text: &str) {
    let path: PathBuf = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

fn spawn(namespace: &Namespace, directory: &Path, what: &str, arguments: &[&str]) -> Running {
    let log = File::options().create(true).append(true).open(directory.join(format!("{what}.log"))).unwrap();
    let mut command = Command::new(program(what));
    command.args(arguments).current_dir(directory);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let child: io::Result<Child> = namespace.spawn(&mut command);
    Running(child.unwrap())
}
