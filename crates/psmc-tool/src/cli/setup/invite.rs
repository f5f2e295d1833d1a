//! `psmc invite`, `psmc peers` and `psmc expel`: who belongs to a tunnel.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use jiff::Timestamp;
use psmc_net::keys::PrivateKey;
use psmcd::config::{AllowedNet, Config, Endpoint, Files, Invitation, Name, SaveError, ValueError};
use psmcd::enrolment::JoinUri;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

use super::{SetupError, addresses, endpoint};
use crate::cli::args::{Life, Target};
use crate::cli::status::headline;
use crate::cli::{CliError, connect, output};
use psmc_api::{Client, ClientError, InvitationStatus};

/// For how long an invitation counts.
const DEFAULT_LIFE: &str = "24h";

#[derive(Debug, Args)]
pub(in crate::cli) struct InviteArgs {
    /// What the new site will be called
    name: Name,
    /// A network behind the new site
    #[arg(long = "network", value_name = "NET")]
    networks: Vec<AllowedNet>,
    /// For how long the invitation counts
    #[arg(long = "for", value_name = "TIME", default_value = DEFAULT_LIFE)]
    life: Life,
    /// Where the new site reaches this one, if not at the `endpoint` of the configuration
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    endpoint: Option<Endpoint>,
    /// Print a QR code, too
    #[arg(long)]
    qr: bool,
    #[command(flatten)]
    which: Which,
}

/// Which configuration is meant.
#[derive(Debug, Args)]
pub(in crate::cli) struct Which {
    /// The configuration of this site [default: that of the running daemon]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A configuration that is changed, and the daemon that has it, if it runs.
struct ConfigInUse {
    file: PathBuf,
    config: Config,
    client: Option<Client>,
}

impl ConfigInUse {
    fn open(which: &Which, target: &Target) -> Result<Self, CliError> {
        if let Some(file) = &which.config {
            let config = Config::load(file)?;
            let client = Client::connect(config.site.control_socket.as_path()).ok();
            return Ok(Self { file: file.clone(), config, client });
        }
        let mut client = connect(target)?;
        let file = client.additions()?.file;
        Ok(Self { config: Config::load(&file)?, file, client: Some(client) })
    }

