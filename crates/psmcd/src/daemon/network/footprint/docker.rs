//! Docker, which drops what is forwarded but for its own containers, and has a chain for who wants it otherwise.
//!
//! The rules are made by `iptables`, as Docker's own are: only that knows in which of the kernel's two filters they are.

use std::process::Command;

use psmc_net::nft::nft;

use super::FootprintError;

/// The chain that Docker leaves to others.
const CHAIN: &str = "DOCKER-USER";

/// One for each version of IP.
const PROGRAMS: [&str; 2] = ["iptables", "ip6tables"];

/// The rules, as arguments of iptables, by which packets from an interface leave by these uplinks, and answers come back.
pub(super) fn rules(interface: &str, uplinks: &[&str]) -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    let pairs = uplinks.iter().flat_map(|uplink| {
        [
            format!("-i {interface} -o {uplink} -j ACCEPT"),
            format!("-i {uplink} -o {interface} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
        ]
    });
    pairs.map(words).collect()
}

/// Whether Docker has made its chain.
pub(super) fn is_there() -> bool {
    has_chain(PROGRAMS[0])
}

/// Whether the chain is there: iptables (1.8.9, of nf_tables) does not list one in which somebody has a rule of nftables' own, and says
/// the same of one that is missing.
fn has_chain(program: &str) -> bool {
    let family = if program == PROGRAMS[0] { "ip" } else { "ip6" };
    run(program, &["-n", "-L", CHAIN]).is_ok() || nft(&["list", "chain", family, "filter", CHAIN], "").is_ok()
}

/// Has the chain hold `added` in place of `removed`.
pub(super) fn replace(removed: &[Vec<String>], added: &[Vec<String>]) -> Result<(), FootprintError> {
    for program in PROGRAMS.into_iter().filter(|program| has_chain(program)) {
        for rule in removed {
            // As often as it is there: one may have been killed just before it wrote that it was.
            while remove(program, rule)? {}
        }
        for rule in added {
            run(program, &with("-I", rule))?;
        }
    }
    Ok(())
}

/// Removes a rule once; `false` if it is not there.
fn remove(program: &str, rule: &[String]) -> Result<bool, FootprintError> {
    match run(program, &with("-D", rule)) {
        Ok(()) => Ok(true),
        Err(FootprintError::Docker { reason, .. }) if reason.contains("does a matching rule exist") => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn with<'a>(what: &'a str, rule: &'a [String]) -> Vec<&'a str> {
    [what, CHAIN].into_iter().chain(rule.iter().map(String::as_str)).collect()
}

fn run(program: &str, arguments: &[&str]) -> Result<(), FootprintError> {
    let failed =
        |reason| FootprintError::Docker { command: format!("{program} {}", arguments.join(" ")), reason };
    // Docker changes its rules, too, and holds the lock while it does.
    let output = Command::new(program).arg("-w").args(arguments).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
