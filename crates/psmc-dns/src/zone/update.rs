//! Dynamic updates of a zone (RFC 2136 §3).

use std::collections::BTreeMap;
use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordData, RecordType, SerialNumber};

use super::data::insert;
use super::file::is_meta;
use super::{Node, Set, Zone};
use psmc_routes::wire::canonical_bytes;

/// Why an update was not carried out: nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub ResponseCode);

impl Zone {
    /// The zone after an update; `None` if that changes nothing. The serial number rises, unless the update sets it.
    ///
    /// # Errors
    /// [`Refusal`], with the code that RFC 2136 asks for.
    pub fn updated(&self, prerequisites: &[Record], updates: &[Record]) -> Result<Option<Self>, Refusal> {
        self.check(prerequisites)?;
        updates.iter().try_for_each(|record| self.prescan(record))?;
        let mut changed: BTreeMap<Name, Node> = BTreeMap::new();
        for record in updates {
            let name = record.name.to_lowercase();
            let current = || self.nodes.get(&name).map_or_else(Node::new, |node| (**node).clone());
            let node = changed.entry(name.clone()).or_insert_with(current);
            apply(node, record, name == *self.origin());
            node.retain(|_, set| !set.records.is_empty());
        }
        changed.retain(|name, node| self.nodes.get(name).map_or(!node.is_empty(), |old| **old != *node));
        if changed.is_empty() {
            return Ok(None);
        }
        self.with_nodes(changed).map(Some)
    }

    /// The same zone with another serial number.
    ///
    /// # Panics
    /// Never: a zone stays one.
    #[must_use]
    pub fn with_serial(&self, serial: u32) -> Self {
        let mut top = (*self.nodes[self.origin()]).clone();
        set_serial(&mut top, serial);
        let mut nodes = self.nodes.clone();
        nodes.insert(self.origin().clone(), Arc::new(top));
        Self::of_nodes(self.origin().clone(), nodes).expect("only the serial number has changed")
    }

    fn with_nodes(&self, changed: BTreeMap<Name, Node>) -> Result<Self, Refusal> {
        let mut nodes = self.nodes.clone();
        for (name, node) in changed {
            if node.is_empty() {
                nodes.remove(&name);
            } else {
                nodes.insert(name, Arc::new(node));
            }
        }
        let refused = |_| Refusal(ResponseCode::Refused);
        let zone = Self::of_nodes(self.origin().clone(), nodes).map_err(refused)?;
        Ok(if zone.serial() == self.serial() {
            zone.with_serial(self.serial().wrapping_add(1))
        } else {
            zone
        })
    }

    /// §3.2: what must be so before anything is changed.
    fn check(&self, prerequisites: &[Record]) -> Result<(), Refusal> {
        let mut wanted: BTreeMap<(Name, RecordType), Vec<Vec<u8>>> = BTreeMap::new();
        for record in prerequisites {
            if record.ttl != 0 {
                return Err(Refusal(ResponseCode::FormErr));
            }
            if !self.origin().zone_of(&record.name) {
                return Err(Refusal(ResponseCode::NotZone));
            }
            let (name, kind) = (record.name.to_lowercase(), record.record_type());
            let is_used = self.nodes.contains_key(&name);
            let has_set = self.set(&name, kind).is_some();
            let is_empty = record.data.is_update();
            match (record.dns_class, kind) {
                (DNSClass::ANY | DNSClass::NONE, _) if !is_empty => {
                    return Err(Refusal(ResponseCode::FormErr));
                }
                (DNSClass::ANY, RecordType::ANY) if !is_used => return Err(Refusal(ResponseCode::NXDomain)),
                (DNSClass::NONE, RecordType::ANY) if is_used => return Err(Refusal(ResponseCode::YXDomain)),
                (DNSClass::ANY | DNSClass::NONE, RecordType::ANY) => {}
                (DNSClass::ANY, _) if !has_set => return Err(Refusal(ResponseCode::NXRRSet)),
                (DNSClass::NONE, _) if has_set => return Err(Refusal(ResponseCode::YXRRSet)),
                (DNSClass::ANY | DNSClass::NONE, _) => {}
                (DNSClass::IN, _) => {
                    wanted.entry((name, kind)).or_default().push(canonical_bytes(&record.data))
                }
                _ => return Err(Refusal(ResponseCode::FormErr)),
            }
        }
        for ((name, kind), mut data) in wanted {
            let set = self.set(&name, kind).map_or(&[][..], |set| &set.records);
            data.sort();
            data.dedup();
            if !set.iter().map(|record| canonical_bytes(&record.data)).eq(data) {
                return Err(Refusal(ResponseCode::NXRRSet));
            }
        }
        Ok(())
    }

