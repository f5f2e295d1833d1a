//! GoBGP, by its command.

use std::net::SocketAddr;
use std::process::{Command, Output};

use super::BgpError;
use crate::class::{Ports, Protocol};
use crate::server::flowspec::FlowRule;

/// Which command was found, if a daemon answers it.
pub(super) fn found(address: SocketAddr) -> Result<String, BgpError> {
    run(address, &["global".to_owned()])?;
    version()
}

/// Has the daemon add or delete a rule (`verb`). Both can be said again without harm.
pub(super) fn tell(address: SocketAddr, verb: &str, rule: &FlowRule) -> Result<(), BgpError> {
    let mut arguments: Vec<String> = ["global", "rib", verb].map(str::to_owned).to_vec();
    arguments.extend(words(rule));
    run(address, &arguments).map(drop)
}

/// The rule, as the command takes it.
fn words(rule: &FlowRule) -> Vec<String> {
    let family = if rule.destination.addr().is_ipv4() { "ipv4-flowspec" } else { "ipv6-flowspec" };
    let mut words = vec!["-a".to_owned(), family.to_owned(), "match".to_owned()];
    words.extend(["destination".to_owned(), rule.destination.to_string()]);
    if let Some(source) = rule.source {
        words.extend(["source".to_owned(), source.to_string()]);
    }
    if let Some(protocol) = rule.protocol {
        words.extend(["protocol".to_owned(), protocol_word(Protocol(protocol))]);
    }
    if let Some((first, last)) = rule.ports {
        words.extend(["destination-port".to_owned(), port_words(first, last)]);
    }
    words.extend(["then".to_owned(), "rate-limit".to_owned(), rule.rate.to_string()]);
    words
}

fn protocol_word(protocol: Protocol) -> String {
    match protocol {
        Protocol::TCP | Protocol::UDP => protocol.to_string(),
        Protocol(number) => format!("=={number}"),
    }
}

fn port_words(first: u16, last: u16) -> String {
    match Ports::new(first, last) {
        Some(ports) if ports.first() != ports.last() => format!(">={first}&<={last}"),
        Some(_) | None => format!("=={first}"),
    }
}

fn version() -> Result<String, BgpError> {
    let output = Command::new("gobgp").arg("--version").output().map_err(BgpError::NoTool)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(address: SocketAddr, arguments: &[String]) -> Result<Output, BgpError> {
    let mut command = Command::new("gobgp");
    command.args(["-u", &address.ip().to_string(), "-p", &address.port().to_string()]).args(arguments);
    let output = command.output().map_err(BgpError::NoTool)?;
    if output.status.success() {
        return Ok(output);
    }
    // It complains on either.
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    // Versions 3 and 4 have other names for the service (apipb.GobgpApi, api.GoBgpService).
    if said.contains("unknown service") || said.contains("Unimplemented") {
        return Err(BgpError::OtherVersion { command: version()?, address });
    }
    Err(BgpError::GoBgp(said.lines().next().unwrap_or("nothing, and fails").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_in_the_words_of_the_command() {
        let destination = "203.0.113.10/32".parse().unwrap();
        let rule =
            FlowRule { destination, source: None, protocol: Some(6), ports: Some((80, 90)), rate: 125_000 };
        let text = "-a ipv4-flowspec match destination 203.0.113.10/32 protocol tcp destination-port >=80&<=90 \
                    then rate-limit 125000";
        assert_eq!(words(&rule).join(" "), text);
        let rule = FlowRule { ports: Some((53, 53)), protocol: Some(132), ..rule };
        assert!(words(&rule).join(" ").contains("protocol ==132 destination-port ==53 then"));
        let destination = "2001:db8::/32".parse().unwrap();
        let rule = FlowRule {
            destination,
            source: Some("2001:db8:7::/48".parse().unwrap()),
            protocol: None,
            ports: None,
            rate: 0,
        };
        assert_eq!(
            words(&rule).join(" "),
            "-a ipv6-flowspec match destination 2001:db8::/32 source 2001:db8:7::/48 then rate-limit 0"
        );
    }
}
