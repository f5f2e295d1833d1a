//! The records of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use thiserror::Error;

use super::denial::Hashed;
use super::file::is_meta;
use psmc_routes::wire::{canonical_bytes, type_covered};

/// Why records are no zone.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ZoneError {
    /// There is no SOA record at its top, or several.
    #[error("a zone has one SOA record, at its top; this one has {0}")]
    Soa(usize),
    /// A SOA record below its top.
    #[error("{0} has a SOA record: only the top of a zone has one (RFC 1035 §5.2)")]
    SoaBelow(String),
    /// There is no NS record at its top.
    #[error("the zone has no NS record at its top: add one for each of its name servers")]
    NoNameServer,
    /// A record of another zone.
    #[error("{0} is outside of the zone")]
    Outside(String),
    /// Something beside a CNAME record.
    #[error("{0} has a CNAME record and others (RFC 1034 §3.6.2)")]
    BesideAlias(String),
    /// Several DNAME records at a name.
    #[error("{0} has several DNAME records: a name has one (RFC 6672 §2.4)")]
    Dnames(String),
    /// A type that only messages have.
    #[error("{0} has a record of the type {1}, which no zone can have")]
    Meta(String, RecordType),
    /// NSEC3 that takes too long.
    #[error("the zone's NSEC3 records hash names {0} times: sign it with none (RFC 9276)")]
    Iterations(u16),
    /// A class other than IN.
    #[error("{0} has a record of the class {1}: only IN is served")]
    Class(String, DNSClass),
}

/// The records of one name and type, and their signatures.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// The records, in the order of their data.
    pub records: Vec<Record>,
    /// Their RRSIG records.
    pub signatures: Vec<Record>,
}

/// All sets of a name.
pub type Node = BTreeMap<RecordType, Set>;

/// What a change took away and what it brought, the SOA records included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Records of the old zone that the new one has not.
    pub removed: Vec<Record>,
    /// Records of the new zone that the old one had not.
    pub added: Vec<Record>,
}

/// All records of a zone.
#[derive(Clone, Debug)]
pub struct Zone {
    origin: Name,
    soa: SOA,
    /// Whether there is a DNAME record anywhere.
    pub(super) has_dname: bool,
    /// Its NSEC3 records.
    pub(super) hashed: Option<Arc<Hashed>>,
    pub(super) nodes: BTreeMap<Name, Arc<Node>>,
}

impl Zone {
    /// A zone of these records; RRSIG records go to the sets that they sign.
    ///
    /// # Errors
    /// [`ZoneError`], where the records are no zone.
    pub fn new(origin: &Name, records: impl IntoIterator<Item = Record>) -> Result<Self, ZoneError> {
        let mut nodes: BTreeMap<Name, Node> = BTreeMap::new();
        for mut record in records {
            if !origin.zone_of(&record.name) {
                return Err(ZoneError::Outside(record.name.to_string()));
            }
            if record.dns_class != DNSClass::IN {
                return Err(ZoneError::Class(record.name.to_string(), record.dns_class));
            }
            if is_meta(record.record_type()) {
                return Err(ZoneError::Meta(record.name.to_string(), record.record_type()));
            }
            record.name = record.name.to_lowercase();
            insert(nodes.entry(record.name.clone()).or_default(), record);
        }
        let nodes = nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect();
        Self::of_nodes(origin.to_lowercase(), nodes)
    }

    pub(super) fn of_nodes(origin: Name, nodes: BTreeMap<Name, Arc<Node>>) -> Result<Self, ZoneError> {
        let top = nodes.get(&origin);
        let soas = top.and_then(|node| node.get(&RecordType::SOA)).map_or(&[][..], |set| &set.records);
        let [Record { data: RData::SOA(soa), .. }] = soas else {
            return Err(ZoneError::Soa(soas.len()));
        };
        let soa = soa.clone();
        if !top.is_some_and(|node| node.contains_key(&RecordType::NS)) {
            return Err(ZoneError::NoNameServer);
        }
        let below = nodes.iter().find(|(name, node)| **name != origin && node.contains_key(&RecordType::SOA));
        if let Some((name, _)) = below {
            return Err(ZoneError::SoaBelow(name.to_string()));
        }
        if let Some((name, _)) = nodes.iter().find(|(_, node)| has_crowded_alias(node)) {
            return Err(ZoneError::BesideAlias(name.to_string()));
        }
        let dnames = || nodes.iter().filter_map(|(name, node)| Some((name, node.get(&RecordType::DNAME)?)));
        if let Some((name, _)) = dnames().find(|(_, set)| set.records.len() > 1) {
            return Err(ZoneError::Dnames(name.to_string()));
        }
        let has_dname = dnames().next().is_some();
        let hashed = Hashed::of(&origin, &nodes)?.map(Arc::new);
        Ok(Self { origin, soa, has_dname, hashed, nodes })
    }

