//! TSIG as bytes (RFC 8945). What is signed is a message as it came, whatever is in its records.

use hickory_proto::rr::TSigner;
use hickory_proto::rr::rdata::TSIG;
use hickory_proto::serialize::binary::BinEncoder;

use super::Incoming;

/// Messages of one transfer between two that are signed, at most (RFC 8945 §5.3.1).
const MAX_UNSIGNED: usize = 99;

/// What the MAC of a message is made of (§4.3): the message before its signature, as its sender counted and numbered it,
/// behind `earlier`, the MAC of the message before with its length, if there is one.
pub(super) fn signed_bytes(incoming: &Incoming, bytes: &[u8], earlier: &[u8]) -> Option<Vec<u8>> {
    let tsig = &incoming.message.signature()?.data;
    let mut signed = earlier.to_vec();
    signed.extend(tsig.oid.to_be_bytes());
    signed.extend(bytes.get(2..10)?);
    let additionals = u16::from_be_bytes(*bytes.get(10..)?.first_chunk()?);
    signed.extend(additionals.checked_sub(1)?.to_be_bytes());
    signed.extend(bytes.get(12..incoming.signed_len?)?);
    Some(signed)
}

/// The responses to a signed request, which are signed one after the other.
pub struct Conversation {
    signer: TSigner,
    /// What the next MAC covers in front of its message.
    before: Vec<u8>,
    is_first: bool,
    unsigned: usize,
}

impl Conversation {
    /// The conversation that a request with this MAC has begun.
    pub fn new(signer: TSigner, mac: &[u8]) -> Self {
        Self { signer, before: with_length(mac), is_first: true, unsigned: 0 }
    }

    /// Whether the next response is the other side's, as far as can be told: after the first one some have no signature, which
    /// that of a later one covers. `now_s` is in seconds since 1970.
    pub fn accept(&mut self, incoming: &Incoming, bytes: &[u8], now_s: u64) -> bool {
        let Some(record) = incoming.message.signature() else {
            self.unsigned += 1;
            self.before.extend(bytes);
            return !self.is_first && self.unsigned <= MAX_UNSIGNED;
        };
        let tsig = &record.data;
        let is_ours = record.name == *self.signer.signer_name()
            && tsig.algorithm == *self.signer.algorithm()
            && tsig.error.is_none()
            && tsig.time.abs_diff(now_s) <= tsig.fudge.into();
        let Some(mut signed) = signed_bytes(incoming, bytes, &self.before) else { return false };
        signed.extend(if self.is_first { variables(&self.signer, tsig) } else { timers(tsig) });
        if !is_ours || self.signer.verify(&signed, &tsig.mac).is_err() {
            return false;
        }
        (self.before, self.is_first, self.unsigned) = (with_length(&tsig.mac), false, 0);
        true
    }

    /// Whether everything that came so far is covered by a signature.
    pub fn is_complete(&self) -> bool {
        !self.is_first && self.unsigned == 0
    }
}

/// Whether a request is signed with a key; its MAC covers all variables (§4.3.3).
pub fn is_request_signed(signer: &TSigner, incoming: &Incoming, bytes: &[u8]) -> bool {
    let Some(signature) = incoming.message.signature() else { return false };
    let Some(mut signed) = signed_bytes(incoming, bytes, &[]) else { return false };
    signed.extend(variables(signer, &signature.data));
    signer.verify(&signed, &signature.data.mac).is_ok()
}

fn variables(signer: &TSigner, tsig: &TSIG) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Names and a few numbers fit into a message.
    let _ = tsig.emit_tsig_for_mac(&mut BinEncoder::new(&mut bytes), signer.signer_name());
    bytes
}

/// Later messages have only the time instead of all variables (§5.3.1).
fn timers(tsig: &TSIG) -> Vec<u8> {
    [&tsig.time.to_be_bytes()[2..], &tsig.fudge.to_be_bytes()].concat()
}

fn with_length(mac: &[u8]) -> Vec<u8> {
    let length = u16::try_from(mac.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), mac].concat()
}
