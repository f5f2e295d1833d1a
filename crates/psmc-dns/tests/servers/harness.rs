//! Name servers in a namespace, and what is asked of them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_dns::routes::{Relay, RouteSet, Validity};
use psmc_dns::update::{Patience, Server, Target, TsigKey, unix_now};
use psmc_net::keys::PrivateKey;
use psmc_net::netns::Namespace;
use tempfile::TempDir;

/// The secret that servers and updaters share, named `up.`.
pub(crate) const KEY: &str = "hmac-sha256:up:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The same as BIND has it.
const KEY_OF_BIND: &str =
    "key up { algorithm hmac-sha256; secret \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"; };\n";

/// How long a server may take to come up on a busy machine; no test depends on it being short.
const STARTUP: Duration = Duration::from_secs(60);

/// A zone with a service in it.
pub(crate) const ZONE: &str = "$TTL 60
@   IN SOA ns1 hostmaster 1 3600 600 86400 60
    IN NS  ns1
ns1 IN A   127.0.0.1
www IN A   203.0.113.5
";

/// A program in the namespace, and its directory.
pub(crate) struct Program {
    child: Child,
    pub(crate) directory: TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It is ours, and its files are about to go.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts a program that logs to a file of its directory.
    pub(crate) fn start(namespace: &Namespace, directory: TempDir, command: &mut Command) -> Self {
        let log = File::create(directory.path().join("log")).unwrap();
        command.current_dir(directory.path()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = namespace.spawn(command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, directory }
    }

    /// Waits until the server at `ip` serves the zone.
    pub(crate) fn serves(mut self, namespace: &Namespace, ip: &str) -> Self {
        let deadline = Instant::now() + STARTUP;
        loop {
            if !dig(namespace, &[&format!("@{ip}"), "+short", "+tries=1", "+time=1", "example.com", "SOA"])
                .is_empty()
            {
                return self;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ip} does not serve: {}", self.log());
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

pub(crate) fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
}

/// BIND at `ip`, the primary of example.com.
pub(crate) fn bind(namespace: &Namespace, ip: &str) -> Program {
    bind_with(
        namespace,
        ip,
        "zone \"example.com\" { type primary; file \"zone\"; allow-update { key up; }; };",
    )
}

/// BIND with these zones.
pub(crate) fn bind_with(namespace: &Namespace, ip: &str, zones: &str) -> Program {
    // BIND listens to addresses that an interface has; of the loopback network that is one.
    text_of(namespace, Command::new("ip").args(["address", "add", &format!("{ip}/8"), "dev", "lo"]));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "zone", ZONE);
    write(path, "fixed", ZONE);
    let options = format!(
        "options {{ directory \"{}\"; pid-file none; lock-file none; session-keyfile none; listen-on port 53 {{ {ip}; }};\n\
         listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; allow-transfer {{ any; }}; notify-rate 1000;\n\
         startup-notify-rate 1000; serial-query-rate 1000; transfers-out 1000; transfers-in 1000;\n\
         transfers-per-ns 1000; transfer-source {ip}; notify-source {ip}; }};\ncontrols {{ }};\n",
        path.display()
    );
    write(path, "named.conf", &format!("{options}{KEY_OF_BIND}{zones}\n"));
    let mut command = Command::new("/usr/sbin/named");
    command.args(["-g", "-n", "1", "-c", "named.conf"]);
    Program::start(namespace, directory, &mut command).serves(namespace, ip)
}

/// Knot at `ip`, the primary of example.com.
pub(crate) fn knot(namespace: &Namespace, ip: &str) -> Program {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    write(directory.path(), "zone", &format!("$ORIGIN example.com.\n{ZONE}"));
    let config = format!(
        "server:\n  rundir: {path}\n  listen: {ip}@53\ndatabase:\n  storage: {path}\nlog:\n- target: stderr\n  any: info\n\
         key:\n- id: up\n  algorithm: hmac-sha256\n  secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\
         acl:\n- id: up\n  key: up\n  action: [query, update, transfer]\n\
         zone:\n- domain: example.com\n  storage: {path}\n  file: zone\n  acl: up\n"
    );
    write(directory.path(), "knot.conf", &config);
    let mut command = Command::new("/usr/sbin/knotd");
    command.args(["-c", "knot.conf"]);
    Program::start(namespace, directory, &mut command).serves(namespace, ip)
}

/// What `dig` prints, without spaces around it; nothing where it fails.
pub(crate) fn dig(namespace: &Namespace, arguments: &[&str]) -> String {
    text_of(namespace, Command::new("dig").args(arguments))
}

/// What a program prints.
pub(crate) fn text_of(namespace: &Namespace, command: &mut Command) -> String {
    let output = namespace.run(|| command.output());
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if output.status.success() {
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    } else {
        String::new()
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

pub(crate) fn service_key() -> PrivateKey {
    PrivateKey::from_seed([1; 32])
}

/// Routes through these relays, for ten minutes.
pub(crate) fn routes(serial: u64, relays: &[&str]) -> RouteSet {
    let relay = |ip: &&str| Relay {
        address: format!("{ip}:5115").parse().unwrap(),
        key: PrivateKey::from_seed([7; 32]).public(),
        gateway: None,
    };
    let validity = Validity { serial, expires_s: unix_now() + 600 };
    RouteSet::new(&name("www.example.com."), validity, relays.iter().map(relay).collect()).unwrap()
}

/// Servers, and the patience for a busy machine.
pub(crate) fn target(servers: &[&str]) -> Target {
    Target {
        zone: name("example.com."),
        key: KEY.parse::<TsigKey>().unwrap(),
        servers: servers.iter().map(|server| server.parse::<Server>().unwrap()).collect(),
        patience: Patience { attempts: 5, timeout: Duration::from_secs(20) },
    }
}
