//! Grants: what gateways and clients show to relays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Grant, SignedGrant};

/// Sessions that a site may have at a relay: a path over each of 64 uplinks.
const SESSIONS: u16 = 64;

/// Who may do what at a relay.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The relay.
    pub relay: PublicKey,
    /// The site.
    pub site: PublicKey,
    /// Until when, in seconds since 1970.
    pub expires_s: u64,
    /// What the site may send and receive there, in bits per second.
    pub max_rate: Option<u64>,
    /// Whether it may be a gateway.
    pub gateway: bool,
}

impl Granted {
    /// The grant as `psmc grant` prints it, signed by the coordinator.
    #[must_use]
    pub fn sign(self, coordinator: &PrivateKey) -> String {
        let grant = Grant {
            relay: KeyBytes(*self.relay.as_bytes()),
            site: KeyBytes(*self.site.as_bytes()),
            expires_s: self.expires_s,
            sessions: SESSIONS,
            max_rate: self.max_rate,
            gateway: self.gateway,
        };
        let signature = coordinator.sign(&grant.signed_bytes());
        STANDARD.encode(SignedGrant { grant, signature }.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_what_relays_read() {
        let [coordinator, relay, site] = [1, 2, 3].map(|seed| PrivateKey::from_seed([seed; 32]));
        let granted = Granted {
            relay: relay.public(),
            site: site.public(),
            expires_s: 7,
            max_rate: Some(5),
            gateway: true,
        };
        let bytes = STANDARD.decode(granted.sign(&coordinator)).unwrap();
        let signed = SignedGrant::from_bytes(&bytes).unwrap();
        assert!(coordinator.public().has_signed(&signed.grant.signed_bytes(), &signed.signature));
        assert_eq!(signed.grant.site.0, *site.public().as_bytes());
        assert!(signed.grant.gateway);
    }
}
