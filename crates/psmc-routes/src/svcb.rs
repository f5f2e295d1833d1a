//! The same routes as SVCB records (RFC 9460), one for each relay.
//!
//! Each record repeats the proof: serial, expiry, count and the signature over the whole set. So a reader that has all of
//! them can put the canonical form together again, and a record that was left out shows.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use hickory_proto::ProtoError;
use hickory_proto::rr::Name;
use hickory_proto::rr::rdata::svcb::{IpHint, Mandatory, SVCB, SvcParamKey, SvcParamValue, Unknown};
use hickory_proto::rr::rdata::{A, AAAA};
use psmc_net::keys::{KEY_LEN, PublicKey, SIGNATURE_LEN};

use super::set::Reader;
use super::{GroupTag, Relay, RouteError, RouteSet, SignedRoutes, Validity};

/// The label under which a service's SVCB records stand (RFC 9460 §2.3): other programs' do not meet them.
pub const SVCB_PREFIX: &str = "_psmc";

/// Where the SVCB records of a service are.
///
/// # Errors
/// If the name becomes longer than a name may be.
pub fn svcb_name(service: &Name) -> Result<Name, ProtoError> {
    service.prepend_label(SVCB_PREFIX)
}

/// The SVCB records of a set that everyone may read.
#[must_use]
pub fn svcb_records(routes: &SignedRoutes) -> Vec<SVCB> {
    let proof = Proof::of(routes).encode();
    (1..).zip(routes.claims().relays()).map(|(place, relay)| svcb_record(place, relay, &proof)).collect()
}

/// The sets that SVCB records of `service` hold, those with the highest serial first. A record that carries no route is
/// passed over, as are sets that lack some.
///
/// # Errors
/// [`RouteError`] if there is no complete set: what is wrong with the last incomplete one, or the last record.
pub fn svcb_routes<'a>(
    service: &Name,
    records: impl Iterator<Item = &'a SVCB>,
) -> Result<Vec<SignedRoutes>, RouteError> {
    let mut sets: BTreeMap<[u8; PROOF_LEN], BTreeMap<u16, Relay>> = BTreeMap::new();
    let mut wrong = RouteError::RelayCount(0);
    for record in records {
        match read_record(record) {
            Ok((place, relay, proof)) => {
                sets.entry(proof).or_default().insert(place, relay);
            }
            Err(error) => wrong = error,
        }
    }
    let mut complete = Vec::new();
    // Proofs begin with the serial, so the last one is the newest.
    for (proof, relays) in sets.into_iter().rev() {
        match Proof::decode(&proof).and_then(|proof| proof.routes(service, relays)) {
            Ok(routes) => complete.push(routes),
            Err(error) => wrong = error,
        }
    }
    if complete.is_empty() { Err(wrong) } else { Ok(complete) }
}

fn svcb_record(place: u16, relay: &Relay, proof: &[u8; PROOF_LEN]) -> SVCB {
    let (hint_key, hint) = match relay.address.ip() {
        IpAddr::V4(ip) => (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(vec![A(ip)]))),
        IpAddr::V6(ip) => (SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(vec![AAAA(ip)]))),
    };
    let mut pin = relay.key.as_bytes().to_vec();
    pin.extend(relay.gateway.iter().flat_map(|key| key.as_bytes()));
    let mandatory = Mandatory(vec![SvcParamKey::Port, hint_key, PIN, PROOF]);
    let params = vec![
        (SvcParamKey::Mandatory, SvcParamValue::Mandatory(mandatory)),
        (SvcParamKey::Port, SvcParamValue::Port(relay.address.port())),
        (hint_key, hint),
        (PIN, SvcParamValue::Unknown(Unknown(pin))),
        (PROOF, SvcParamValue::Unknown(Unknown(proof.to_vec()))),
    ];
    SVCB::new(place, Name::root(), params)
}

