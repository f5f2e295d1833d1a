//! Somebody who types what a document says.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::Namespace;
use psmc_testbed::programs::{program, write_script};

/// What stands in for systemd, which does not run in a namespace: `systemctl enable --now UNIT@NAME` starts the unit's program with the
/// file that the unit names.
const SYSTEMCTL: &str = "#!/bin/sh
unit=${3%@*} name=${3#*@}
case $unit in psmcd) run=psmc ;; *) run=$unit ;; esac
mkdir -p /run/$run
\"$unit\" --config \"/etc/$run/$name.toml\" > \"/run/$name.log\" 2>&1 < /dev/null &
# Units are of the type notify.
timeout 20 sh -c \"until test -S /run/$run/$name.sock; do sleep 0.05; done\"
";

/// What a reader of the README types on a host, in a file system of its own: nothing but its `/etc` and `/run` differ from ours.
pub(crate) struct Keyboard<'a> {
    namespace: &'a Namespace,
    folder: PathBuf,
    shell: Child,
}

impl<'a> Keyboard<'a> {
    /// Its files are in `folder`, which is empty.
    pub(crate) fn new(namespace: &'a Namespace, folder: &Path) -> Self {
        for name in ["etc", "work", "bin"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        // Whoever types here is root already.
        write_script(&folder.join("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n");
        write_script(&folder.join("bin/systemctl"), SYSTEMCTL);
        let prepare = "mount -t overlay overlay -o lowerdir=/etc,upperdir=$PWD/etc,workdir=$PWD/work /etc && \
            mount -t tmpfs tmpfs /run && echo ready && exec sleep infinity";
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", prepare]).current_dir(folder).stdout(Stdio::piped());
        let mut shell = namespace.spawn(&mut shell).unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { namespace, folder: folder.to_owned(), shell }
    }

    /// Types a line, and returns what it prints.
    pub(crate) fn types(&self, line: &str) -> String {
        let (printed, is_done) = self.tries(line);
        assert!(is_done, "{line}");
        printed
    }

    /// The same for what may fail, with whether it has not.
    pub(crate) fn tries(&self, line: &str) -> (String, bool) {
        println!("$ {line}");
        let programs = program("psmc").parent().unwrap().display().to_string();
        assert!(program("psmcd").starts_with(&programs));
        let bin = self.folder.join("bin").display().to_string();
        let path = format!("{bin}:{programs}:{}", std::env::var("PATH").unwrap_or_default());
        let process = self.shell.id().to_string();
        let mut typed = Command::new("nsenter");
        typed.args(["--target", &process, "--mount", "bash", "-euo", "pipefail", "-c", line]);
        let output = self.namespace.run(|| typed.env("PATH", path).output()).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        (printed, output.status.success())
    }
}

impl Drop for Keyboard<'_> {
    fn drop(&mut self) {
        // Daemons that were started here are in its namespace of mounts.
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let own = namespace(self.shell.id());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for process in processes.filter(|process| namespace(*process) == own) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL);
        }
        self.shell.wait().unwrap();
    }
}
