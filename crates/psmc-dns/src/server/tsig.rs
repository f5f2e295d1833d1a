//! TSIG on the server's side (RFC 8945 §5): who has signed a request, and whether it was carried out already.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::tsig::{TSIG, TsigError, make_tsig_record};
use hickory_proto::rr::{Name, TSigner};
use hickory_proto::serialize::binary::BinEncodable;
use psmc_routes::update::TsigKey;
use psmc_routes::wire::{Incoming, is_request_signed};

/// Who has signed a request, and what its responses are signed with.
pub(super) struct Session {
    signer: TSigner,
    id: u16,
    /// The MAC of the message before, which each MAC covers.
    mac: Vec<u8>,
    is_first: bool,
}

/// A request whose signature is wrong.
pub(super) struct Unverified {
    error: TsigError,
    key: Name,
    id: u16,
    time: u64,
    session: Option<Session>,
}

/// Checks the signature of a request; `None` where there is none.
pub(super) fn verify(
    incoming: &Incoming,
    bytes: &[u8],
    keys: &[TsigKey],
    now_s: u64,
) -> Result<Option<Session>, Box<Unverified>> {
    let Some(signature) = incoming.message.signature() else { return Ok(None) };
    let (id, time) = (signature.data.oid, signature.data.time);
    let refuse =
        |error, session| Box::new(Unverified { error, key: signature.name.clone(), id, time, session });
    let known =
        keys.iter().find(|key| *key.name() == signature.name && *key.algorithm() == signature.data.algorithm);
    let signer = known.ok_or_else(|| refuse(TsigError::BadKey, None))?.signer();
    if !is_request_signed(&signer, incoming, bytes) {
        return Err(refuse(TsigError::BadSig, None));
    }
    let fudge = u64::from(signer.fudge());
    let session = Session { signer, id, mac: signature.data.mac.clone(), is_first: true };
    if time.abs_diff(now_s) > fudge {
        return Err(refuse(TsigError::BadTime, Some(session)));
    }
    Ok(Some(session))
}

impl Session {
    /// The key's name.
    pub(super) fn key(&self) -> &Name {
        self.signer.signer_name()
    }

    /// The MAC of the request, or of the last response.
    pub(super) fn mac(&self) -> &[u8] {
        &self.mac
    }

    /// Signs a response, or the next message of one.
    pub(super) fn sign(&mut self, response: Vec<u8>, now_s: u64) -> Vec<u8> {
        self.sign_as(response, now_s, None, Vec::new())
    }

    fn sign_as(&mut self, response: Vec<u8>, time: u64, error: Option<TsigError>, other: Vec<u8>) -> Vec<u8> {
        let fudge = self.signer.fudge();
        let tsig = TSIG::new(self.signer.algorithm().clone(), time, fudge, Vec::new(), self.id, error, other);
        let signed = if self.is_first {
            self.signer.encode_response_tbs(&self.mac, &response, &tsig).unwrap_or_default()
        } else {
            // Later messages have only the time instead of all variables (§5.3.1).
            let length = u16::try_from(self.mac.len()).unwrap_or(u16::MAX);
            let parts: [&[u8]; 5] =
                [&length.to_be_bytes(), &self.mac, &response, &time.to_be_bytes()[2..], &fudge.to_be_bytes()];
            parts.concat()
        };
        let mac = self.signer.sign(&signed).expect("the algorithm is one that is supported");
        (self.mac, self.is_first) = (mac.clone(), false);
        append(response, self.signer.signer_name(), tsig.set_mac(mac))
    }
}

impl Unverified {
    /// Why, for the log.
    pub(super) fn error(&self) -> TsigError {
        self.error
    }

    /// The response, which says what is wrong (§5.2).
    pub(super) fn response(mut self, request: &Message, now_s: u64) -> Vec<u8> {
        let mut response = Message::error_msg(request.id, request.op_code, ResponseCode::NotAuth);
        response.queries.clone_from(&request.queries);
        let bytes = response.to_vec().unwrap_or_default();
        if let Some(session) = &mut self.session {
            let clock = now_s.to_be_bytes()[2..].to_vec();
            return session.sign_as(bytes, self.time, Some(self.error), clock);
        }
        let algorithm = request.signature().map(|signature| signature.data.algorithm.clone());
        let Some(algorithm) = algorithm else { return bytes };
        let tsig = TSIG::new(algorithm, now_s, 300, Vec::new(), self.id, Some(self.error), Vec::new());
        append(bytes, &self.key, tsig)
    }
}

/// Puts a TSIG record at the end of a message that has none, and counts it.
fn append(mut message: Vec<u8>, key: &Name, tsig: TSIG) -> Vec<u8> {
    let Ok(record) = make_tsig_record(key.clone(), tsig).to_bytes() else { return message };
    if let Some([high, low]) = message.get_mut(ADDITIONAL_COUNT) {
        [*high, *low] = (u16::from_be_bytes([*high, *low]) + 1).to_be_bytes();
    }
    message.extend(record);
    message
}

/// Where a message has the number of its additional records (RFC 1035 §4.1.1).
const ADDITIONAL_COUNT: std::ops::Range<usize> = 10..12;

/// How long a signature counts before and after it was made (RFC 8945 §10), and so how long it is remembered.
const WINDOW_S: u64 = 2 * 300;

/// Updates that are remembered at most: more than a hundred in each second of the window.
const MAX_REMEMBERED: usize = 65_536;

/// The MACs of the updates of the last minutes: one that was recorded on the way is not carried out again.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    macs: BTreeSet<Vec<u8>>,
    by_age: VecDeque<(u64, Vec<u8>)>,
}

impl Replays {
    /// Whether an update with this MAC comes for the first time. Where too many come to be remembered, none is new.
    pub(super) fn is_new(&self, mac: &[u8], now_s: u64) -> bool {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = remembered.by_age.pop_front_if(|(seen_s, _)| *seen_s + WINDOW_S < now_s) {
            remembered.macs.remove(&old);
        }
        if remembered.macs.len() >= MAX_REMEMBERED || !remembered.macs.insert(mac.to_vec()) {
            return false;
        }
        remembered.by_age.push_back((now_s, mac.to_vec()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_once_while_its_signature_does() {
        let replays = Replays::default();
        assert!(replays.is_new(b"a", 1000) && replays.is_new(b"b", 1001));
        assert!(!replays.is_new(b"a", 1000 + WINDOW_S));
        assert!(replays.is_new(b"a", 1001 + WINDOW_S));
        assert!(!replays.is_new(b"b", 1001 + WINDOW_S));
    }

    #[test]
    fn memory_is_bounded() {
        let replays = Replays::default();
        let mac = |number: usize| number.to_be_bytes();
        assert!((0..MAX_REMEMBERED).all(|number| replays.is_new(&mac(number), 1000)));
        assert!(!replays.is_new(&mac(MAX_REMEMBERED), 1000));
        assert!(replays.is_new(&mac(MAX_REMEMBERED), 2000));
    }
}
