//! A host with a daemon.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_api::{Client, PathState, PathStatus, PeerStatus, Status};
use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;

use super::plan::{End, Family};
use super::wait_for;
use psmc_testbed::programs::program;

/// How long a program of the system may take.
const PROGRAM_TIMEOUT: &str = "60";

/// How long a daemon may take to answer or to end: a small machine is busy at times.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host, its files, and its daemon if one runs.
pub(crate) struct Site {
    pub(crate) end: End,
    pub(crate) namespace: Namespace,
    pub(crate) key: PrivateKey,
    directory: PathBuf,
    daemon: Option<Child>,
}

impl Site {
    /// A host without a daemon.
    pub(crate) fn new(end: End, directory: &Path) -> Self {
        let namespace = Namespace::new().expect("these tests need root, for they make network namespaces");
        Self { end, namespace, key: PrivateKey::generate(), directory: directory.to_owned(), daemon: None }
    }

    /// Writes the configuration, for its owner only.
    pub(crate) fn configure(&self, text: &str) {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        file.open(self.file("toml")).and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
    }

    /// Starts the daemon.
    pub(crate) fn start(&mut self) {
        self.start_with_environment(&[]);
    }

    /// Starts the daemon, for which these variables are set.
    pub(crate) fn start_with_environment(&mut self, variables: &[(&str, &str)]) {
        let mut command = self.psmcd();
        command.args(["--log", &log_level()]).envs(variables.iter().copied());
        self.spawn(command, self.log_file());
    }

    /// Starts the daemon, which logs all that it can to `stderr`.
    pub(crate) fn start_logging_to(&mut self, stderr: Stdio) {
        let mut command = self.psmcd();
        command.args(["--log", "debug"]);
        self.spawn(command, stderr);
    }

