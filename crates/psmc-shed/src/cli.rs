//! The command line of `psmc-shed`: its arguments, and what `psmc-shed status` and `explain` say.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use psmc_service::cli::{self, CliError, RunArgs, StatusArgs};
use psmc_service::output;
use psmc_service::socket::{Report, only_socket};
use thiserror::Error;

use crate::config::{Basis, Config, bits};
use crate::daemon;
use crate::server::bgp::{JanitorArgs, run_janitor};
use crate::status::{ClassStatus, OwnerStatus, RouterStatus, ServerStatus, Status, UpstreamStatus, ask};

/// The agent that has routers drop what a server would drop anyway: on the server, on routers, or both.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a configuration, and prints a summary.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Shows what the running agent accepts, limits and drops.
    Status(StatusArgs),
    /// Says why a rule is as it is, at each upstream.
    Explain {
        /// The rule: the name of a class, or on a router SERVER/NAME.
        rule: String,
        /// The agent's control socket [default: the only one in /run/psmc-shed].
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    #[command(hide = true)]
    Janitor(JanitorArgs),
}

/// There is nothing to explain.
#[derive(Debug, Error)]
#[error("there is no rule {rule}; there are {}", known.join(", "))]
struct UnknownRule {
    rule: String,
    known: Vec<String>,
}

/// What stands on the command line of `psmc-shed`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-shed` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish(Status::PROGRAM, run(Args::parse()))
}

fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        None => args.run.run(Status::PROGRAM, Config::load, daemon::run),
        Some(Command::Check { file }) => {
            cli::check(&file, Config::load, |config: &Config| config.summary().to_string())
        }
        Some(Command::Status(asked)) => asked.show(describe),
        Some(Command::Explain { rule, socket }) => {
            let path = match socket {
                Some(path) => path,
                None => only_socket(Status::PROGRAM, Path::new(Status::DIRECTORY))?,
            };
            let text = explain(&ask(&path)?, &rule).map_err(CliError::program)?;
            Ok(output::print(&text)?)
        }
        Some(Command::Janitor(args)) => run_janitor(&args).map_err(CliError::program),
    }
}

fn describe(status: &Status) -> String {
    let mut text = format!("{}, up {} s\n", status.name, status.uptime_s);
    if let Some(server) = &status.server {
        text += &server_text(server);
    }
    if let Some(router) = &status.router {
        text += &router_text(router);
    }
    text
}

fn server_text(server: &ServerStatus) -> String {
    let mut text = String::new();
    for class in &server.classes {
        let ClassStatus { name, accepted_bytes_per_s, offered_bytes_per_s, passed_bytes_per_s, .. } = class;
        let [accepted, offered, passed] =
            [*accepted_bytes_per_s, *offered_bytes_per_s, *passed_bytes_per_s].map(rate);
        line(
            &mut text,
            &format!(
                "class {name}, {}: {accepted} accepted, {offered} offered, {passed} passed",
                class.class
            ),
        );
        if class.accepted_by != Basis::File.to_string() {
            line(&mut text, &format!("  accepted by {}", class.accepted_by));
        }
        if let Some(trouble) = &class.trouble {
            line(&mut text, &format!("  {trouble}"));
        }
        if let Some(arriving) = class.arriving_bytes_per_s {
            line(&mut text, &format!("  {} arriving", rate(arriving)));
        }
        for share in &class.upstreams {
            let limit = share.limit_bytes_per_s.map_or_else(|| "no limit".to_owned(), bits);
            line(&mut text, &format!("  at {}: {limit}", share.upstream));
        }
    }
    for upstream in &server.upstreams {
        let UpstreamStatus { name, by, rules, .. } = upstream;
        let state = match (&upstream.error, upstream.current) {
            (Some(error), _) => error.clone(),
            (None, true) => "has what is wanted".to_owned(),
            (None, false) => "does not have what is wanted yet".to_owned(),
        };
        line(&mut text, &format!("upstream {name}, {by}: {rules} rules, {state}"));
        if let Some(found) = &upstream.found {
            line(&mut text, &format!("  found {found}"));
        }
        upstream.refused.iter().for_each(|refused| line(&mut text, &format!("  refuses {refused}")));
    }
    text
}

