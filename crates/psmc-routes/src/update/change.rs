//! Which records of a service are replaced by which.

use std::fmt::Write as _;

use hickory_proto::ProtoError;
use hickory_proto::rr::rdata::SVCB;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use crate::{ALT, AltRecord, GroupKey, GroupTag, RouteSet, svcb_name, svcb_records};
use psmc_net::keys::PrivateKey;

/// Whose routes are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of one group, or of everyone.
    Group(GroupTag),
    /// All, whoever they are for.
    All,
}

/// A change to the routes of one service. What is published takes the place of what the scope had.
#[derive(Clone, Debug)]
pub struct Change {
    service: Name,
    svcb_name: Name,
    scope: Scope,
    ttl_s: u32,
    alt: Option<AltRecord>,
    svcb: Vec<SVCB>,
}

impl Change {
    /// Publishes a set: sealed if there is a group's key, else for everyone, and then as `svcb` too if that is asked for.
    ///
    /// # Errors
    /// If the name is so long that `_psmc` does not fit in front of it.
    pub fn publish(
        set: RouteSet,
        service_key: &PrivateKey,
        group: Option<&GroupKey>,
        svcb: bool,
        ttl_s: u32,
    ) -> Result<Self, ProtoError> {
        let tag = group.map_or(GroupTag::EVERYONE, GroupKey::tag);
        let withdrawal = Self::withdraw(set.service(), Scope::Group(tag))?;
        let signed = set.for_group(tag).sign(service_key);
        let svcb = if svcb && group.is_none() { svcb_records(&signed) } else { Vec::new() };
        let alt = match group {
            Some(key) => AltRecord::Sealed(key.seal(&signed)),
            None => AltRecord::Open(signed),
        };
        Ok(Self { ttl_s, alt: Some(alt), svcb, ..withdrawal })
    }

    /// Withdraws what there is.
    ///
    /// # Errors
    /// If the name is so long that `_psmc` does not fit in front of it.
    pub fn withdraw(service: &Name, scope: Scope) -> Result<Self, ProtoError> {
        let svcb_name = svcb_name(service)?;
        Ok(Self { service: service.clone(), svcb_name, scope, ttl_s: 0, alt: None, svcb: Vec::new() })
    }

    /// Whose routes change.
    #[must_use]
    pub fn service(&self) -> &Name {
        &self.service
    }

    /// The update section (RFC 2136 §2.5) for a server that has `current` ALT records of the service.
    pub(super) fn records(&self, current: &[RData]) -> Vec<Record> {
        let mut records = Vec::new();
        match self.scope {
            Scope::All => records.push(without_set(&self.service, ALT)),
            Scope::Group(tag) => {
                let old = current.iter().filter(|rdata| self.is_of(rdata, tag));
                records.extend(old.map(|rdata| without_record(&self.service, rdata.clone())));
            }
        }
        if matches!(self.scope, Scope::All | Scope::Group(GroupTag::EVERYONE)) {
            records.push(without_set(&self.svcb_name, RecordType::SVCB));
        }
        let with = |name: &Name, data| Record::from_rdata(name.clone(), self.ttl_s, data);
        records.extend(self.alt.iter().map(|alt| with(&self.service, alt.to_rdata())));
        records.extend(self.svcb.iter().map(|svcb| with(&self.svcb_name, RData::SVCB(svcb.clone()))));
        records
    }

    /// Whether a server that has `current` has got the change.
    pub(super) fn is_done(&self, current: &[RData]) -> bool {
        let new = self.alt.as_ref().map(AltRecord::to_rdata);
        let old = |rdata: &&RData| match self.scope {
            Scope::All => true,
            Scope::Group(tag) => self.is_of(rdata, tag),
        };
        current.iter().filter(old).eq(new.iter())
    }

    fn is_of(&self, rdata: &RData, tag: GroupTag) -> bool {
        matches!(AltRecord::of_rdata(&self.service, rdata), Some(Ok(record)) if record.group() == tag)
    }
}

/// Deletes all records of a type (RFC 2136 §2.5.2).
fn without_set(name: &Name, kind: RecordType) -> Record {
    let mut record = Record::update0(name.clone(), 0, kind);
    record.dns_class = DNSClass::ANY;
    record
}

