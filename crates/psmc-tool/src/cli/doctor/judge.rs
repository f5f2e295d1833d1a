//! Findings of facts. Nothing is looked at here.

mod machine;
mod network;
mod ways;

use psmc_api::{PeerState, PeerStatus, Status};
use psmc_net::keys::KeyFileError;
use psmcd::config::{Config, ConfigError};
use psmcd::machine::{Notice, Obstacle};

use super::facts::{Daemon, Facts, WrongKeyFile};
use super::finding::{Fault, Finding};
use super::lifetime::Found;
pub(super) use machine::of_machine;

/// All that follows from what was seen with this configuration, what is wrong first.
pub(super) fn all(config: &Config, facts: &Facts) -> Vec<Finding> {
    let mut findings = of_machine(&facts.machine);
    findings.extend(of_daemon(config, facts));
    findings.extend(facts.notices.iter().map(|notice| of_notice(config, notice)));
    findings.extend(network::all(config, facts));
    findings.extend(ways::all(facts));
    let unexplained = of_peers(config, facts, &findings);
    findings.extend(unexplained);
    findings.sort_by_key(|finding| (finding.fault.severity(), finding.fault));
    findings.dedup();
    findings
}

/// What is wrong with a file that is no configuration, and with the file of its key.
pub(super) fn of_file(error: &ConfigError, key: Option<&WrongKeyFile>) -> Vec<Finding> {
    let of_key = key.map(|WrongKeyFile { error, said }| {
        let fault = match error {
            KeyFileError::Missing { .. } => Fault::KeyFileMissing,
            KeyFileError::Unreadable { .. } => Fault::KeyFileUnreadable,
            KeyFileError::Exposed { .. } | KeyFileError::Foreign { .. } => Fault::KeyFileExposed,
            KeyFileError::Empty { .. } | KeyFileError::NotAKey { .. } => Fault::KeyFileWrong,
        };
        Finding::new(fault, "", said.reason(), said.remedy())
    });
    let is_told = |reason: &str| key.is_some_and(|key| key.said.reason() == reason);
    let others = error.complaints().iter().filter(|complaint| !is_told(complaint.reason()));
    let others = others.map(|it| Finding::new(Fault::ConfigInvalid, "", it.reason(), it.remedy()));
    of_key.into_iter().chain(others).collect()
}

fn of_notice(config: &Config, notice: &Notice) -> Finding {
    let fault = match notice.obstacle {
        Obstacle::KeyMayBePublic => Fault::KeyMayBePublic,
        Obstacle::FewOpenFiles => Fault::FewOpenFiles,
        Obstacle::StrictFilter => Fault::StrictFilter,
        Obstacle::UplinkInside => Fault::UplinkInside,
        // Peers are told of these networks, and will want to reach them.
        Obstacle::ForwardsNothing if !config.site.networks.is_empty() => Fault::ForwardingOff,
        Obstacle::ForwardsNothing => Fault::ForwardsNothing,
        Obstacle::Hidden => Fault::Hidden,
        Obstacle::NoCommonVersion => Fault::NoCommonVersion,
        Obstacle::ProgramMissing => Fault::ProgramMissing,
        Obstacle::CgroupMissing => Fault::CgroupMissing,
        Obstacle::NameServerOutside => Fault::NameServerOutside,
        Obstacle::QuotaUsedUp => Fault::QuotaUsedUp,
        Obstacle::QuotaUnknown => Fault::QuotaUnknown,
        Obstacle::BesideTunnel => Fault::BesideTunnel,
    };
    Finding::new(fault, "", &notice.seen, &notice.remedy)
}

fn of_daemon(config: &Config, facts: &Facts) -> Vec<Finding> {
    let name = &config.site.name;
    let mut findings: Vec<Finding> = match &facts.daemon {
        Daemon::Absent if facts.taken_ports.is_empty() => vec![Finding::new(
            Fault::DaemonNotRunning,
            "",
            format!("nobody listens on {}", config.site.control_socket),
            format!("start it: `systemctl start psmcd@{name}`, or `psmcd --config FILE`"),
        )],
        Daemon::Absent | Daemon::Denied => Vec::new(),
        Daemon::Dead { socket } => vec![Finding::new(
            Fault::DaemonDead,
            "",
            format!("{} is there, and nobody listens on it", socket.display()),
            format!(
                "start it again, or undo what it has left by `psmc clean`; `journalctl -u psmcd@{name}`, or its log, says how it has ended"
            ),
        )],
        Daemon::Silent { socket } => vec![Finding::new(
            Fault::DaemonSilent,
            "",
            format!("no answer on {}", socket.display()),
            format!(
                "see whether it is stopped, or the machine overloaded; else restart it: `systemctl restart psmcd@{name}`"
            ),
        )],
        Daemon::Running { .. } => of_running(config, facts),
    };
    findings.extend(facts.taken_ports.iter().map(|taken| {
        let by = taken.by.as_deref().unwrap_or("another program");
        let (protocol, port) = (taken.protocol, taken.port);
        Finding::new(
            Fault::PortInUse,
            "",
            format!("{by} has the {protocol} port {port}"),
            "end it, or choose another `listen`; `ss -lntup` lists who listens",
        )
    }));
    findings
}