    /// Starts the daemon, which may have no more files open than that.
    pub(crate) fn start_with_open_files(&mut self, limit: usize) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}")).arg(program("psmcd")).arg("--config").arg(self.file("toml"));
        self.spawn(command, self.log_file());
    }

    fn log_file(&self) -> Stdio {
        OpenOptions::new().create(true).append(true).open(self.file("log")).unwrap().into()
    }

    fn spawn(&mut self, mut command: Command, stderr: Stdio) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        self.daemon = Some(self.namespace.spawn(&mut command).unwrap());
    }

    /// Starts the daemon, for which this is the only name server.
    pub(crate) fn start_with_name_server(&mut self, address: &str) {
        fs::write(self.file("resolv.conf"), format!("nameserver {address}\n")).unwrap();
        self.start_with_file("/etc/resolv.conf", "resolv.conf");
    }

    /// Starts the daemon, for which `place` is the [`file`](Self::file) of that extension.
    pub(crate) fn start_with_file(&mut self, place: &str, extension: &str) {
        self.start_over(place, &self.file(extension));
    }

    /// Starts the daemon, for which `place` is that file or folder.
    pub(crate) fn start_over(&mut self, place: &str, source: &Path) {
        let mut command = over(place, source);
        command.arg(program("psmcd")).arg("--config").arg(self.file("toml")).args(["--log", &log_level()]);
        self.spawn(command, self.log_file());
    }

    /// Starts the daemon where control groups of version 2 are where they usually are; see [`with_cgroups`].
    pub(crate) fn start_with_cgroups(&mut self) {
        let mut command = with_cgroups();
        command.arg(program("psmcd")).arg("--config").arg(self.file("toml")).args(["--log", &log_level()]);
        self.spawn(command, self.log_file());
    }

    /// What `psmc clean` does and says here, for which `place` is that file or folder.
    pub(crate) fn clean_over(&self, place: &str, source: &Path) -> Output {
        let mut command = over(place, source);
        command.arg(program("psmc")).arg("--socket").arg(self.file("sock")).arg("clean");
        self.namespace.run(|| command.output()).unwrap()
    }

    /// Sends the daemon a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(pid(self.daemon.as_ref().expect("a daemon runs")), signal).unwrap();
    }

    /// The command that starts the daemon.
    pub(crate) fn psmcd(&self) -> Command {
        let mut command = Command::new(program("psmcd"));
        command.arg("--config").arg(self.file("toml"));
        command
    }

    /// Ends the daemon as the kernel does.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon runs");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Asks the daemon to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("a daemon runs");
        kill(pid(&daemon), Signal::SIGTERM).unwrap();
        wait_for("the daemon's end", PATIENCE, || daemon.try_wait().unwrap())
    }

    /// Does something that the daemon notices only afterwards.
    pub(crate) fn while_stopped(&self, work: impl FnOnce(&Self)) {
        let daemon = pid(self.daemon.as_ref().expect("a daemon runs"));
        kill(daemon, Signal::SIGSTOP).unwrap();
        work(self);
        kill(daemon, Signal::SIGCONT).unwrap();
    }

    /// Waits until the daemon has ended by itself.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("a daemon runs");
        wait_for("the daemon's end", PATIENCE, || daemon.try_wait().unwrap())
    }

    /// The memory that the daemon has, in bytes (`VmRSS` of proc(5)).
    pub(crate) fn memory(&self) -> usize {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// How long the daemon has run on a processor (`schedstat` of proc(5)): its main thread, which is the control side, and all of it.
    pub(crate) fn processor_time(&self) -> (Duration, Duration) {
        let daemon = self.daemon.as_ref().expect("a daemon runs");
        processor_time(daemon.id())
    }

    /// How many files and sockets the daemon has open.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(self.proc("fd")).unwrap().count()
    }

    /// A file about the daemon's process.
    fn proc(&self, file: &str) -> PathBuf {
        let daemon = self.daemon.as_ref().expect("a daemon runs");
        PathBuf::from(format!("/proc/{}/{file}", daemon.id()))
    }

    /// A file of this site: `toml`, `sock` or `log`.
    pub(crate) fn file(&self, extension: &str) -> PathBuf {
        self.directory.join(self.end.name).with_extension(extension)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// The state of the daemon, if it answers.
    pub(crate) fn try_status(&self) -> Option<Status> {
        Client::connect(&self.file("sock")).ok()?.status().ok()
    }

    /// The state of the daemon.
    pub(crate) fn status(&self) -> Status {
        self.try_status().expect("the daemon answers")
    }

    /// The state of the only peer.
    pub(crate) fn peer(&self) -> PeerStatus {
        self.status().peers.remove(0)
    }

    /// One of the counters of the site.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters = self.status().counters;
        *counters.get(name).unwrap_or_else(|| panic!("no counter {name} in {counters:?}"))
    }

    /// The state of a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathStatus> {
        self.try_status()?.peers.remove(0).paths.into_iter().find(|path| path.name == name)
    }

    /// Waits until a path is in one of the `states`.
    pub(crate) fn wait_for_path(&self, name: &str, states: &[PathState], patience: Duration) {
        let what = format!("{}: path {name} {states:?}", self.end.name);
        wait_for(&what, patience, || self.path(name).filter(|path| states.contains(&path.state)));
    }

    /// The address inside the tunnel.
    pub(crate) fn inner(&self, family: Family) -> IpAddr {
        self.end.inner(family)
    }

    /// Runs `psmc` on this site's daemon.
    pub(crate) fn psmc(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program("psmc"));
        command.arg("--socket").arg(self.file("sock")).args(args);
        command.output().unwrap()
    }

    /// Runs `psmc`, which must succeed.
    pub(crate) fn psmc_ok(&self, args: &[&str]) {
        let output = self.psmc(args);
        assert!(output.status.success(), "psmc {args:?}: {output:?}");
    }

    /// Writes the file anew with `more` at its end, and has it read; returns what `psmc reload` says.
    pub(crate) fn reload(&self, text: &str, more: &str) -> String {
        self.configure(&format!("{text}\n{more}"));
        let Output { status, stdout, stderr } = self.psmc(&["reload"]);
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert!(status.success(), "{said}");
        said
    }

    /// What `psmc check` says of the configuration on this host.
    pub(crate) fn check(&self) -> String {
        let mut command = Command::new(program("psmc"));
        command.arg("check").arg(self.file("toml"));
        let output = self.namespace.run(|| command.output()).unwrap();
        assert!(output.status.success(), "psmc check: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a program of the system on this host, and returns what became of it.
    pub(crate) fn try_run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.arg(PROGRAM_TIMEOUT).args(args).stdin(Stdio::null());
        self.namespace.run(|| command.output()).unwrap()
    }

    /// Runs a program of the system on this host, and returns what it prints.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.try_run(args);
        assert!(output.status.success(), "{}: {args:?}: {output:?}", self.end.name);
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // Both fail only for a daemon that has ended.
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}

/// A command that runs another one, for which `place` is another file or folder.
fn over(place: &str, source: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    command.args(["-m", "sh", "-c", script, "sh"]).arg(source).arg(place);
    command
}

/// A command that runs another one, for which control groups of version 2 are in `/sys/fs/cgroup`, as on most machines.
pub(crate) fn with_cgroups() -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"", "sh"]);
    command
}

fn log_level() -> String {
    std::env::var("PSMC_TEST_LOG").unwrap_or_else(|_| "info".to_owned())
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// How long a process has run on a processor (`schedstat` of proc(5)): its main thread, and all of it.
pub(crate) fn processor_time(process: u32) -> (Duration, Duration) {
    let time = |text: String| Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap());
    let main = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap();
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let all = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("schedstat")).ok());
    (time(main), all.map(time).sum())
}