    /// Has the daemon take up what was changed.
    fn reload(&mut self, without: &str) -> Result<(), CliError> {
        match &mut self.client {
            Some(client) => drop(client.reload()?),
            None => output::warn(&format!("psmcd does not run: {without}")),
        }
        Ok(())
    }
}

/// Prints a line with which a new site joins.
pub(in crate::cli) fn invite(args: &InviteArgs, target: &Target) -> Result<(), CliError> {
    let mut in_use = ConfigInUse::open(&args.which, target)?;
    let secret = PrivateKey::generate();
    let invitation = invitation(args, &in_use.config, &secret).map_err(SetupError::from)?;
    let endpoint = endpoint_of(args, &in_use.config).map_err(SetupError::from)?;
    let host = in_use.config.site.private_key.public();
    let uri = JoinUri { name: args.name.clone(), endpoint, secret, host };
    save(&in_use, &invitation)?;
    in_use.reload("the invitation can be used once it does")?;
    let networks: Vec<_> = invitation.allowed_ips.iter().map(ToString::to_string).collect();
    let text = uri.to_text();
    let code = if args.qr { qr_code(&text) } else { String::new() };
    Ok(output::print(&format!(
        "{code}{} joins with this command, once, until {}; it gets {}.\nWhoever has the command can join: send it over a \
         safe channel.\n\n  sudo psmc join '{}'\n",
        args.name,
        invitation.expires,
        networks.join(", "),
        *text
    ))?)
}

fn invitation(args: &InviteArgs, config: &Config, secret: &PrivateKey) -> Result<Invitation, ValueError> {
    if config.peers.iter().any(|peer| peer.name == args.name) || config.site.name == args.name {
        let reason = format!("there is a site {} already", args.name);
        return Err(ValueError::new(
            reason,
            format!("choose another name, or `psmc expel {}` first", args.name),
        ));
    }
    let Some(mut allowed_ips) = addresses::free(config) else {
        let reason = "every address of the tunnel's networks is taken";
        return Err(ValueError::new(
            reason,
            "give the site an address of a larger network, as a further one of its `addresses`",
        ));
    };
    allowed_ips.extend(&args.networks);
    let expires = Timestamp::now() + args.life.0;
    // Nobody cares for less, and it is easier to read.
    let expires = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
    Ok(Invitation { name: args.name.clone(), public_key: secret.public(), allowed_ips, expires })
}

fn endpoint_of(args: &InviteArgs, config: &Config) -> Result<Endpoint, ValueError> {
    let endpoint = args.endpoint.clone().or_else(|| config.site.endpoint.clone());
    endpoint.ok_or_else(|| {
        let remedy = "add endpoint = \"203.0.113.5:5115\" to its [site], or name it with --endpoint";
        ValueError::new("the configuration does not say where this site is reached", remedy)
    })
}

/// Writes the invitation in the place of those of its name, and of those that have expired.
fn save(in_use: &ConfigInUse, invitation: &Invitation) -> Result<(), SetupError> {
    let now = Timestamp::now();
    let is_over = |old: &&Invitation| old.name == invitation.name || old.expires <= now;
    let over: Vec<_> =
        in_use.config.invitations.iter().filter(is_over).map(|old| old.public_key.to_string()).collect();
    let mut files = Files::open(&in_use.file)?;
    files.remove_invitations(|_, key| over.iter().any(|over| over == key))?;
    if !files.add_invitation(invitation)? {
        let reason = "the configuration has its invitations in brackets, where none can be added";
        return Err(ValueError::new(reason, "write each below a line [[invitation]]").into());
    }
    Ok(files.save()?)
}

fn qr_code(text: &str) -> String {
    match QrCode::new(text) {
        // Terminals are dark.
        Ok(code) => {
            code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build() + "\n"
        }
        // It is too long for one.
        Err(error) => {
            output::warn(&format!("no QR code: {error}"));
            String::new()
        }
    }
}

/// Prints who belongs to the tunnel, and who may join.
pub(in crate::cli) fn peers(client: &mut Client) -> Result<(), CliError> {
    let status = client.status()?;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["SITE", "STATE", "RUNS", "NETWORKS", "PUBLIC KEY"]);
    for peer in &status.peers {
        let networks = peer.allowed_ips.join(", ");
        let software = peer.software.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([peer.name.clone(), headline(peer), software, networks, peer.public_key.clone()]);
    }
    for invitation in &status.site.invitations {
        let InvitationStatus { name, allowed_ips, expires, expired } = invitation;
        let state =
            if *expired { format!("invited, expired {expires}") } else { format!("invited until {expires}") };
        table.add_row([name.clone(), state, "-".to_owned(), allowed_ips.join(", "), String::new()]);
    }
    Ok(output::print(&format!("{}\n", table.trim_fmt()))?)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExpelArgs {
    /// The site
    name: Name,
    #[command(flatten)]
    which: Which,
}

/// Removes a peer, or an invitation, for good.
pub(in crate::cli) fn expel(args: &ExpelArgs, target: &Target) -> Result<(), CliError> {
    let mut in_use = ConfigInUse::open(&args.which, target)?;
    let name = args.name.as_str();
    let mut files = Files::open(&in_use.file).map_err(SetupError::from)?;
    let mut remove = || -> Result<bool, SaveError> {
        Ok(files.remove_peer(name)? | (files.remove_invitations(|invited, _| invited == name)? > 0))
    };
    if remove().map_err(SetupError::from)? {
        files.save().map_err(SetupError::from)?;
        in_use.reload("it is let in no longer once it is started")?;
    } else {
        // It may have been added while the daemon runs.
        let removed = in_use.client.as_mut().map(|client| client.remove_peer(name));
        removed.unwrap_or_else(|| {
            Err(ClientError::Refused(format!("{} has no peer {name}", in_use.file.display())))
        })?;
    }
    Ok(output::print(&format!("{name} is expelled: its key is let in no longer.\n"))?)
}
