//! Signing a zone (RFC 4034, RFC 4035): one Ed25519 key (RFC 8080) that signs everything, and NSEC.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::ProtoError;
use hickory_proto::dnssec::rdata::{DNSKEY, DNSSECRData, NSEC, RRSIG};
use hickory_proto::dnssec::{
    Algorithm, DigestType, DnsSecResult, DnssecSigner, PublicKeyBuf, SigningKey, TBS,
};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordSet, RecordType};
use psmc_net::keys::{PrivateKey, PublicKey};
use time::OffsetDateTime;

use super::denial::is_hash;
use super::{Node, Set, Zone};
use psmc_routes::wire::{canonical_bytes, data_of};

/// How long signatures count. They are made anew every [`RENEWAL`], so secondaries may be cut off for the difference.
const LIFETIME: Duration = Duration::from_secs(14 * 24 * 3600);

/// All signatures of so long begin at the same time. Ed25519 has no randomness, so what did not change keeps its
/// signature, and secondaries are sent no more than what did.
const RENEWAL: Duration = Duration::from_secs(3 * 24 * 3600);

/// How far validators' clocks may be behind ours.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// The flags of a DNSKEY that signs keys and records alike: zone key, secure entry point.
const KEY_FLAGS: u16 = 0x0101;

/// The key of a zone.
#[derive(Debug)]
pub struct ZoneSigner {
    key: Arc<PrivateKey>,
}

impl ZoneSigner {
    /// Signs with this key.
    #[must_use]
    pub fn new(key: PrivateKey) -> Self {
        Self { key: Arc::new(key) }
    }

    /// What validators check signatures with.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// The DS record that the zone above needs: its data as text.
    ///
    /// # Errors
    /// If the name cannot be hashed, which no name of a zone is known for.
    pub fn ds(&self, origin: &Name) -> Result<String, ProtoError> {
        let dnskey = self.dnskey();
        let digest = dnskey.to_digest(origin, DigestType::SHA256)?;
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Ok(format!("{} {} 2 {hex}", dnskey.calculate_key_tag()?, u8::from(Algorithm::ED25519)))
    }

    /// The signed zone, at `now_s` seconds since 1970. Signatures that `previous` has for the same records are kept.
    ///
    /// # Errors
    /// If a set cannot be brought into its canonical form.
    pub fn sign(&self, zone: &Zone, previous: Option<&Zone>, now_s: u64) -> Result<Zone, ProtoError> {
        let inception_s = now_s - now_s % RENEWAL.as_secs() - CLOCK_SKEW.as_secs();
        let inception =
            i64::try_from(inception_s).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
        let inception = inception.ok_or(ProtoError::Message("the clock is wrong"))?;
        let signer = DnssecSigner::new(
            self.dnskey(),
            Box::new(Key(self.key.clone())),
            zone.origin().clone(),
            CLOCK_SKEW + RENEWAL + LIFETIME,
        );
        let mut nodes: BTreeMap<Name, Arc<Node>> = BTreeMap::new();
        let is_kept = |name: &&Name| !is_glue(zone, name) && !is_hash(&zone.nodes[*name]);
        let names: Vec<&Name> = zone.nodes.keys().filter(is_kept).collect();
        for (place, name) in names.iter().enumerate() {
            let next = names.get(place + 1).unwrap_or(&names[0]);
            let mut node = bare(&zone.nodes[*name]);
            if *name == zone.origin() {
                let data = RData::DNSSEC(DNSSECRData::DNSKEY(self.dnskey()));
                node.insert(RecordType::DNSKEY, set_of(name, zone.soa_record().ttl, data));
            }
            let is_cut = *name != zone.origin() && node.contains_key(&RecordType::NS);
            // What stands beside a delegation is another zone's, too.
            let is_told = |kind: &RecordType| !is_cut || matches!(kind, RecordType::NS | RecordType::DS);
            let types: Vec<RecordType> = node.keys().copied().filter(is_told).collect();
            let types = types.into_iter().chain([RecordType::NSEC, RecordType::RRSIG]);
            let nsec = NSEC::new((*next).clone(), types);
            let ttl = zone.soa().minimum.min(zone.soa_record().ttl);
            node.insert(RecordType::NSEC, set_of(name, ttl, RData::DNSSEC(DNSSECRData::NSEC(nsec))));
            for (kind, set) in &mut node {
                // Of a delegation only what the zone itself says is signed (RFC 4035 §2.2).
                if is_cut && !matches!(kind, RecordType::DS | RecordType::NSEC) {
                    continue;
                }
                let old = previous.and_then(|zone| zone.set(name, *kind));
                set.signatures = match old {
                    Some(old) if old.has_same_records(set) && began_at(old, inception) => {
                        old.signatures.clone()
                    }
                    Some(_) | None => vec![sign_set(name, *kind, set, inception, &signer)?],
                };
            }
            let old = previous.and_then(|zone| zone.nodes.get(*name)).filter(|old| ***old == node);
            nodes.insert((*name).clone(), old.cloned().unwrap_or_else(|| Arc::new(node)));
        }
        let glue = zone.nodes.iter().filter(|(name, _)| is_glue(zone, name));
        nodes.extend(glue.map(|(name, node)| (name.clone(), node.clone())));
        Zone::of_nodes(zone.origin().clone(), nodes).map_err(|_| ProtoError::Message("the zone is none"))
    }

