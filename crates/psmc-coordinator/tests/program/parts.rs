//! What tests run, and the files that it reads.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;

use psmc_testbed::programs::program;

/// What whoever raises alerts by HTTP has to show.
pub(crate) const TOKEN: &str = "0123456789abcdef";

pub(crate) const SERVICE: &str = "www.example.com";

pub(crate) const KEY: &str = "hmac-sha256:up:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

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

impl Running {
    /// As by `kill -HUP`.
    pub(crate) fn hang_up(&self) {
        let done = Command::new("kill").args(["-HUP", &self.0.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Where a coordinator and what it works with are.
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) listen: &'a str,
    pub(crate) store: &'a str,
    /// The first three bytes of the relays' addresses.
    pub(crate) relays: &'a str,
    pub(crate) dns: &'a str,
}

impl Place<'_> {
    /// The coordinator's file.
    pub(crate) fn file(&self, path: &Path, relays: usize, service: &str, more: &str) -> String {
        let Self { name, listen, store, relays: net, dns } = self;
        let socket = path.join(if *name == "co1" { "co.sock".to_owned() } else { format!("{name}.sock") });
        let mut text = format!(
            "[coordinator]\nname = \"{name}\"\nprivate_key_file = \"co.key\"\nlisten = \"{listen}\"\n\
             store = \"{store}\"\ncontrol_socket = \"{}\"\n",
            socket.display()
        );
        let _ = writeln!(text, "{more}");
        for number in 0..relays {
            let public = relay_key(number).public();
            let _ = writeln!(
                text,
                "[[relay]]\nname = \"r{number}\"\naddress = \"{net}.{number}:5115\"\npublic_key = \"{public}\""
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
             [[service]]\nname = \"{SERVICE}\"\nkey_file = \"www.key\"\ngateway = \"{guard}\"\nservers = [\"{dns}\"]\n\
             tsig_key_file = \"up.key\"\n{service}"
        );
        text
    }
}

/// Keys of everybody, and what else files name.
pub(crate) fn write_keys(path: &Path) {
    write(path, "zone", ZONE);
    write(path, "up.key", KEY);
    write(path, "token", TOKEN);
    for (name, key) in
        [("co.key", coordinator_key()), ("www.key", service_key()), ("staff.key", group_secret())]
    {
        write(path, name, &key.to_base64());
    }
}

pub(crate) fn start_dns(namespace: &Namespace, path: &Path, listen: &[&str]) -> Running {
    let file = format!(
        "[server]\nname = \"ns1\"\nlisten = {listen:?}\ndatabase = \"zones.db\"\ncontrol_socket = \"{}/dns.sock\"\n\
         [[key]]\nfile = \"up.key\"\n\
         [[zone]]\nname = \"example.com\"\nfile = \"zone\"\nupdate = [\"up\"]\n",
        path.display()
    );
    write(path, "dns.toml", &file);
    spawn(namespace, path, "psmc-dns", &["serve", "dns.toml"])
}

pub(crate) fn start_relay(namespace: &Namespace, path: &Path, net: &str, number: usize) -> Running {
    write(path, &format!("relay{number}.key"), &relay_key(number).to_base64());
    let file = format!("relay{number}.toml");
    let coordinator = coordinator_key().public();
    write(
        path,
        &file,
        &format!(
            "[relay]\nname = \"r{number}\"\nprivate_key_file = \"relay{number}.key\"\nlisten = \"{net}.{number}:5115\"\n\
         destinations = [\"127.0.0.0/8\"]\nipip = false\ncoordinator = \"{coordinator}\"\ncontrol_socket = \"{}/relay{number}.sock\"\n",
            path.display()
        ),
    );
    spawn(namespace, path, "psmc-relay", &["--config", &file])
}

pub(crate) fn write(directory: &Path, name: &str, text: &str) {
    let path: PathBuf = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn spawn(namespace: &Namespace, directory: &Path, what: &str, arguments: &[&str]) -> Running {
    run(namespace, directory, &program(what), what, arguments)
}

/// A program whose log has this name.
pub(crate) fn run(
    namespace: &Namespace,
    directory: &Path,
    program: &Path,
    what: &str,
    arguments: &[&str],
) -> Running {
    let log = File::options().create(true).append(true).open(directory.join(format!("{what}.log"))).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let child: io::Result<Child> = namespace.spawn(&mut command);
    Running(child.unwrap())
}