/// Deletes one record (RFC 2136 §2.5.4).
fn without_record(name: &Name, data: RData) -> Record {
    let mut record = Record::from_rdata(name.clone(), 0, data);
    record.dns_class = DNSClass::NONE;
    record
}

/// Update records as `nsupdate` reads them.
pub(super) fn nsupdate_text(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let (name, kind) = (&record.name, u16::from(record.record_type()));
        let data = rfc3597(&record.data);
        // Writing to a string does not fail.
        let _ = if record.dns_class == DNSClass::ANY {
            writeln!(text, "update delete {name} TYPE{kind}")
        } else if record.dns_class == DNSClass::NONE {
            writeln!(text, "update delete {name} TYPE{kind} {data}")
        } else {
            writeln!(text, "update add {name} {} TYPE{kind} {data}", record.ttl)
        };
    }
    text
}

/// The data of a record in the form for unknown types (RFC 3597 §5).
fn rfc3597(data: &RData) -> String {
    let mut bytes = Vec::new();
    let written = data.emit(&mut BinEncoder::new(&mut bytes));
    written.expect("records of at most 1.5 KB fit into 64 KiB");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\\# {} {hex}", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Relay, Validity};

    fn name() -> Name {
        Name::from_ascii("www.example.com.").unwrap()
    }

    fn publish(serial: u64, group: Option<&GroupKey>, svcb: bool) -> Change {
        let key = PrivateKey::from_seed([1; 32]);
        let relay = Relay { address: "192.0.2.7:5115".parse().unwrap(), key: key.public(), gateway: None };
        let validity = Validity { serial, expires_s: 2_000_000_000 };
        let set = RouteSet::new(&name(), validity, vec![relay]).unwrap();
        Change::publish(set, &key, group, svcb, 10).unwrap()
    }

    /// The first line of each kind of command, without what comes after the type.
    fn commands(change: &Change, current: &[RData]) -> Vec<String> {
        let text = nsupdate_text(&change.records(current));
        text.lines().map(|line| line.split(" \\#").next().unwrap().to_owned()).collect()
    }

    fn rdata(change: &Change) -> RData {
        change.alt.as_ref().unwrap().to_rdata()
    }

    #[test]
    fn a_group_replaces_its_own_record_only() {
        let (a, b) =
            (GroupKey::new(&PrivateKey::from_seed([2; 32])), GroupKey::new(&PrivateKey::from_seed([3; 32])));
        let (open, of_a, of_b) =
            (publish(1, None, false), publish(1, Some(&a), false), publish(1, Some(&b), true));
        let current = [rdata(&open), rdata(&of_a), rdata(&of_b)];
        let next = publish(2, Some(&a), false);
        let records = next.records(&current);
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].dns_class, &records[0].data), (DNSClass::NONE, &rdata(&of_a)));
        assert_eq!((records[1].dns_class, &records[1].data), (DNSClass::IN, &rdata(&next)));
        assert!(of_a.is_done(&current) && open.is_done(&current) && !next.is_done(&current));
        assert!(next.is_done(&[rdata(&open), rdata(&next)]));
        assert!(!next.is_done(&[rdata(&next), rdata(&of_a)]));
    }

    #[test]
    fn everyone_gets_both_carriers() {
        let old = rdata(&publish(1, None, false));
        assert_eq!(
            commands(&publish(2, None, true), &[old]),
            [
                "update delete www.example.com. TYPE65400",
                "update delete _psmc.www.example.com. TYPE64",
                "update add www.example.com. 10 TYPE65400",
                "update add _psmc.www.example.com. 10 TYPE64",
            ]
        );
    }

    #[test]
    fn all_is_withdrawn_unseen() {
        let change = Change::withdraw(&name(), Scope::All).unwrap();
        assert_eq!(
            nsupdate_text(&change.records(&[])),
            "update delete www.example.com. TYPE65400\nupdate delete _psmc.www.example.com. TYPE64\n"
        );
        assert!(change.is_done(&[]) && !change.is_done(&[rdata(&publish(1, None, false))]));
    }
}