fn router_text(router: &RouterStatus) -> String {
    let limits =
        if router.enforced { "limits are enforced" } else { "limits are not enforced: no congestion" };
    let mut text = format!("router: {limits}\n");
    if let Some(trouble) = &router.trouble {
        line(&mut text, &format!("  {trouble}"));
    }
    let counts = &router.counts;
    line(
        &mut text,
        &format!(
            "  messages: taken {}, replayed {}, expired {}, with too many rules {}, malformed {}; \
             rules refused: foreign {}, contradictory {}, illegal {}; unknown keys {}",
            counts.taken,
            counts.replayed,
            counts.expired,
            counts.too_many,
            router.malformed,
            counts.foreign,
            counts.contradictory,
            counts.illegal,
            router.unknown_keys
        ),
    );
    router.servers.iter().for_each(|server| text += &owner_text(server));
    text
}

fn owner_text(server: &OwnerStatus) -> String {
    let state = if server.connected { "connected" } else { "not connected" };
    let mut text = format!("server {}: {state}", server.name);
    match server.expires_in_s {
        Some(left) => line(&mut text, &format!(", rules end in {left:.1} s unless renewed")),
        None => line(&mut text, ", no rules"),
    }
    for rule in &server.rules {
        let limit = rule.limit_bytes_per_s.map_or_else(|| "no limit".to_owned(), bits);
        let (offered, dropped) = (rate(rule.offered_bytes_per_s), rate(rule.dropped_bytes_per_s));
        line(
            &mut text,
            &format!("  {}, {}: {limit}, {offered} offered, {dropped} dropped", rule.name, rule.class),
        );
    }
    text
}

/// Why a rule is as it is.
fn explain(status: &Status, rule: &str) -> Result<String, UnknownRule> {
    let classes = status.server.iter().flat_map(|server| &server.classes);
    if let Some(class) = classes.clone().find(|class| class.name == rule) {
        let accepted = rate(class.accepted_bytes_per_s);
        let mut text =
            format!("{rule}: {accepted} of {} are accepted, by {}\n", class.class, class.accepted_by);
        class.trouble.iter().for_each(|trouble| line(&mut text, &format!("  {trouble}")));
        for share in &class.upstreams {
            line(&mut text, &format!("  at {}: {}", share.upstream, share.reason));
        }
        return Ok(text);
    }
    let servers = status.router.iter().flat_map(|router| &router.servers);
    let named = |server: &OwnerStatus, name: &str| format!("{}/{name}", server.name);
    for server in servers.clone() {
        let Some(found) = server.rules.iter().find(|found| named(server, &found.name) == rule) else {
            continue;
        };
        let enforced = status.router.as_ref().is_some_and(|router| router.enforced);
        let limit = match (found.limit_bytes_per_s, enforced) {
            (None, _) => "it is counted only: its server can take what comes".to_owned(),
            (Some(limit), true) => {
                format!("what is beyond {} is dropped, for its server asks for it", bits(limit))
            }
            (Some(limit), false) => {
                format!(
                    "its server asks for a limit of {}, which is not enforced: no line is congested",
                    bits(limit)
                )
            }
        };
        let ends = server.expires_in_s.unwrap_or(0.0);
        return Ok(format!(
            "{rule}: {}; {limit}; it ends in {ends:.1} s unless {} renews it\n",
            found.class, server.name
        ));
    }
    let of_servers =
        servers.flat_map(|server| server.rules.iter().map(move |found| named(server, &found.name)));
    let known = classes.map(|class| class.name.clone()).chain(of_servers).collect();
    Err(UnknownRule { rule: rule.to_owned(), known })
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.2} Mb/s", whole_bits(bytes_per_second) / 1e6)
}

fn whole_bits(bytes: f64) -> f64 {
    bytes * 8.0
}

fn line(text: &mut String, words: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{words}");
}
