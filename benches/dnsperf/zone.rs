//! The zone that all servers have, and what they are asked.

use std::error::Error;
use std::fmt::Write;

use hickory_proto::rr::Name;
use psmc_net::keys::PrivateKey;
use psmc_routes::{AltRecord, Relay, RouteSet, Validity};
use psmc_service::clock::unix_seconds;

/// Services in the zone.
const SERVICES: u32 = 1000;

/// Relays in the routes of each.
const RELAYS: [&str; 3] = ["192.0.2.7:5115", "198.51.100.7:5115", "203.0.113.7:5115"];

/// A zone file.
pub(crate) struct Zone {
    pub(crate) text: String,
}

impl Zone {
    /// One with the services' addresses.
    pub(crate) fn plain() -> Self {
        let mut text = "$ORIGIN example.com.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n\
                        @ IN NS ns1\nns1 IN A 127.0.0.1\n"
            .to_owned();
        for number in 0..SERVICES {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "service{number} IN A 203.0.113.{}", number % 250 + 1);
        }
        Self { text }
    }

    /// The same with the services' routes beside them.
    pub(crate) fn with_routes() -> Result<Self, Box<dyn Error>> {
        let Self { mut text } = Self::plain();
        let (key, relay_key) = (PrivateKey::from_seed([1; 32]), PrivateKey::from_seed([7; 32]).public());
        let validity = Validity { serial: 1, expires_s: unix_seconds() + 86_400 };
        for number in 0..SERVICES {
            let relay = |address: &&str| -> Result<Relay, Box<dyn Error>> {
                Ok(Relay { address: address.parse()?, key: relay_key, gateway: None })
            };
            let relays = RELAYS.iter().map(relay).collect::<Result<Vec<_>, _>>()?;
            let name = Name::from_ascii(format!("service{number}.example.com."))?;
            let routes = RouteSet::new(&name, validity, relays)?.sign(&key);
            let record = AltRecord::Open(routes).encode();
            let hex: String = record.iter().map(|byte| format!("{byte:02X}")).collect();
            let _ = writeln!(text, "service{number} IN TYPE65400 \\# {} {hex}", record.len());
        }
        Ok(Self { text })
    }
}

/// What is asked of which zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Addresses, in the zone without routes.
    Addresses,
    /// Addresses, in the zone with routes.
    AddressesBeside,
    /// Routes.
    Routes,
}

impl Load {
    pub(crate) const COUNT: usize = 3;

    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Addresses, Self::AddressesBeside, Self::Routes];

    /// Whether the zone has routes.
    pub(crate) fn has_routes(self) -> bool {
        self != Self::Addresses
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Addresses => "addresses, no routes in the zone",
            Self::AddressesBeside => "addresses, routes beside them",
            Self::Routes => "routes",
        }
    }

    /// The questions, one for each service, as `dnsperf` reads them.
    pub(crate) fn questions(self) -> String {
        let kind = if self == Self::Routes { "TYPE65400" } else { "A" };
        (0..SERVICES).map(|number| format!("service{number}.example.com {kind}\n")).collect()
    }
}
