//! `psmc stamp`: delay and loss to whoever answers STAMP.

mod report;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use psmc_net::probe::IcmpKind;
use psmc_service::daemon::{self, Signals, SystemError};
use psmc_stamp::{Key, KeyFileError, MAX_PATIENCE, MIN_INTERVAL, Oddity, PORT, Sender, Target};

use super::args::Pause;
use super::{CliError, output};
use report::Tally;

#[derive(Debug, Args)]
pub(super) struct StampArgs {
    /// The reflector: an address or a name, and a port unless it is 862
    #[arg(value_name = "ADDRESS[:PORT]")]
    reflector: String,
    /// End after so many probes
    #[arg(long, short, value_name = "N")]
    count: Option<NonZeroU32>,
    /// From one probe to the next, 1ms at least
    #[arg(long, short, default_value = "100ms", value_name = "TIME")]
    interval: Pause,
    /// How long to wait for an answer
    #[arg(long, default_value = "2s", value_name = "TIME")]
    timeout: Pause,
    /// The key that the reflector has, too: hexadecimal digits, or any 16 bytes or more
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Send through this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Print only the summary, as JSON
    #[arg(long)]
    json: bool,
}

/// Why `psmc stamp` has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StampError {
    #[error(
        "{0:?} is no address: write an address or a name, such as 192.0.2.1, [2001:db8::1]:862 or hq.example.org"
    )]
    NoAddress(String),
    #[error("cannot find {name}: {source}; is the name right, and is there a name server?")]
    NoName { name: String, source: io::Error },
    #[error("an interval of less than {} ms is too short", MIN_INTERVAL.as_millis())]
    TooOften,
    #[error("no answer is waited for longer than {} s", MAX_PATIENCE.as_secs())]
    TooPatient,
    #[error("{}", psmc_service::error_chain(.0))]
    Key(#[from] KeyFileError),
    #[error("cannot ask {remote}: {source}")]
    Socket { remote: SocketAddr, source: io::Error },
    #[error("{remote} has not answered: {reason}")]
    NoAnswer { remote: SocketAddr, reason: String },
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error(transparent)]
    System(#[from] SystemError),
}

pub(super) fn run(args: &StampArgs) -> Result<(), CliError> {
    let target = target(args)?;
    Ok(daemon::run(measure(target, args.json))?)
}

fn target(args: &StampArgs) -> Result<Target, StampError> {
    let (interval, patience) = (args.interval.0, args.timeout.0);
    if interval < MIN_INTERVAL {
        return Err(StampError::TooOften);
    }
    if patience > MAX_PATIENCE {
        return Err(StampError::TooPatient);
    }
    Ok(Target {
        key: args.key_file.as_deref().map(Key::read).transpose()?,
        remote: resolve(&args.reflector)?,
        interval,
        patience,
        count: args.count.map(NonZeroU32::get),
        interface: args.interface.clone(),
        local: None,
    })
}

/// The address that is written, or that the name has.
fn resolve(text: &str) -> Result<SocketAddr, StampError> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (text, Some(PORT)),
    };
    let port = port.filter(|_| !name.is_empty() && !name.contains(':'));
    let port = port.ok_or_else(|| StampError::NoAddress(text.to_owned()))?;
    let failed = |source| StampError::NoName { name: name.to_owned(), source };
    let mut found = (name, port).to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| failed(io::Error::other("it has no address")))
}

async fn measure(target: Target, json: bool) -> Result<(), StampError> {
    let (remote, is_sealed) = (target.remote, target.key.is_some());
    let mut signals = Signals::listen()?;
    let mut sender = Sender::open(target).map_err(|source| StampError::Socket { remote, source })?;
    let mut tally = Tally::new(remote);
    loop {
        let outcome = tokio::select! {
            _ = signals.next() => break,
            outcome = sender.next() => outcome,
        };
        let Some(outcome) = outcome else { break };
        let line = tally.take(&outcome);
        if !json {
            output::print(&line)?;
        }
    }
    let summary = tally.summary(&sender);
    output::print(&if json { output::json(&summary)? } else { summary.to_string() })?;
    if tally.is_answered() {
        Ok(())
    } else {
        Err(StampError::NoAnswer { remote, reason: reason(&sender, is_sealed) })
    }
}

/// Why there was no answer, as far as can be told, and what to do.
fn reason(sender: &Sender, is_sealed: bool) -> String {
    let odd = sender.oddities();
    if odd.of(Oddity::WrongHmac) > 0 {
        return "what came has the HMAC of another key, or none; give both ends the same key".to_owned();
    }
    if odd.of(Oddity::OtherAddress) > 0 {
        return "answers came from another address only; ask that one".to_owned();
    }
    let key = if is_sealed { "has the same key" } else { "asks for no key" };
    let check =
        format!("see that a STAMP reflector runs there (psmcd: `reflector = {PORT}` in [sla]) that {key}");
    match sender.undeliverable().map(|error| error.kind) {
        Some(IcmpKind::NoPort) => format!("nothing listens at that port; {check}"),
        Some(IcmpKind::Unreachable) => {
            "the host cannot be reached; see that it runs, and the routes to it".to_owned()
        }
        Some(IcmpKind::Prohibited) => "a firewall forbids it; allow UDP to that port".to_owned(),
        Some(IcmpKind::Expired | IcmpKind::TooBig(_) | IcmpKind::Other(..)) | None if sender.sent() == 0 => {
            "nothing could be sent; see the routes to it".to_owned()
        }
        Some(IcmpKind::Expired | IcmpKind::TooBig(_) | IcmpKind::Other(..)) | None => {
            format!("{check}, and that no firewall drops UDP to that port")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reflector_is_an_address_or_a_name_with_or_without_a_port() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:862"),
            ("192.0.2.1:4000", "192.0.2.1:4000"),
            ("2001:db8::1", "[2001:db8::1]:862"),
            ("[2001:db8::1]", "[2001:db8::1]:862"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(resolve(text).unwrap().to_string(), expected);
        }
        assert_eq!(resolve("localhost:5").unwrap().port(), 5);
        for wrong in ["", ":862", "192.0.2.1:x", "hq:70000", "2001:db8::1:::5"] {
            assert!(matches!(resolve(wrong), Err(StampError::NoAddress(_))), "{wrong}");
        }
    }
}
