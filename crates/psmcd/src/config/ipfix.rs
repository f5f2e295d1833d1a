//! Where flow records go, `ipfix` in `[sla]`.

use std::fmt::{self, Display};
use std::time::Duration;

use psmc_toml::{Kind, ValueError};

use super::value::Endpoint;

/// What a collector listens at unless it is said: IANA's port of IPFIX (RFC 7011 §10.3.4).
const PORT: u16 = 4739;

/// The private enterprise number that is reserved for examples (RFC 5612): none is registered for PSMC.
pub(in crate::config) const EXAMPLE_ENTERPRISE: u32 = 32473;

/// Where flow records go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipfix {
    /// The collector, by UDP.
    pub collector: Endpoint,
    /// The private enterprise number of the elements that IANA does not have.
    pub enterprise: u32,
    /// The observation domain; `None` makes it of the site's public key.
    pub domain: Option<u32>,
    /// A record of a flow covers this time at most.
    pub active_timeout: Duration,
    /// A flow without a packet for this time has ended.
    pub idle_timeout: Duration,
    /// Templates are sent this often.
    pub template_interval: Duration,
}

impl Ipfix {
    /// What the engine is told.
    pub(crate) fn flows(&self) -> psmc_core::FlowConfig {
        psmc_core::FlowConfig { active_timeout: self.active_timeout, idle_timeout: self.idle_timeout }
    }
}

impl Display for Ipfix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (idle, active) = (self.idle_timeout.as_secs_f64(), self.active_timeout.as_secs_f64());
        write!(f, "to udp://{}, after {idle} s without a packet or every {active} s", self.collector)
    }
}

/// A collector.
pub(in crate::config) const COLLECTOR: Kind<Endpoint> = Kind::text("\"udp://192.0.2.9:4739\"", |text| {
    const REMEDY: &str = "write udp:// and an address or a name, and a port unless it is 4739, such as \"udp://192.0.2.9:4739\"";
    let Some(rest) = text.strip_prefix("udp://") else {
        return Err(ValueError::new(format!("{text:?} is no collector that is reached by UDP"), REMEDY));
    };
    let rest = rest.trim_end_matches('/');
    let read = rest.parse::<Endpoint>().or_else(|error| format!("{rest}:{PORT}").parse().map_err(|_| error));
    read.map_err(|error| ValueError::new(error, REMEDY))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_addresses_or_names_with_or_without_a_port() {
        for (text, read) in [
            ("udp://192.0.2.9:4739", "192.0.2.9:4739"),
            ("udp://192.0.2.9", "192.0.2.9:4739"),
            ("udp://[2001:db8::9]/", "[2001:db8::9]:4739"),
            ("udp://flows.example.org:2055", "flows.example.org:2055"),
        ] {
            assert_eq!(COLLECTOR.read(text).expect(text).to_string(), read);
        }
        for bad in ["192.0.2.9:4739", "tcp://192.0.2.9", "udp://", "udp://0.0.0.0", "udp://a b", "udp://x:0"]
        {
            assert!(COLLECTOR.read(bad).is_err(), "{bad}");
        }
    }
}
