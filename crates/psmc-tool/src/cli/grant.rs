//! `psmc grant`

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_service::clock::unix_seconds;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Grant, SignedGrant};

use super::{CliError, output};
use psmcd::config::{Rate, ValueError, grant_text};

/// Sessions that a site needs for a few peers and paths, as an `[[allow]]` gives it.
const SESSIONS: u16 = 64;

/// A grant that lasts longer is none that one would call short-lived; an `[[allow]]` does as well.
const MAX_LIFE: Duration = Duration::from_secs(366 * 86_400);

#[derive(Debug, Args)]
pub(super) struct GrantArgs {
    /// The file with the coordinator's private key, whose public key the relay's configuration names
    #[arg(long, value_name = "FILE")]
    coordinator: PathBuf,
    /// The public key of the relay
    #[arg(long, value_name = "KEY")]
    relay: PublicKey,
    /// The public key of the site that may use it
    #[arg(long, value_name = "KEY")]
    holder: PublicKey,
    /// For how long it counts, such as 12h or 7d
    #[arg(long = "for", default_value = "24h", value_name = "TIME")]
    life: Life,
    /// How many sessions the site may have at a time: a path needs one at each relay
    #[arg(long, default_value_t = SESSIONS, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    sessions: u16,
    /// What all of them may carry in each direction, such as 20mbit
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// The site may be a gateway
    #[arg(long)]
    gateway: bool,
}

/// For how long a grant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(pub(super) Duration);

impl FromStr for Life {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = |reason: &str| {
            ValueError::new(format!("{text:?} {reason}"), "write a number and a unit: 90m, 12h, 7d")
        };
        let (number, unit) = text.split_at(text.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
        let number: u64 = number.parse().map_err(|_| wrong("is no time"))?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong("has no unit that is known")),
        };
        let life = Duration::from_secs(number.saturating_mul(seconds));
        match life {
            Duration::ZERO => Err(wrong("is over at once")),
            life if life > MAX_LIFE => Err(wrong("is longer than a year")),
            life => Ok(Self(life)),
        }
    }
}

/// Prints a grant.
pub(super) fn run(args: &GrantArgs) -> Result<(), CliError> {
    let coordinator = psmc_toml::read_key_file(&args.coordinator).map_err(CliError::CoordinatorKey)?;
    let grant = sign(args, &coordinator, unix_seconds());
    Ok(output::print(&format!("{}\n", grant_text(&grant)))?)
}

fn sign(args: &GrantArgs, coordinator: &PrivateKey, now_s: u64) -> SignedGrant {
    let grant = Grant {
        relay: KeyBytes(*args.relay.as_bytes()),
        site: KeyBytes(*args.holder.as_bytes()),
        expires_s: now_s + args.life.0.as_secs(),
        sessions: args.sessions,
        max_rate: args.max_rate.map(Rate::bits_per_second),
        gateway: args.gateway,
    };
    let signature = coordinator.sign(&grant.signed_bytes());
    SignedGrant { grant, signature }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_says_what_was_asked_for_and_bears_the_coordinators_signature() {
        let [coordinator, relay, site] = [(); 3].map(|()| PrivateKey::generate());
        let args = GrantArgs {
            coordinator: PathBuf::new(),
            relay: relay.public(),
            holder: site.public(),
            life: "2h".parse().unwrap(),
            sessions: 3,
            max_rate: Some("20mbit".parse().unwrap()),
            gateway: true,
        };
        let SignedGrant { grant, signature } = sign(&args, &coordinator, 1000);
        assert!(coordinator.public().has_signed(&grant.signed_bytes(), &signature));
        assert_eq!((grant.relay.0, grant.site.0), (*relay.public().as_bytes(), *site.public().as_bytes()));
        assert_eq!((grant.expires_s, grant.sessions), (8200, 3));
        assert_eq!((grant.max_rate, grant.gateway), (Some(20_000_000), true));
    }

    #[test]
    fn a_time_has_a_unit_and_an_end() {
        assert_eq!("90m".parse::<Life>().unwrap().0, Duration::from_secs(5400));
        assert_eq!("7d".parse::<Life>().unwrap().0, Duration::from_secs(7 * 86_400));
        for wrong in ["", "h", "7", "7w", "-1h", "0s", "1000d", "99999999999999999999h"] {
            assert!(wrong.parse::<Life>().is_err(), "{wrong}");
        }
    }
}
