//! What passes interfaces, as Wireshark sees it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::Namespace;
use psmc_testbed::poll::wait_for;

const PATIENCE: Duration = Duration::from_secs(15);

/// All frames of some interfaces, in a file.
pub(crate) struct Capture {
    dumpcap: Child,
    file: PathBuf,
}

impl Capture {
    /// Begins; returns once it has begun.
    pub(crate) fn start(host: &Namespace, interfaces: &[&str], file: &Path) -> Self {
        let mut dumpcap = Command::new("dumpcap");
        dumpcap.args(["-q", "-s", "128", "-w"]).arg(file);
        for interface in interfaces {
            dumpcap.args(["-i", interface]);
        }
        dumpcap.stdout(Stdio::null()).stderr(Stdio::null());
        let dumpcap = host.spawn(&mut dumpcap).unwrap();
        wait_for("dumpcap", PATIENCE, || fs::metadata(file).is_ok_and(|file| file.len() > 0).then_some(()));
        Self { dumpcap, file: file.to_owned() }
    }

    /// Those that match a display filter, one in a line.
    pub(crate) fn matching(&self, filter: &str) -> Vec<String> {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r"]).arg(&self.file).args(["-Y", filter]);
        let output = tshark.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Nothing is added to it any more.
    pub(crate) fn end(&mut self) {
        kill(Pid::from_raw(self.dumpcap.id().cast_signed()), Signal::SIGINT).unwrap();
        self.dumpcap.wait().unwrap();
    }
}
