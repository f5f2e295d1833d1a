//! Counting instructions, which says the same on a busy machine as on an idle one, and memory.

use std::error::Error;
use std::process::Command;

/// The instructions that this program executes in the function whose name matches the first of `patterns`, and in what
/// that calls, except in those that match the others, when it is started with these arguments under valgrind's callgrind;
/// none, if no function has such a name.
pub(crate) fn instructions(patterns: &[&str], arguments: &[&str]) -> Result<u64, Box<dyn Error>> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    // Counting begins and ends wherever one of them is entered and left.
    command.args(patterns.iter().map(|pattern| format!("--toggle-collect={pattern}")));
    command.arg(std::env::current_exe()?).args(arguments);
    let output = command
        .output()
        .map_err(|error| format!("cannot run valgrind, which has to be installed: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("it failed under valgrind: {said}").into());
    }
    let counted =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim().parse());
    match counted {
        None => Err(format!("callgrind has counted nothing: {said}").into()),
        Some(count) => Ok(count?),
    }
}

/// What this program prints when it is started with these arguments: in a process of its own, whose memory nothing else
/// has touched.
pub(crate) fn printed(arguments: &[&str]) -> Result<u64, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args(arguments).output()?;
    let text = String::from_utf8(output.stdout)?;
    text.trim().parse().map_err(|error| format!("{text:?} is no number: {error}").into())
}

/// Bytes of this process that are in memory.
pub(crate) fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel tells no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
