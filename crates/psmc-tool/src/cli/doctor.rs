//! `psmc doctor`: why a tunnel does not work, and what to do about it.
//!
//! [`gather`] looks at the machine, the running daemon and the ways to the peers, and makes [`facts`] of what it sees; [`judge`] makes
//! findings of facts, without looking at anything.

mod facts;
mod finding;
mod firewall;
mod gather;
mod judge;
mod lifetime;
mod nat;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::args::{Life, Target};
use super::setup::CONFIG_DIR;
use super::{CliError, connect, output};
use facts::Facts;
use finding::{Report, Severity};
use psmc_api::{Client, ClientError};
use psmcd::config::Config;

/// The exit status if something is wrong, and if nothing could be looked at.
const WRONG: u8 = 1;
const NOT_LOOKED: u8 = 2;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// The configuration of this site [default: that of the running daemon, else the only one in /etc/psmc]
    file: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Find out the kind of each NAT, and how long it remembers a socket that rests: takes 3 minutes, or as long as said
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "180s")]
    nat: Option<Life>,
}

/// Why nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub(super) enum DoctorError {
    #[error("no psmcd runs here, and {CONFIG_DIR} holds no configuration: name it, `psmc doctor FILE`")]
    NoFile,
    #[error("{CONFIG_DIR} holds several configurations: name one, `psmc doctor FILE`")]
    SeveralFiles,
    #[error("cannot read {}", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("cannot look at the network of this machine")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Ask(#[from] ClientError),
}

/// Looks at everything, and prints what was found.
pub(super) fn run(args: &DoctorArgs, target: &Target) -> Result<ExitCode, CliError> {
    let report = match examine(args, target) {
        Ok(report) => report,
        Err(error) => {
            output::warn(&crate::error_chain(&error));
            return Ok(ExitCode::from(NOT_LOOKED));
        }
    };
    let text = if args.json { output::json(&report)? } else { report.to_string() };
    output::print(&text)?;
    let is_wrong = report.findings.iter().any(|finding| finding.fault.severity() == Severity::Wrong);
    Ok(if is_wrong { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

fn examine(args: &DoctorArgs, target: &Target) -> Result<Report, DoctorError> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => find_file(target)?,
    };
    // What is wrong in a file is a finding; that there is nothing to be read is none.
    File::open(&file).map_err(|error| DoctorError::Unreadable(file.clone(), error))?;
    let mut report = Report { file: file.clone(), ..Report::default() };
    match Config::load(&file) {
        Ok(config) => {
            let facts = gather::all(&config, &file).map_err(DoctorError::Runtime)?;
            report.site = Some(config.site.name.to_string());
            report.findings = judge::all(&config, &facts);
            report.nats = nat::judge(&facts.views(), &facts.routers());
            report.unseen = facts.unseen.clone();
            if let Some(Life(longest)) = args.nat {
                ask_about_nats(longest, &config, &facts, &mut report);
            }
        }
        Err(error) => {
            report.findings = judge::of_file(&error, gather::key_file(&file).as_ref());
            let machine = gather::without_config();
            report.findings.extend(judge::of_machine(&machine));
            report.unseen.push("everything that needs a configuration: mend the file first".to_owned());
        }
    }
    Ok(report)
}

/// Has the peers tell what becomes of sockets that are opened for it, and adds that to the report.
fn ask_about_nats(longest: Duration, config: &Config, facts: &Facts, report: &mut Report) {
    let longest = longest.min(LONGEST_REST);
    let mut views = facts.views();
    if views.is_empty() {
        let why = "kind and memory of NATs: no path works whose peer says where it sees it, so that nobody can be asked";
        return report.unseen.push(why.to_owned());
    }
    let start = Instant::now();
    output::warn(&format!("asking about NATs, for up to {} s", longest.as_secs() + 10));
    let mut progress = |text: &str| output::warn(&format!("{:.0} s: {text}", start.elapsed().as_secs_f64()));
    let asked = Client::connect(config.site.control_socket.as_path())
        .and_then(|mut client| lifetime::Lifetimes::new(&views, &mut client).ask(longest, &mut progress));
    match asked {
        Err(error) => report.unseen.push(format!("kind and memory of NATs: {}", crate::error_chain(&error))),
        Ok(told) => {
            views.extend(told.views);
            report.nats = nat::judge(&views, &facts.routers());
            nat::remember(&mut report.nats, &told.found);
            report.findings.extend(judge::of_memory(config, &told.found));
            report.findings.sort_by_key(|finding| (finding.fault.severity(), finding.fault));
            report.unseen.extend(told.unseen);
        }
    }
}

/// No socket rests for longer: whoever waits has something else to do.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The configuration of the running daemon, or the one where units look for it.
fn find_file(target: &Target) -> Result<PathBuf, DoctorError> {
    match connect(target).and_then(|mut client| client.additions()) {
        Ok(additions) => return Ok(additions.file),
        Err(error) if target.socket.is_some() || target.site.is_some() => return Err(error.into()),
        Err(_) => {}
    }
    let entries = fs::read_dir(Path::new(CONFIG_DIR)).into_iter().flatten().filter_map(Result::ok);
    let is_config = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files = entries.map(|entry| entry.path()).filter(is_config);
    match (files.next(), files.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(DoctorError::SeveralFiles),
        (None, _) => Err(DoctorError::NoFile),
    }
}
