//! Machines with nothing but Debian: a tree of files, and what runs when it is booted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::Namespace;
use psmc_testbed::poll::wait_for;
use tempfile::TempDir;

use crate::{done, empty_folder};

/// Until systemd has started everything, or stopped it, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// A tree of files of Debian's release on which this test runs.
pub(crate) struct Root(TempDir);

impl Root {
    /// One that nobody has changed.
    pub(crate) fn new() -> Self {
        static DEBIAN: OnceLock<PathBuf> = OnceLock::new();
        Self::copy(DEBIAN.get_or_init(|| install_debian("debian", SMALL)))
    }

    /// One with everything that configures networks on Debian, of which nothing runs until it is started.
    pub(crate) fn with_managers() -> Self {
        static DEBIAN: OnceLock<PathBuf> = OnceLock::new();
        let root = Self::copy(DEBIAN.get_or_init(|| install_debian("debian-managers", MANAGERS)));
        root.types("systemctl disable NetworkManager systemd-networkd systemd-resolved");
        root
    }

    fn copy(debian: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        done(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(debian).arg(tree(&folder)));
        Self(folder)
    }

    pub(crate) fn path(&self) -> PathBuf {
        tree(&self.0)
    }

    /// Puts a package into `/srv`, and returns where it is there.
    pub(crate) fn take(&self, package: &Path) -> String {
        let name = package.file_name().unwrap().to_str().unwrap();
        fs::copy(package, self.path().join("srv").join(name)).unwrap();
        format!("/srv/{name}")
    }

    /// Types a line on a machine that was not booted, as in the container or the image that it is going to be.
    pub(crate) fn types(&self, line: &str) -> String {
        println!("(chroot) # {line}");
        let mut shell = Command::new("chroot");
        shell.arg(self.path()).args(["sh", "-euc", line]).env("DEBIAN_FRONTEND", "noninteractive");
        done(shell.env("PATH", PATH))
    }

    /// All its files, with mode, owner and where links lead, but for those of dpkg itself.
    pub(crate) fn listing(&self) -> String {
        let mut find = Command::new("find");
        find.args([".", "-path", "./var/lib/dpkg", "-prune", "-o", "-path", "./var/log/dpkg.log", "-o"]);
        find.args(["-name", "*-", "-path", "./etc/*", "-o"]);
        find.args(["-printf", "%p %M %U:%G %l\\n"]).current_dir(self.path());
        let listed = done(&mut find);
        let mut lines: Vec<&str> = listed.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

/// The files lie deeper than their folder, which is only its owner's.
fn tree(folder: &TempDir) -> PathBuf {
    folder.path().join("root")
}

/// What a machine needs to be booted and looked at.
const SMALL: &str = "systemd-sysv,procps,iputils-ping";

/// The same, and what configures networks.
const MANAGERS: &str =
    "systemd-sysv,procps,iputils-ping,iproute2,nftables,dbus,systemd-resolved,network-manager";

fn install_debian(name: &str, packages: &str) -> PathBuf {
    let folder = empty_folder(name);
    let release = fs::read_to_string("/etc/os-release").unwrap();
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap();
    let sources = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    let sources = sources.into_iter().find(|file| Path::new(file).exists()).unwrap();
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=minbase"]).arg(format!("--include={packages}"));
    done(mmdebstrap.arg(suite).arg(&folder).arg(sources));
    folder
}

/// A machine that runs, with systemd, in a network namespace of its own.
pub(crate) struct Machine {
    pub(crate) namespace: Namespace,
    pub(crate) root: Root,
    container: Child,
    /// systemd's process, as this machine counts them.
    systemd: String,
}

impl Machine {
    pub(crate) fn boot() -> Self {
        Self::boot_from(Root::new())
    }

    pub(crate) fn boot_from(root: Root) -> Self {
        let namespace = Namespace::new().unwrap();
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args(["--quiet", "--register=no", "--keep-unit", "--boot", "--console=pipe"]);
        nspawn.arg("--capability=CAP_NET_ADMIN");
        // The one in which it is started.
        nspawn.args(["--network-namespace-path=/proc/self/ns/net", "--bind=/dev/net/tun", "--directory"]);
        let log = fs::File::create(root.path().join("srv/boot.log")).unwrap();
        nspawn.arg(root.path()).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let container = namespace.spawn(&mut nspawn).unwrap();
        let children = format!("/proc/{0}/task/{0}/children", container.id());
        let systemd = wait_for("the container starts", PATIENCE, || {
            let child = fs::read_to_string(&children).ok()?.trim().to_owned();
            let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
            (name == "systemd\n").then_some(child)
        });
        let this = Self { namespace, root, container, systemd };
        wait_for("systemd has started everything", PATIENCE, || {
            // Degraded is one that has started all, but for units of Debian that a container has no room for.
            let state = this.tries("systemctl is-system-running");
            [&b"running\n"[..], b"degraded\n"].contains(&&state.stdout[..]).then_some(())
        });
        this
    }

    /// A command that runs there.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.systemd, "--all", program]);
        command.env("PATH", PATH).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Types a line, which may fail.
    pub(crate) fn tries(&self, line: &str) -> Output {
        self.command("sh").args(["-euc", line]).output().unwrap()
    }

    /// Types a line, and returns what it prints.
    pub(crate) fn types(&self, line: &str) -> String {
        println!("# {line}");
        let printed = done(self.command("sh").args(["-euc", line]));
        println!("{printed}");
        printed
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.tries("journalctl --no-pager --lines 50; ls -lR /etc/psmc /run/psmc");
            eprintln!("{}", String::from_utf8_lossy(&journal.stdout));
        }
        // It powers the machine off (systemd-nspawn(1)).
        let _ = kill(Pid::from_raw(self.container.id().cast_signed()), Signal::SIGTERM);
        let _ = self.container.wait();
    }
}

/// root's, on Debian.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