    fn dnskey(&self) -> DNSKEY {
        DNSKEY::with_flags(KEY_FLAGS, public_key(&self.key))
    }
}

/// The key as the library asks it for signatures.
struct Key(Arc<PrivateKey>);

impl SigningKey for Key {
    fn sign(&self, tbs: &TBS) -> DnsSecResult<Vec<u8>> {
        Ok(self.0.sign(tbs.as_ref()).to_vec())
    }

    fn to_public_key(&self) -> DnsSecResult<PublicKeyBuf> {
        Ok(public_key(&self.0))
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::ED25519
    }
}

fn public_key(key: &PrivateKey) -> PublicKeyBuf {
    PublicKeyBuf::new(key.public().as_bytes().to_vec(), Algorithm::ED25519)
}

fn set_of(name: &Name, ttl: u32, data: RData) -> Set {
    Set { records: vec![Record::from_rdata(name.clone(), ttl, data)], signatures: Vec::new() }
}

/// A node without what signing makes.
fn bare(node: &Node) -> Node {
    let ours =
        [RecordType::NSEC, RecordType::NSEC3, RecordType::NSEC3PARAM, RecordType::DNSKEY, RecordType::RRSIG];
    let kept = node.iter().filter(|(kind, _)| !ours.contains(kind));
    kept.map(|(kind, set)| (*kind, Set { records: set.records.clone(), signatures: Vec::new() })).collect()
}

/// Whether a name is below a delegation or a DNAME record, where the zone has no say.
fn is_glue(zone: &Zone, name: &Name) -> bool {
    let mut above = name.base_name();
    while above.iter().count() > zone.origin().iter().count() {
        if [RecordType::NS, RecordType::DNAME].iter().any(|kind| zone.set(&above, *kind).is_some()) {
            return true;
        }
        above = above.base_name();
    }
    *name != *zone.origin() && zone.set(zone.origin(), RecordType::DNAME).is_some()
}

fn began_at(set: &Set, inception: OffsetDateTime) -> bool {
    let expected = inception.unix_timestamp();
    !set.signatures.is_empty()
        && set.signatures.iter().all(|record| {
            let RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) = &record.data else { return false };
            i64::from(rrsig.input().sig_inception.get()) == expected
        })
}

fn sign_set(
    name: &Name,
    kind: RecordType,
    set: &Set,
    inception: OffsetDateTime,
    signer: &DnssecSigner,
) -> Result<Record, ProtoError> {
    let ttl = set.records.first().map_or(0, |record| record.ttl);
    let mut records = RecordSet::with_ttl(name.clone(), kind, ttl);
    // The library leaves data that it does not know as it is; names in it are signed in lower case all the same.
    let canonical = set.records.iter().cloned().map(|mut record| {
        if let RData::Unknown { .. } = record.data {
            record.data = data_of(kind, canonical_bytes(&record.data));
        }
        record
    });
    records.set_records(canonical.collect());
    let rrsig = RRSIG::from_rrset(&records, DNSClass::IN, inception, signer)?;
    Ok(Record::from_rdata(name.clone(), ttl, RData::DNSSEC(DNSSECRData::RRSIG(rrsig))))
}