/// The relay of a record, its place in the set, and the proof that it repeats.
fn read_record(record: &SVCB) -> Result<(u16, Relay, [u8; PROOF_LEN]), RouteError> {
    if record.svc_priority == 0 {
        return Err(RouteError::Svcb("it is an alias"));
    }
    let (mut port, mut ip, mut pin, mut proof) = (None, None, None, None);
    for (key, value) in &record.svc_params {
        match (*key, value) {
            (SvcParamKey::Port, SvcParamValue::Port(number)) => port = Some(*number),
            (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(hint)) => ip = only(&hint.0).map(|a| a.0.into()),
            (SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(hint)) => ip = only(&hint.0).map(|a| a.0.into()),
            (PIN, SvcParamValue::Unknown(Unknown(bytes))) => pin = Some(bytes),
            (PROOF, SvcParamValue::Unknown(Unknown(bytes))) => proof = Some(bytes),
            _ => {}
        }
    }
    let ip: IpAddr = ip.ok_or(RouteError::Svcb("it has not one address as a hint"))?;
    let port = port.ok_or(RouteError::Svcb("it has no port"))?;
    let mut pin = Reader(pin.ok_or(RouteError::Svcb("it has no key65400, the relay's key"))?);
    let key = PublicKey::from_bytes(pin.array()?);
    let gateway = match pin.0 {
        [] => None,
        rest => {
            let bytes: [u8; KEY_LEN] = rest.try_into().map_err(|_| RouteError::Length)?;
            Some(PublicKey::from_bytes(bytes))
        }
    };
    let proof = proof.ok_or(RouteError::Svcb("it has no key65401, the proof"))?;
    let proof = proof.as_slice().try_into().map_err(|_| RouteError::Length)?;
    Ok((record.svc_priority, Relay { address: SocketAddr::new(ip, port), key, gateway }, proof))
}

fn only<T>(list: &[T]) -> Option<&T> {
    match list {
        [one] => Some(one),
        [] | [_, _, ..] => None,
    }
}

/// What the records of a set have in common.
struct Proof {
    validity: Validity,
    count: u8,
    signature: [u8; SIGNATURE_LEN],
}

impl Proof {
    fn of(routes: &SignedRoutes) -> Self {
        let set = routes.claims();
        Self { validity: set.validity(), count: set.count(), signature: routes.signature }
    }

    fn encode(&self) -> [u8; PROOF_LEN] {
        let parts: [&[u8]; 4] = [
            &self.validity.serial.to_be_bytes(),
            &self.validity.expires_s.to_be_bytes(),
            &[self.count],
            &self.signature,
        ];
        parts.concat().try_into().expect("the parts have the length of a proof")
    }

    fn decode(bytes: &[u8; PROOF_LEN]) -> Result<Self, RouteError> {
        let mut reader = Reader(bytes);
        let serial = u64::from_be_bytes(reader.array()?);
        let expires_s = u64::from_be_bytes(reader.array()?);
        let [count] = reader.array()?;
        Ok(Self { validity: Validity { serial, expires_s }, count, signature: reader.array()? })
    }

    /// The set, if its relays have the places 1 to count.
    fn routes(self, service: &Name, relays: BTreeMap<u16, Relay>) -> Result<SignedRoutes, RouteError> {
        if !relays.keys().copied().eq(1..=u16::from(self.count)) {
            return Err(RouteError::Incomplete { found: relays.len(), expected: self.count.into() });
        }
        let set = RouteSet::new(service, self.validity, relays.into_values().collect())?;
        Ok(SignedRoutes { set: set.for_group(GroupTag::EVERYONE), signature: self.signature })
    }
}

/// The relay's key, and the gateway's where it has one of its own: a SvcParamKey for private use (RFC 9460 §14.3.2).
const PIN: SvcParamKey = SvcParamKey::Key(65400);

/// The proof.
const PROOF: SvcParamKey = SvcParamKey::Key(65401);

/// Serial, expiry, count, signature.
const PROOF_LEN: usize = 8 + 8 + 1 + SIGNATURE_LEN;