    /// Its name, in lower case.
    #[must_use]
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// Its SOA data.
    #[must_use]
    pub fn soa(&self) -> &SOA {
        &self.soa
    }

    /// Its serial number, which is compared as RFC 1982 says.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.soa.serial
    }

    /// Its SOA record.
    #[must_use]
    pub fn soa_record(&self) -> &Record {
        let set = self.set(&self.origin, RecordType::SOA);
        set.and_then(|set| set.records.first()).expect("a zone has a SOA record at its top")
    }

    /// The records of a name and type.
    #[must_use]
    pub fn set(&self, name: &Name, kind: RecordType) -> Option<&Set> {
        self.nodes.get(name)?.get(&kind)
    }

    /// Whether its answers can be validated.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.set(&self.origin, RecordType::DNSKEY).is_some()
    }

    /// All records, signatures included, the SOA record first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let is_soa = |record: &&Record| record.record_type() == RecordType::SOA;
        let all = || self.nodes.values().flat_map(|node| node.values()).flat_map(Set::all);
        std::iter::once(self.soa_record()).chain(all().filter(move |record| !is_soa(record)))
    }

    /// How many records there are, signatures included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.values().flat_map(|node| node.values()).map(|set| set.all().count()).sum()
    }

    /// A zone is never empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What makes `newer` of this zone.
    #[must_use]
    pub fn delta(&self, newer: &Self) -> Delta {
        let names: BTreeSet<&Name> = self.nodes.keys().chain(newer.nodes.keys()).collect();
        let mut delta = Delta::default();
        for name in names {
            let (old, new) = (self.nodes.get(name), newer.nodes.get(name));
            if let (Some(old), Some(new)) = (old, new)
                && Arc::ptr_eq(old, new)
            {
                continue;
            }
            let of = |node: Option<&Arc<Node>>| -> Vec<Record> {
                node.iter().flat_map(|node| node.values()).flat_map(Set::all).cloned().collect()
            };
            let (old, new) = (of(old), of(new));
            let is_in = |list: &[Record], record: &Record| list.iter().any(|other| is_same(other, record));
            delta.removed.extend(old.iter().filter(|record| !is_in(&new, record)).cloned());
            delta.added.extend(new.iter().filter(|record| !is_in(&old, record)).cloned());
        }
        delta
    }
}

/// The library's records are equal where only their TTLs differ; sets are not.
impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.has_same_records(other)
            && self.signatures.len() == other.signatures.len()
            && self.signatures.iter().zip(&other.signatures).all(|(one, other)| is_same(one, other))
    }
}

impl Eq for Set {}

impl Set {
    /// Whether the records are the same, whatever signs them.
    pub(super) fn has_same_records(&self, other: &Self) -> bool {
        self.records.len() == other.records.len()
            && self.records.iter().zip(&other.records).all(|(one, other)| is_same(one, other))
    }

    /// The records, and their signatures.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(&self.signatures)
    }
}

/// Puts a record into its set. A set has one TTL, that of the record that came last (RFC 2181 §5.2), and each record once.
pub(super) fn insert(node: &mut Node, record: Record) {
    if let Some(covered) = type_covered(&record.data) {
        let set = node.entry(covered).or_default();
        if !set.signatures.iter().any(|other| other.data == record.data) {
            set.signatures.push(record);
        }
        return;
    }
    let set = node.entry(record.record_type()).or_default();
    for other in &mut set.records {
        other.ttl = record.ttl;
    }
    if !set.records.iter().any(|other| other.data == record.data) {
        set.records.push(record);
        set.records.sort_by_cached_key(|record| canonical_bytes(&record.data));
    }
}

fn is_same(one: &Record, other: &Record) -> bool {
    one.ttl == other.ttl && one.data == other.data
}

fn has_crowded_alias(node: &Node) -> bool {
    let Some(alias) = node.get(&RecordType::CNAME) else { return false };
    let others = node.iter().filter(|(kind, set)| {
        !matches!(kind, RecordType::CNAME | RecordType::NSEC | RecordType::RRSIG) && !set.records.is_empty()
    });
    alias.records.len() > 1 || (!alias.records.is_empty() && others.count() > 0)
}
