//! The right to use a relay, signed by the coordinator.

use crate::fields::{self, Malformed, Reader};
use crate::ids::KeyBytes;

/// Length in bytes of an Ed25519 signature (RFC 8032 §5.1.6).
pub const SIGNATURE_LEN: usize = 64;

/// Length in bytes of a grant with its signature.
pub const SIGNED_GRANT_LEN: usize = 83 + SIGNATURE_LEN;

/// With what the signed bytes begin, so that a signature means this and nothing else.
const PREFIX: &[u8] = b"psmc relay grant v1";

const MAY_BE_GATEWAY: u8 = 1;

/// What the coordinator lets one site do at one relay, until some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The relay at which it counts.
    pub relay: KeyBytes,
    /// The site that has it, which proves its key in the TLS handshake.
    pub site: KeyBytes,
    /// The last second at which it counts, in seconds since 1970 (UTC).
    pub expires_s: u64,
    /// How many sessions the site may have at a time.
    pub sessions: u16,
    /// What all of them may carry in each direction, in bits per second.
    pub max_rate: Option<u64>,
    /// Whether the site may be a gateway.
    pub gateway: bool,
}

/// A grant with the signature of whoever gave it. Nothing says yet that it is the coordinator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedGrant {
    /// What is granted.
    pub grant: Grant,
    /// The signature over [`Grant::signed_bytes`].
    pub signature: [u8; SIGNATURE_LEN],
}

impl Grant {
    /// What the coordinator signs.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = PREFIX.to_vec();
        self.encode(&mut bytes);
        bytes
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.relay.0);
        out.extend(self.site.0);
        out.extend(self.expires_s.to_be_bytes());
        out.extend(self.sessions.to_be_bytes());
        fields::rate(self.max_rate, out);
        out.push(if self.gateway { MAY_BE_GATEWAY } else { 0 });
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            relay: KeyBytes(reader.array()?),
            site: KeyBytes(reader.array()?),
            expires_s: reader.u64()?,
            sessions: reader.u16()?,
            max_rate: reader.rate()?,
            gateway: match reader.u8()? {
                0 => false,
                MAY_BE_GATEWAY => true,
                _ => return Err(Malformed::Illegal("grant")),
            },
        })
    }
}

impl SignedGrant {
    /// The grant and its signature, as they travel.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SIGNED_GRANT_LEN);
        self.grant.encode(&mut bytes);
        bytes.extend(self.signature);
        bytes
    }

    /// Reads a grant that stands for itself.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no grant, or more than one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let reader = &mut Reader::new(bytes);
        let signed = Self { grant: Grant::decode(reader)?, signature: reader.array()? };
        if bytes.len() == SIGNED_GRANT_LEN { Ok(signed) } else { Err(Malformed::Illegal("grant")) }
    }
}

/// Appends whether there is a grant, and it.
pub(super) fn encode(grant: Option<&SignedGrant>, out: &mut Vec<u8>) {
    out.push(u8::from(grant.is_some()));
    if let Some(signed) = grant {
        out.extend(signed.to_bytes());
    }
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<SignedGrant>, Malformed> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(SignedGrant { grant: Grant::decode(reader)?, signature: reader.array()? })),
        _ => Err(Malformed::Illegal("grant")),
    }
}
