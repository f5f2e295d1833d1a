//! An attacker, a gateway with a narrow line, and a guard on it.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use psmc_guard::status::{Status, ask};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_testbed::netns::{Namespace, Queue, link_pair};
use tempfile::TempDir;

/// The service's address, on the gateway.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
pub(crate) const NAME: &str = "www.example.com";

/// What the gateway's line carries, in bits per second.
pub(crate) const LINE: u64 = 20_000_000;

/// For what takes no time to speak of.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) outside: Namespace,
    pub(crate) gateway: Namespace,
    pub(crate) directory: TempDir,
    pub(crate) key: PrivateKey,
    guard: Option<Child>,
}

impl World {
    /// Two hosts, `out` of the one joined with `line` of the other. The line is as narrow as said.
    pub(crate) fn new(bits_per_second: Option<u64>) -> Self {
        let (outside, gateway) = (Namespace::new().expect("this test needs root"), Namespace::new().unwrap());
        connect(&outside, &gateway);
        if let Some(bits) = bits_per_second {
            outside.shape("out", bits, 20_000, Queue::Bytes(100_000)).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        Self { outside, gateway, directory, key: PrivateKey::generate(), guard: None }
    }

    /// Starts a guard of the service, whose file has these lines more, those of `[guard]` first.
    pub(crate) fn start_guard(&mut self, of_guard: &str, more: &str) {
        let file = self.write_file(of_guard, more);
        let mut command = Command::new(env!("CARGO_BIN_EXE_psmc-guard"));
        command.arg("--config").arg(&file);
        self.guard = Some(self.gateway.spawn(&mut command).unwrap());
        wait_for("the guard", || ask(&self.socket()).ok());
    }

    /// Makes the guard read a file with these lines.
    pub(crate) fn reload(&self, of_guard: &str, more: &str) {
        self.write_file(of_guard, more);
        let pid = self.guard_pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    fn write_file(&self, of_guard: &str, more: &str) -> PathBuf {
        let key_file = self.file("hq.key");
        fs::write(&key_file, self.key.to_base64().as_bytes()).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = [\"line\"]\nlearning = 3\ncalm = 2\n\
             state_file = \"hq.json\"\ncontrol_socket = '{}'\n{of_guard}\n\
             [[service]]\nname = \"{NAME}\"\ntargets = [\"{SERVICE}\"]\n{more}\n",
            self.socket().display()
        );
        let file = self.file("guard.toml");
        fs::write(&file, text).unwrap();
        file
    }

    /// Removes the line, and makes another in its place once the guard has had time to miss it.
    pub(crate) fn replace_line(&self) {
        let mut remove = Command::new("ip");
        remove.args(["link", "delete", "out"]);
        assert!(self.outside.run(|| remove.status()).unwrap().success());
        wait_for("the guard to miss it", || (!self.status().watch.blind.is_empty()).then_some(()));
        connect(&self.outside, &self.gateway);
    }

    /// Ends the guard as systemd does.
    pub(crate) fn stop_guard(&mut self) {
        let mut guard = self.guard.take().expect("it was started");
        let status = Command::new("kill").arg(guard.id().to_string()).status().unwrap();
        assert!(status.success());
        assert!(guard.wait().unwrap().success());
    }

    /// Ends the guard without a chance to do anything.
    pub(crate) fn kill_guard(&mut self) {
        let mut guard = self.guard.take().expect("it was started");
        guard.kill().unwrap();
        guard.wait().unwrap();
    }

    pub(crate) fn guard_pid(&self) -> u32 {
        self.guard.as_ref().expect("it was started").id()
    }

    pub(crate) fn status(&self) -> Status {
        ask(&self.socket()).unwrap()
    }

    /// Waits until the guard has learned what is usual.
    pub(crate) fn wait_until_learned(&self) {
        wait_for("limits", || self.status().engine.services[0].limits.packets);
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn target(&self) -> SocketAddr {
        (SERVICE, 9).into()
    }

    fn socket(&self) -> PathBuf {
        self.file("guard.sock")
    }
}

fn connect(outside: &Namespace, gateway: &Namespace) {
    link_pair(outside, "out", gateway, "line").unwrap();
    outside.add_address("out", "203.0.113.1/24".parse().unwrap()).unwrap();
    gateway.add_address("line", format!("{SERVICE}/24").parse().unwrap()).unwrap();
}

/// The section of a coordinator.
pub(crate) fn coordinator_section(address: SocketAddr, key: PublicKey) -> String {
    format!("[[coordinator]]\naddress = \"{address}\"\npublic_key = \"{key}\"\n")
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(Duration::from_millis(10));
    }
}
