//! `psmc dns`: routes of services, published (`reroute`) and found (`resolve`)

mod args;
mod resolve;

use std::fmt::Write as _;
use std::path::Path;

use hickory_proto::rr::{Name, RData};
use psmc_net::keys::{KeyFileError, read_private_key};
use psmc_routes::update::{
    self, Change, Report, Scope, ServerReport, Target, TsigKeyError, UpdateError, published,
};
use psmc_routes::{AltRecord, GroupKey, GroupTag, RouteError, RouteSet, SignedRoutes, Validity};
use psmc_service::clock::since_1970;
use psmc_service::socket::ClientError;
use serde::Serialize;
use tokio::runtime::Builder;

use super::{CliError, output};
pub(super) use args::{DnsCommand, RerouteCommand};
use args::{PublishArgs, RefreshArgs, SigningArgs, TargetArgs, WithdrawArgs};

/// Why routes were not changed everywhere.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum DnsError {
    #[error(transparent)]
    TsigKey(#[from] TsigKeyError),
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error("the name {0} is too long for the prefix _psmc")]
    NameTooLong(Name),
    #[error("no server returned the current routes; publish them instead")]
    NotRead(#[source] UpdateError),
    #[error("{0} has no routes for this group that the service has signed; publish some")]
    NothingToRefresh(Name),
    #[error("{failed} of {all} servers were not updated; run the command again when they are reachable")]
    Incomplete { failed: usize, all: usize },
    #[error(transparent)]
    Status(#[from] ClientError),
}

pub(super) fn run(command: DnsCommand) -> Result<(), CliError> {
    match command {
        DnsCommand::Reroute { command } => reroute(*command),
        DnsCommand::Resolve { command } => resolve::run(command),
    }
}

fn reroute(command: RerouteCommand) -> Result<(), CliError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            RerouteCommand::Publish(args) => publish(&args).await,
            RerouteCommand::Withdraw(args) => withdraw(&args).await,
            RerouteCommand::Refresh(args) => refresh(&args).await,
        }
    })
}

async fn publish(args: &PublishArgs) -> Result<(), CliError> {
    let target = args.target.target()?;
    let validity = validity(&args.signing, 0);
    let set = RouteSet::new(&args.target.service, validity, args.relays()).map_err(DnsError::Routes)?;
    announce(&args.target, &target, &args.signing, set, args.svcb).await
}

async fn refresh(args: &RefreshArgs) -> Result<(), CliError> {
    let target = args.target.target()?;
    let (alt, svcb) = published(&target, &args.target.service).await.map_err(DnsError::NotRead)?;
    let group = args.signing.group_key.as_deref().map(group_key).transpose()?;
    let key = read_private_key(&args.signing.service_key).map_err(DnsError::KeyFile)?.public();
    let ours = |routes: &SignedRoutes| routes.is_signed_by(&key);
    let current = routes_of(&args.target.service, &alt, group.as_ref()).into_iter().filter(ours);
    let Some(current) = current.max_by_key(|routes| routes.claims().validity().serial) else {
        return Err(DnsError::NothingToRefresh(args.target.service.clone()).into());
    };
    let validity = validity(&args.signing, current.claims().validity().serial);
    let relays = current.claims().relays().to_vec();
    let set = RouteSet::new(&args.target.service, validity, relays).map_err(DnsError::Routes)?;
    announce(&args.target, &target, &args.signing, set, svcb && group.is_none()).await
}

async fn withdraw(args: &WithdrawArgs) -> Result<(), CliError> {
    let target = args.target.target()?;
    let scope = match &args.group_key {
        _ if args.all => Scope::All,
        Some(file) => Scope::Group(group_key(file)?.tag()),
        None => Scope::Group(GroupTag::EVERYONE),
    };
    let service = &args.target.service;
    let change = Change::withdraw(service, scope).map_err(|_| DnsError::NameTooLong(service.clone()))?;
    carry_out(&args.target, &target, &change, None).await
}

/// The routes of a group among the records of a service.
fn routes_of(service: &Name, alt: &[RData], group: Option<&GroupKey>) -> Vec<SignedRoutes> {
    let records = alt.iter().filter_map(|rdata| AltRecord::of_rdata(service, rdata)?.ok());
    let readable = |record| match (record, group) {
        (AltRecord::Open(routes), None) => Some(routes),
        (AltRecord::Sealed(sealed), Some(key)) => key.open(&sealed).ok(),
        (AltRecord::Open(_), Some(_)) | (AltRecord::Sealed(_), None) => None,
    };
    records.filter_map(readable).collect()
}

async fn announce(
    args: &TargetArgs,
    target: &Target,
    signing: &SigningArgs,
    set: RouteSet,
    svcb: bool,
) -> Result<(), CliError> {
    let key = read_private_key(&signing.service_key).map_err(DnsError::KeyFile)?;
    let group = signing.group_key.as_deref().map(group_key).transpose()?;
    let validity = set.validity();
    let change = Change::publish(set, &key, group.as_ref(), svcb, signing.ttl)
        .map_err(|_| DnsError::NameTooLong(args.service.clone()))?;
    carry_out(args, target, &change, Some(validity)).await
}

async fn carry_out(
    args: &TargetArgs,
    target: &Target,
    change: &Change,
    validity: Option<Validity>,
) -> Result<(), CliError> {
    let report = update::run(target, change, args.mode()).await;
    let text = if args.json {
        let (serial, expires_s) = (validity.map(|v| v.serial), validity.map(|v| v.expires_s));
        let service = args.service.to_string();
        output::json(&RerouteReport {
            service,
            serial,
            expires_s,
            dry_run: args.dry_run,
            servers: &report.servers,
        })?
    } else if args.dry_run {
        nsupdate_script(target, &report)
    } else {
        described(&report)
    };
    output::print(&text)?;
    let failed = report.servers.iter().filter(|server| !server.ok).count();
    match failed {
        0 => Ok(()),
        _ => Err(DnsError::Incomplete { failed, all: report.servers.len() }.into()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct RerouteReport<'a> {
    service: String,
    serial: Option<u64>,
    expires_s: Option<u64>,
    dry_run: bool,
    servers: &'a [ServerReport],
}

fn described(report: &Report) -> String {
    let mut text = String::new();
    for server in &report.servers {
        // Writing to a string does not fail.
        let _ = match &server.error {
            None => writeln!(text, "{}: changed in {} ms", server.server, server.elapsed_ms),
            Some(error) => {
                writeln!(text, "{}: not changed, after {} tries: {error}", server.server, server.attempts)
            }
        };
    }
    text
}

fn nsupdate_script(target: &Target, report: &Report) -> String {
    let mut text = String::new();
    for (server, reported) in target.servers.iter().zip(&report.servers) {
        let address = server.addresses()[0];
        let (ip, port) = (address.ip(), address.port());
        // Writing to a string does not fail.
        let _ = match (&reported.update, &reported.error) {
            (Some(update), _) => writeln!(text, "server {ip} {port}\nzone {}\n{update}send\n", target.zone),
            (None, error) => writeln!(text, "; {address}: {}\n", error.as_deref().unwrap_or_default()),
        };
    }
    text
}

fn group_key(file: &Path) -> Result<GroupKey, DnsError> {
    Ok(GroupKey::new(&read_private_key(file)?))
}

/// From now on; the serial is the time, and above `previous` even where the clock was set back.
fn validity(signing: &SigningArgs, previous: u64) -> Validity {
    let now = since_1970();
    let serial = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    Validity { serial: serial.max(previous.saturating_add(1)), expires_s: now.as_secs() + signing.lifetime }
}
