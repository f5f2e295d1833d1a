//! What a zone answers (RFC 1034 §4.3.2, RFC 4592 for wildcards, RFC 6672 §3.2 for DNAME, RFC 4035 §3.1 for proofs).

use std::ops::Bound;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::BinDecodable;

use super::denial::is_hash;
use super::{Node, Set, Zone};
use psmc_routes::wire::bytes_of;

/// Aliases that are followed within a zone: more is a loop, or might as well be one.
const MAX_ALIASES: usize = 8;

/// The sections of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it is.
    pub code: ResponseCode,
    /// Whether the zone itself answers, rather than pointing to another one.
    pub authoritative: bool,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authorities: Vec<Record>,
    /// The additional section, without what EDNS and TSIG put there.
    pub additionals: Vec<Record>,
}

/// What there is at a name.
enum Found<'a> {
    /// The name is below a delegation, at this name.
    Delegated(&'a Name, &'a Set),
    /// A DNAME record at this name, above the one that is asked for, has all names below go elsewhere.
    Moved(&'a Name, &'a Set),
    /// The name exists.
    Node(&'a Node),
    /// It does not, but a wildcard of this name stands for it.
    Wildcard(&'a Name, &'a Node),
    /// Names below it exist, it has no records itself.
    Between,
    /// It does not exist; this is the nearest one above it that does.
    Nothing(Name),
}

impl Zone {
    /// The answer to a question for a name in this zone. With `dnssec`, signatures and proofs are in it.
    #[must_use]
    pub fn answer(&self, name: &Name, kind: RecordType, dnssec: bool) -> Answer {
        let mut answer = Answer {
            code: ResponseCode::NoError,
            authoritative: true,
            answers: Vec::new(),
            authorities: Vec::new(),
            additionals: Vec::new(),
        };
        let dnssec = dnssec && self.is_signed();
        let mut name = name.to_lowercase();
        for _ in 0..MAX_ALIASES {
            match self.step(&name, kind, dnssec, &mut answer) {
                Some(next) if self.origin().zone_of(&next) => name = next.to_lowercase(),
                Some(_) | None => break,
            }
        }
        self.add_addresses(&mut answer, dnssec);
        answer
    }

    /// Adds what there is for one name; yields the next one where it is an alias.
    fn step(&self, name: &Name, kind: RecordType, dnssec: bool, answer: &mut Answer) -> Option<Name> {
        match self.find(name, kind) {
            Found::Delegated(cut, servers) => self.refer(cut, servers, dnssec, answer),
            Found::Node(node) => return self.answer_from((name, node), name, kind, dnssec, answer),
            Found::Moved(owner, set) => return move_below(owner, set, name, dnssec, answer),
            Found::Wildcard(owner, node) => {
                return self.answer_from((owner, node), name, kind, dnssec, answer);
            }
            Found::Between => {
                self.deny(dnssec, answer);
                if dnssec {
                    self.prove_no_type(name, answer);
                }
            }
            Found::Nothing(encloser) => {
                answer.code = ResponseCode::NXDomain;
                self.deny(dnssec, answer);
                if dnssec {
                    self.prove_no_name(name, &encloser, answer);
                }
            }
        }
        None
    }