fn of_running(config: &Config, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(status) = facts.daemon.status() else { return findings };
    let (key, other) = (config.site.private_key.public().to_string(), &status.site.public_key);
    if key != *other {
        findings.push(Finding::new(
            Fault::OtherSite,
            "",
            format!("{} answers there, with the key {other}, and this file has {key}", status.site.name),
            "give one of the two another `control_socket`, or restart psmcd if its key was replaced",
        ));
        return findings;
    }
    for notice in &status.site.notices {
        let (seen, remedy) = notice.split_once(": ").unwrap_or((notice, "see its log"));
        findings.push(Finding::new(Fault::ForwardingOff, "", seen, remedy));
    }
    let (own, version) = (env!("CARGO_PKG_VERSION"), &status.site.version);
    if own != version {
        let seen = format!("psmcd is {version}, psmc is {own}");
        findings.push(Finding::new(
            Fault::VersionDiffers,
            "",
            seen,
            "install one release, and restart psmcd",
        ));
    }
    findings.extend(of_versions(status));
    let in_file: Vec<String> = config.peers.iter().map(|peer| peer.public_key.to_string()).collect();
    let running: Vec<&String> =
        status.peers.iter().filter(|peer| !peer.added).map(|peer| &peer.public_key).collect();
    let is_same = in_file.len() == running.len() && in_file.iter().all(|key| running.contains(&key));
    if !is_same {
        let seen = format!("the file has {} peers, psmcd {}, or others", in_file.len(), running.len());
        findings.push(Finding::new(Fault::NotReloaded, "", seen, "`psmc reload`"));
    }
    findings
}

/// NATs that forget paths before these are kept alive.
pub(super) fn of_memory(config: &Config, found: &[Found]) -> Vec<Finding> {
    let of_uplink = |Found { uplink: (name, _), memory }: &Found| {
        let lost_s = memory.lost_s?;
        let is_late = |peer: &&psmcd::config::Peer| peer.keepalive.as_secs_f64() >= lost_s;
        let late: Vec<_> = config.peers.iter().filter(is_late).collect();
        let peer = late.first()?;
        let names: Vec<_> = late.iter().map(|peer| peer.name.to_string()).collect();
        Some(Finding::new(
            Fault::NatForgets,
            name,
            format!(
                "a socket that rests for {lost_s:.0} s is reached no longer, and paths to {} that rest are asked every {} s",
                listed(names),
                peer.keepalive.as_secs()
            ),
            format!("set `keepalive` of these peers to {:.0} s or less", memory.reached_s.floor().max(1.0)),
        ))
    };
    found.iter().filter_map(of_uplink).collect()
}

/// Peers that run another release than psmcd here does, or none that it could tell.
fn of_versions(status: &Status) -> Option<Finding> {
    let version = &status.site.version;
    let own = format!("psmcd {version}");
    let told = |peer: &&PeerStatus| peer.control.connected && peer.control.since_s > TELLING_TIME;
    let others = status.peers.iter().filter(told).filter_map(|peer| match &peer.software {
        Some(software) if *software == own => None,
        Some(software) => Some(format!("{} runs {software}", peer.name)),
        // A psmcd of another release than psmc may not know how to tell.
        None if version != env!("CARGO_PKG_VERSION") => None,
        None => Some(format!("{} does not say what it runs, so that it is of an older release", peer.name)),
    });
    let others = listed(others.collect());
    (!others.is_empty()).then(|| {
        let seen = format!("{others}; this is {own}");
        let remedy = "install the same release at both ends: what one of them does not know neither can use";
        Finding::new(Fault::PeerVersionDiffers, "", seen, remedy)
    })
}

/// A peer says what it runs as soon as it is connected: a round trip, which may take a while.
const TELLING_TIME: f64 = 2.0;

/// Peers that are not connected, if nothing that was found says why.
fn of_peers(config: &Config, facts: &Facts, found: &[Finding]) -> Vec<Finding> {
    let (mut findings, mut not_called) = (Vec::new(), Vec::new());
    let peers = facts.daemon.status().into_iter().flat_map(|status| &status.peers);
    for peer in peers.filter(|peer| peer.state != PeerState::Connected) {
        let Some(configured) = config.peers.iter().find(|it| it.name.as_str() == peer.name) else { continue };
        if configured.endpoint.is_none() {
            not_called.push(format!("{}: {}", peer.name, heard(peer)));
        } else {
            findings.extend(of_dialled(peer, found));
        }
    }
    if !not_called.is_empty() {
        let remedy = "if it should be connected, run `psmc doctor` there: that side opens the paths";
        findings.push(Finding::new(Fault::PeerNotCalled, "", listed(not_called), remedy));
    }
    findings
}

/// What is so of several peers, of not too many.
fn listed(mut peers: Vec<String>) -> String {
    let more = peers.len().saturating_sub(MAX_LISTED);
    peers.truncate(MAX_LISTED);
    if more > 0 {
        peers.push(format!("and {more} more"));
    }
    peers.join("; ")
}

/// So many peers are listed by name: of a hub, many are away at any time.
const MAX_LISTED: usize = 5;

fn of_dialled(peer: &PeerStatus, found: &[Finding]) -> Option<Finding> {
    let is_of_peer = |about: &str| about == peer.name || about.starts_with(&format!("{} over ", peer.name));
    let explains = |it: &Finding| {
        is_of_peer(&it.about) || it.fault == Fault::FirewallDrops || it.fault == Fault::OtherSite
    };
    let seen = match &peer.control.last_error {
        Some(error) => format!("{}; {error}", heard(peer)),
        None => heard(peer),
    };
    let is_explained = found.iter().any(explains);
    (!is_explained)
        .then(|| Finding::new(Fault::PeerDown, &peer.name, seen, "see the log of psmcd, here and there"))
}

fn heard(peer: &PeerStatus) -> String {
    use psmc_service::units::age;
    match (peer.keys_expired_s, peer.heard_s) {
        (Some(seconds), _) => {
            format!("its data keys expired {} ago, without a control connection", age(seconds))
        }
        (None, Some(seconds)) => format!("nothing heard for {}", age(seconds)),
        (None, None) => "never heard of".to_owned(),
    }
}

#[cfg(test)]
mod tests;