    /// §3.4.1: whether a change makes sense at all.
    fn prescan(&self, record: &Record) -> Result<(), Refusal> {
        if !self.origin().zone_of(&record.name) {
            return Err(Refusal(ResponseCode::NotZone));
        }
        let kind = record.record_type();
        let is_meta = kind == RecordType::SIG || (is_meta(kind) && kind != RecordType::ANY);
        // Those that we make ourselves.
        let is_ours = matches!(
            kind,
            RecordType::RRSIG
                | RecordType::NSEC
                | RecordType::NSEC3
                | RecordType::NSEC3PARAM
                | RecordType::DNSKEY
        );
        let is_empty = record.data.is_update();
        let is_sound = match record.dns_class {
            DNSClass::IN => !is_empty && kind != RecordType::ANY,
            DNSClass::ANY => record.ttl == 0 && is_empty,
            DNSClass::NONE => record.ttl == 0 && !is_empty && kind != RecordType::ANY,
            DNSClass::CH | DNSClass::HS | DNSClass::OPT(_) | DNSClass::Unknown(_) => false,
        };
        match (is_sound && !is_meta, is_ours) {
            (true, false) => Ok(()),
            (true, true) => Err(Refusal(ResponseCode::Refused)),
            (false, _) => Err(Refusal(ResponseCode::FormErr)),
        }
    }
}

/// §3.4.2: one change to its name.
fn apply(node: &mut Node, record: &Record, at_top: bool) {
    let kind = record.record_type();
    let keeps = |kind: RecordType| at_top && matches!(kind, RecordType::SOA | RecordType::NS);
    match (record.dns_class, kind) {
        (DNSClass::ANY, RecordType::ANY) => node.retain(|kind, _| keeps(*kind)),
        (DNSClass::ANY, _) if !keeps(kind) => drop(node.remove(&kind)),
        (DNSClass::NONE, _) => remove_record(node, record, at_top),
        (DNSClass::IN, RecordType::SOA) => replace_soa(node, record),
        (DNSClass::IN, _) if is_barred(node, kind) => {}
        (DNSClass::IN, _) => {
            if kind == RecordType::CNAME {
                node.remove(&kind);
            }
            let mut record = record.clone();
            record.name = record.name.to_lowercase();
            insert(node, record);
        }
        _ => {}
    }
}

/// An alias goes where nothing else is, and nothing else where an alias is.
fn is_barred(node: &Node, kind: RecordType) -> bool {
    let has = |alias: bool| node.keys().any(|other| (*other == RecordType::CNAME) == alias);
    has(kind != RecordType::CNAME)
}

/// Removes a record; never the SOA, and never the last name server of the zone.
fn remove_record(node: &mut Node, record: &Record, at_top: bool) {
    let kind = record.record_type();
    if kind == RecordType::SOA {
        return;
    }
    let Some(set) = node.get_mut(&kind) else { return };
    let is_last = at_top && kind == RecordType::NS && set.records.len() == 1;
    if !is_last {
        set.records.retain(|other| other.data != record.data);
    }
}

/// Replaces the SOA by a newer one.
fn replace_soa(node: &mut Node, record: &Record) {
    let (Some(set), RData::SOA(new)) = (node.get_mut(&RecordType::SOA), &record.data) else { return };
    let Some(Record { data: RData::SOA(old), .. }) = set.records.first() else { return };
    if SerialNumber::new(new.serial) > SerialNumber::new(old.serial) {
        let mut record = record.clone();
        record.name = record.name.to_lowercase();
        *set = Set { records: vec![record], signatures: Vec::new() };
    }
}

fn set_serial(top: &mut Node, serial: u32) {
    let records = top.get_mut(&RecordType::SOA).map(|set| &mut set.records);
    for record in records.into_iter().flatten() {
        if let RData::SOA(SOA { serial: old, .. }) = &mut record.data {
            *old = serial;
        }
    }
}
