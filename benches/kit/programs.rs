//! Programs in namespaces, and those of others on this machine.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use psmc_testbed::netns::Namespace;

/// A running program, which ends when the value is dropped.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program in a namespace to its end and returns what it prints.
pub(crate) fn output(namespace: &Namespace, command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = namespace.run(|| command.stdin(Stdio::null()).output())?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        return Err(format!("{command:?} failed: {complaint}{said}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Starts a program in a namespace.
pub(crate) fn start(namespace: &Namespace, command: &mut Command) -> Result<Program, Box<dyn Error>> {
    let child = namespace.spawn(command.stdin(Stdio::null()));
    Ok(Program(child.map_err(|error| format!("{command:?}: {error}"))?))
}

/// A program that is not where programs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOnPath(&'static str);

impl fmt::Display for NotOnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not on the PATH", self.0)
    }
}

impl Error for NotOnPath {}

/// Where a program is.
pub(crate) fn on_path(program: &'static str) -> Result<PathBuf, NotOnPath> {
    let directories = std::env::var_os("PATH").ok_or(NotOnPath(program))?;
    let mut files = std::env::split_paths(&directories).map(|directory| directory.join(program));
    files.find(|file| file.is_file()).ok_or(NotOnPath(program))
}

/// The path of `program`, and the first line of what it says of its version.
pub(crate) fn path_and_version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output();
    let stdout = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&stdout);
    format!("{}: {}", program.display(), text.lines().next().unwrap_or("of unknown version"))
}