    fn find(&self, name: &Name, kind: RecordType) -> Found<'_> {
        let (labels_of_name, labels_of_zone) = (name.iter().count(), self.origin().iter().count());
        let first = if self.has_dname { labels_of_zone } else { labels_of_zone + 1 };
        for labels in first..=labels_of_name {
            let ancestor = name.trim_to(labels);
            let Some((cut, node)) = self.nodes.get_key_value(&ancestor) else { continue };
            let moved = node.get(&RecordType::DNAME).filter(|set| !set.records.is_empty());
            if labels == labels_of_zone {
                match moved {
                    Some(set) if labels < labels_of_name => return Found::Moved(cut, set),
                    Some(_) | None => continue,
                }
            }
            // The parent itself answers for DS (RFC 4035 §3.1.4.1).
            if labels == labels_of_name && kind == RecordType::DS {
                continue;
            }
            if let Some(servers) = node.get(&RecordType::NS).filter(|set| !set.records.is_empty()) {
                return Found::Delegated(cut, servers);
            }
            if let Some(set) = moved.filter(|_| labels < labels_of_name) {
                return Found::Moved(cut, set);
            }
        }
        if let Some(node) = self.nodes.get(name).filter(|node| !is_hash(node)) {
            return Found::Node(node);
        }
        if self.is_above_others(name) {
            return Found::Between;
        }
        let mut encloser = name.base_name();
        while !self.nodes.contains_key(&encloser) && !self.is_above_others(&encloser) {
            encloser = encloser.base_name();
        }
        let wildcard = encloser.prepend_label("*").ok().and_then(|name| self.nodes.get_key_value(&name));
        wildcard.map_or(Found::Nothing(encloser), |(owner, node)| Found::Wildcard(owner, node))
    }

    /// Whether a name that may have no records has others below it.
    fn is_above_others(&self, name: &Name) -> bool {
        let mut after = self.nodes.range::<Name, _>((Bound::Excluded(name), Bound::Unbounded));
        after.next().is_some_and(|(next, _)| name.zone_of(next))
    }

    /// The answer of a node, as `name`, which differs from the node's own where that is a wildcard.
    fn answer_from(
        &self,
        (owner, node): (&Name, &Node),
        name: &Name,
        kind: RecordType,
        dnssec: bool,
        answer: &mut Answer,
    ) -> Option<Name> {
        let wanted = if kind == RecordType::ANY {
            // One set is enough (RFC 8482 §4.1).
            node.values().find(|set| !set.records.is_empty())
        } else {
            node.get(&kind).filter(|set| !set.records.is_empty())
        };
        let is_wildcard = owner != name;
        let alias = node.get(&RecordType::CNAME).filter(|set| !set.records.is_empty());
        if dnssec && is_wildcard && (wanted.is_some() || alias.is_some()) {
            self.prove_wildcard(name, owner, answer);
        }
        if let Some(set) = wanted {
            add(&mut answer.answers, set, Some(name), dnssec);
            return None;
        }
        let Some(set) = alias else {
            self.deny(dnssec, answer);
            match dnssec {
                true if is_wildcard => self.prove_no_wildcard_type(name, owner, answer),
                true => self.prove_no_type(name, answer),
                false => {}
            }
            return None;
        };
        add(&mut answer.answers, set, Some(name), dnssec);
        let Some(Record { data: RData::CNAME(target), .. }) = set.records.first() else { return None };
        Some(target.0.clone())
    }

    /// Points to the servers of a zone below.
    fn refer(&self, cut: &Name, servers: &Set, dnssec: bool, answer: &mut Answer) {
        answer.authoritative = !answer.answers.is_empty();
        add(&mut answer.authorities, servers, None, false);
        if dnssec {
            match self.set(cut, RecordType::DS) {
                Some(set) => add(&mut answer.authorities, set, None, true),
                None => self.prove_no_type(cut, answer),
            }
        }
    }

    /// Says that there are no such records (RFC 2308 §3).
    fn deny(&self, dnssec: bool, answer: &mut Answer) {
        let Some(soa) = self.set(self.origin(), RecordType::SOA) else { return };
        let first = answer.authorities.len();
        add(&mut answer.authorities, soa, None, dnssec);
        for record in &mut answer.authorities[first..] {
            record.ttl = record.ttl.min(self.soa().minimum);
        }
    }

    /// The addresses of the hosts that the records name, as far as this zone has them.
    fn add_addresses(&self, answer: &mut Answer, dnssec: bool) {
        let named = answer.answers.iter().chain(&answer.authorities).filter_map(host_of);
        let mut hosts: Vec<Name> = named.map(Name::to_lowercase).collect();
        hosts.sort();
        hosts.dedup();
        for host in hosts {
            for kind in [RecordType::A, RecordType::AAAA] {
                if let Some(set) = self.set(&host, kind) {
                    add(&mut answer.additionals, set, None, dnssec);
                }
            }
        }
    }
}

/// The host whose address whoever gets the record asks for next.
fn host_of(record: &Record) -> Option<&Name> {
    if let RData::NS(host) = &record.data {
        return Some(&host.0);
    }
    if let RData::MX(mx) = &record.data {
        return Some(&mx.exchange);
    }
    if let RData::SRV(srv) = &record.data {
        return Some(&srv.target);
    }
    None
}

/// Adds a DNAME record, and the alias that it makes of a name below it; yields where that leads.
fn move_below(owner: &Name, set: &Set, name: &Name, dnssec: bool, answer: &mut Answer) -> Option<Name> {
    let record = set.records.first()?;
    let target = Name::from_bytes(&bytes_of(&record.data)).ok()?;
    if !answer.answers.contains(record) {
        add(&mut answer.answers, set, None, dnssec);
    }
    let below = name.iter().count() - owner.iter().count();
    let Ok(mut moved) = Name::from_labels(name.iter().take(below).chain(target.iter())) else {
        answer.code = ResponseCode::YXDomain;
        return None;
    };
    moved.set_fqdn(true);
    answer.answers.push(Record::from_rdata(name.clone(), record.ttl, RData::CNAME(CNAME(moved.clone()))));
    Some(moved)
}

pub(super) fn add(section: &mut Vec<Record>, set: &Set, owner: Option<&Name>, dnssec: bool) {
    let signatures = if dnssec { &set.signatures[..] } else { &[] };
    section.extend(set.records.iter().chain(signatures).map(|record| {
        let mut record = record.clone();
        if let Some(owner) = owner {
            record.name = owner.clone();
        }
        record
    }));
}
