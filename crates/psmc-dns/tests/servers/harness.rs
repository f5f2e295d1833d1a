//! Name servers in a namespace, and what is asked of them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use hickory_proto::rr::Name;
use psmc_net::keys::PrivateKey;
use psmc_routes::update::{Patience, Server, Target, TsigKey};
use psmc_routes::{Relay, RouteSet, Validity};
use psmc_service::clock::unix_seconds;
use psmc_testbed::netns::Namespace;
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
    child: Running,
    pub(crate) directory: TempDir,
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It is ours, and its files are about to go.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Starts a program that logs to a file of its directory.
    pub(crate) fn start(namespace: &Namespace, directory: TempDir, command: &mut Command) -> Self {
        let log = File::create(directory.path().join("log")).unwrap();
        command.current_dir(directory.path()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = namespace.spawn(command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child: Running(child), directory }
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
            let ended = self.child.0.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ip} does not serve: {}", self.log());
        }
    }

    /// Ends it at once, as by `kill -9`, and leaves its files.
    pub(crate) fn kill(self) -> TempDir {
        drop(self.child);
        self.directory
    }

    /// Makes it reload its configuration.
    pub(crate) fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.child.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

pub(crate) fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
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
    bind_with_records(namespace, ip, zones, "")
}

/// The same; the zone has these records as well.
pub(crate) fn bind_with_records(namespace: &Namespace, ip: &str, zones: &str, records: &str) -> Program {
    // BIND listens to addresses that an interface has; of the loopback network that is one.
    text_of(namespace, Command::new("ip").args(["address", "add", &format!("{ip}/8"), "dev", "lo"]));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "zone", &format!("{ZONE}{records}"));
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
    knot_with(namespace, ip, "", "  file: zone\n  acl: up\n")
}

/// Knot with these sections, and these lines about the zone.
pub(crate) fn knot_with(namespace: &Namespace, ip: &str, sections: &str, zone: &str) -> Program {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    write(directory.path(), "zone", &format!("$ORIGIN example.com.\n{ZONE}"));
    let config = format!(
        "server:\n  rundir: {path}\n  listen: {ip}@53\ndatabase:\n  storage: {path}\nlog:\n- target: stderr\n  any: info\n\
         key:\n- id: up\n  algorithm: hmac-sha256\n  secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n{sections}\
         acl:\n- id: up\n  key: up\n  action: [query, update, transfer, notify]\n\
         zone:\n- domain: example.com\n  storage: {path}\n{zone}"
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

/// Routes to www.example.com through these relays, for ten minutes.
pub(crate) fn routes(serial: u64, relays: &[&str]) -> RouteSet {
    routes_to("www.example.com.", serial, relays)
}

/// Routes to another service.
pub(crate) fn routes_to(service: &str, serial: u64, relays: &[&str]) -> RouteSet {
    let relay = |ip: &&str| Relay {
        address: format!("{ip}:5115").parse().unwrap(),
        key: PrivateKey::from_seed([7; 32]).public(),
        gateway: None,
    };
    let validity = Validity { serial, expires_s: unix_seconds() + 600 };
    RouteSet::new(&name(service), validity, relays.iter().map(relay).collect()).unwrap()
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

/// Ours at `ip`, with these zones.
pub(crate) fn ours(namespace: &Namespace, ip: &str, zones: &str) -> Program {
    ours_in(namespace, tempfile::tempdir().unwrap(), ip, zones).serves(namespace, ip)
}

/// The same in a directory that may have a database already; it may not serve at once.
pub(crate) fn ours_in(namespace: &Namespace, directory: TempDir, ip: &str, zones: &str) -> Program {
    let path = directory.path();
    write(path, "zone", ZONE);
    write(path, "up.key", KEY);
    write(path, "sign.key", &PrivateKey::from_seed([3; 32]).to_base64());
    write(path, "tls.key", include_str!("../data/tls.key"));
    write(path, "tls.pem", include_str!("../data/tls.pem"));
    let config = format!(
        "[server]\nname = \"test\"\nlisten = [\"{ip}\"]\ndatabase = \"zones.db\"\ncontrol_socket = \"{}/sock\"\n\
         [tls]\nlisten = [\"{ip}:853\"]\ncertificate_file = \"tls.pem\"\nprivate_key_file = \"tls.key\"\n\
         [[key]]\nfile = \"up.key\"\n{zones}",
        path.display()
    );
    write(path, "dns.toml", &config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-dns"));
    command.args(["serve", "dns.toml"]);
    Program::start(namespace, directory, &mut command)
}

/// A zone that can be changed, and fetched by this machine.
pub(crate) const DYNAMIC: &str = "[[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\ntransfer = [\"127.0.0.1\", \"up\"]\n";

/// Waits until `ask` yields `wanted`; says what it yields instead where that takes too long.
pub(crate) fn until(wanted: &str, ask: impl Fn() -> String) {
    let deadline = Instant::now() + STARTUP;
    loop {
        let found = ask();
        if found == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} instead of {wanted:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
