//! What proves that a name or a type is not there: NSEC (RFC 4034 §4), or NSEC3 in zones that come with it (RFC 5155).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use hickory_proto::dnssec::rdata::{DNSSECRData, NSEC3, NSEC3PARAM};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;

use super::answer::{Answer, add};
use super::{Node, Zone, ZoneError};

/// How often names may be hashed: the most that RFC 5155 §10.3 allows, for the longest keys.
const MAX_ITERATIONS: u16 = 2500;

/// The NSEC3 records of a zone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hashed {
    salt: Vec<u8>,
    iterations: u16,
    /// The names of the records, by the hash that they have.
    owners: BTreeMap<Vec<u8>, Name>,
}

impl Hashed {
    /// Those that the zone's parameters say are complete (§4.1.2); `None` where it has no such parameters.
    pub(super) fn of(origin: &Name, nodes: &BTreeMap<Name, Arc<Node>>) -> Result<Option<Self>, ZoneError> {
        let parameters = nodes.get(origin).and_then(|node| node.get(&RecordType::NSEC3PARAM));
        for record in parameters.iter().flat_map(|set| &set.records) {
            let RData::DNSSEC(DNSSECRData::NSEC3PARAM(parameters)) = &record.data else { continue };
            if parameters.flags() != 0 {
                continue;
            }
            if parameters.iterations() > MAX_ITERATIONS {
                return Err(ZoneError::Iterations(parameters.iterations()));
            }
            let owners = nodes.iter().filter(|(_, node)| has_chain(node, parameters));
            let owners: BTreeMap<_, _> =
                owners.filter_map(|(name, _)| Some((hash_of(name)?, name.clone()))).collect();
            if !owners.is_empty() {
                let (salt, iterations) = (parameters.salt().to_vec(), parameters.iterations());
                return Ok(Some(Self { salt, iterations, owners }));
            }
        }
        Ok(None)
    }

    /// The hash of a name (§5).
    fn hash(&self, name: &Name) -> Vec<u8> {
        let mut hash = name.to_lowercase().to_bytes().unwrap_or_default();
        for _ in 0..=self.iterations {
            let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            context.update(&hash);
            context.update(&self.salt);
            hash = context.finish().as_ref().to_vec();
        }
        hash
    }

    /// The record that says which types a name has.
    fn matching(&self, name: &Name) -> Option<&Name> {
        self.owners.get(&self.hash(name))
    }

    /// The record whose span a name would be in; the last one's goes around to the first.
    fn covering(&self, name: &Name) -> Option<&Name> {
        let below = (Bound::Unbounded, Bound::Excluded(self.hash(name)));
        let before = self.owners.range::<Vec<u8>, _>(below).next_back();
        before.or_else(|| self.owners.last_key_value()).map(|(_, owner)| owner)
    }
}

/// Whether nothing but the hash of another name is at a name: for whoever asks, it is not there (§7.2.8).
pub(super) fn is_hash(node: &Node) -> bool {
    node.keys().all(|kind| *kind == RecordType::NSEC3)
}

impl Zone {
    /// The name exists, without the type; or it is only above others.
    pub(super) fn prove_no_type(&self, name: &Name, answer: &mut Answer) {
        match &self.hashed {
            Some(hashed) => self.add_nearest(hashed, name, answer),
            None => self.add_span(name, answer),
        }
    }

    /// Neither the name exists nor a wildcard that would stand for it; `encloser` is the nearest one above it that does.
    pub(super) fn prove_no_name(&self, name: &Name, encloser: &Name, answer: &mut Answer) {
        let wildcard = encloser.prepend_label("*").ok();
        match &self.hashed {
            Some(hashed) => {
                self.add_nearest(hashed, name, answer);
                let owner = wildcard.and_then(|wildcard| hashed.covering(&wildcard));
                self.add_denial(owner, RecordType::NSEC3, answer);
            }
            None => {
                self.add_span(name, answer);
                if let Some(wildcard) = wildcard {
                    self.add_span(&wildcard, answer);
                }
            }
        }
    }

    /// A wildcard stands for the name, which does not exist itself (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6).
    pub(super) fn prove_wildcard(&self, name: &Name, wildcard: &Name, answer: &mut Answer) {
        match &self.hashed {
            Some(hashed) => {
                let next_closer = name.trim_to(wildcard.iter().count());
                self.add_denial(hashed.covering(&next_closer), RecordType::NSEC3, answer);
            }
            None => self.add_span(name, answer),
        }
    }

    /// A wildcard stands for the name, and has no such type (RFC 4035 §3.1.3.4, RFC 5155 §7.2.5).
    pub(super) fn prove_no_wildcard_type(&self, name: &Name, wildcard: &Name, answer: &mut Answer) {
        match &self.hashed {
            Some(hashed) => {
                self.add_nearest(hashed, name, answer);
                self.add_denial(hashed.matching(wildcard), RecordType::NSEC3, answer);
            }
            None => {
                self.add_span(name, answer);
                self.add_span(wildcard, answer);
            }
        }
    }

    /// The record that matches a name; where there is none, the proof that the nearest one above it that has one is that
    /// (RFC 5155 §7.2.1), as for names that do not exist, and for delegations that are left out.
    fn add_nearest(&self, hashed: &Hashed, name: &Name, answer: &mut Answer) {
        let mut below = None;
        for labels in (self.origin().iter().count()..=name.iter().count()).rev() {
            let ancestor = name.trim_to(labels);
            if let Some(owner) = hashed.matching(&ancestor) {
                self.add_denial(Some(owner), RecordType::NSEC3, answer);
                break;
            }
            below = Some(ancestor);
        }
        let owner = below.and_then(|next_closer| hashed.covering(&next_closer));
        self.add_denial(owner, RecordType::NSEC3, answer);
    }

    /// The NSEC record of a name, or of the last one before it.
    fn add_span(&self, name: &Name, answer: &mut Answer) {
        let before = self.nodes.range::<Name, _>((Bound::Unbounded, Bound::Included(name)));
        let mut with_proof = before.rev().filter(|(_, node)| node.contains_key(&RecordType::NSEC));
        self.add_denial(with_proof.next().map(|(owner, _)| owner), RecordType::NSEC, answer);
    }

    /// Adds the record of this type at a name, unless it is there already.
    fn add_denial(&self, owner: Option<&Name>, kind: RecordType, answer: &mut Answer) {
        let Some(set) = owner.and_then(|owner| self.set(owner, kind)) else { return };
        let is_there = answer.authorities.iter().any(|record| Some(record) == set.records.first());
        if !is_there {
            add(&mut answer.authorities, set, None, true);
        }
    }
}

fn has_chain(node: &Node, parameters: &NSEC3PARAM) -> bool {
    let is_of_chain = |nsec3: &NSEC3| {
        nsec3.hash_algorithm() == parameters.hash_algorithm()
            && nsec3.iterations() == parameters.iterations()
            && nsec3.salt() == parameters.salt()
    };
    let is_one = |record: &Record| matches!(&record.data, RData::DNSSEC(DNSSECRData::NSEC3(nsec3)) if is_of_chain(nsec3));
    node.get(&RecordType::NSEC3).is_some_and(|set| set.records.iter().any(is_one))
}

/// The hash that a name has in its first label, in base32 with the extended hexadecimal alphabet (RFC 5155 §3).
fn hash_of(name: &Name) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in name.iter().next()? {
        bits = (bits << 5 | char::from(*digit).to_digit(32)?) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::ResponseCode;

    use super::*;
    use crate::zone::read_zone_text;

    /// The zone of RFC 5155, appendix A, without its signatures.
    const ZONE: &str = "$TTL 3600\n\
        @ SOA ns1 bugs.x.w 1 3600 300 3600000 3600\n\
        @ NS ns1\n@ NS ns2\n@ MX 1 xx\n@ DNSKEY 256 3 7 AAAA\n@ NSEC3PARAM 1 0 12 aabbccdd\n\
        0p9mhaveqvm6t7vbl5lop2u3t2rp3tom NSEC3 1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr MX DNSKEY NS SOA NSEC3PARAM RRSIG\n\
        2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG\n\
        2vptu5timamqttgl4luu9kg21e0aor3s NSEC3 1 1 12 aabbccdd 35mthgpgcu1qg68fab165klnsnk3dpvl MX RRSIG\n\
        35mthgpgcu1qg68fab165klnsnk3dpvl NSEC3 1 1 12 aabbccdd b4um86eghhds6nea196smvmlo4ors995 NS DS RRSIG\n\
        a NS ns1.a\na DS 58470 5 1 3079f1593ebad6dc121e202a8b766a6a4837206c\nns1.a A 192.0.2.5\n\
        ai A 192.0.2.9\n\
        b4um86eghhds6nea196smvmlo4ors995 NSEC3 1 1 12 aabbccdd gjeqe526plbf1g8mklp59enfd789njgi MX RRSIG\n\
        c NS ns1.c\nns1.c A 192.0.2.7\n\
        gjeqe526plbf1g8mklp59enfd789njgi NSEC3 1 1 12 aabbccdd ji6neoaepv8b5o6k4ev33abha8ht9fgc HINFO A AAAA RRSIG\n\
        ji6neoaepv8b5o6k4ev33abha8ht9fgc NSEC3 1 1 12 aabbccdd k8udemvp1j2f7eg6jebps17vp3n8i58h\n\
        k8udemvp1j2f7eg6jebps17vp3n8i58h NSEC3 1 1 12 aabbccdd kohar7mbb8dc2ce8a9qvl8hon4k53uhi\n\
        kohar7mbb8dc2ce8a9qvl8hon4k53uhi NSEC3 1 1 12 aabbccdd q04jkcevqvmu85r014c7dkba38o0ji5r A RRSIG\n\
        ns1 A 192.0.2.1\nns2 A 192.0.2.2\n\
        q04jkcevqvmu85r014c7dkba38o0ji5r NSEC3 1 1 12 aabbccdd r53bq7cc2uvmubfu5ocmm6pers9tk9en A RRSIG\n\
        r53bq7cc2uvmubfu5ocmm6pers9tk9en NSEC3 1 1 12 aabbccdd t644ebqk9bibcna874givr6joj62mlhv MX RRSIG\n\
        t644ebqk9bibcna874givr6joj62mlhv NSEC3 1 1 12 aabbccdd 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom HINFO A AAAA RRSIG\n\
        *.w MX 1 ai\nx.w MX 1 xx\nx.y.w MX 1 xx\nxx A 192.0.2.10\n";

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn zone(text: &str) -> Result<Zone, ZoneError> {
        let origin = name("example.");
        Zone::new(&origin, read_zone_text(text.as_bytes(), &origin).unwrap())
    }

    /// The first digits of the NSEC3 records in an answer.
    fn proof(zone: &Zone, owner: &str, kind: RecordType) -> (ResponseCode, Vec<String>) {
        let answer = zone.answer(&name(owner), kind, true);
        let nsec3 = answer.authorities.iter().filter(|record| record.record_type() == RecordType::NSEC3);
        let mut owners: Vec<String> = nsec3.map(|record| record.name.to_string()[..4].to_owned()).collect();
        owners.sort();
        (answer.code, owners)
    }

    #[test]
    fn denials_are_those_of_appendix_b() {
        let zone = zone(ZONE).unwrap();
        let cases = [
            ("a.c.x.w.example.", RecordType::A, ResponseCode::NXDomain, &["0p9m", "35mt", "b4um"][..]),
            ("ns1.example.", RecordType::MX, ResponseCode::NoError, &["2t7b"]),
            ("y.w.example.", RecordType::A, ResponseCode::NoError, &["ji6n"]),
            ("mc.c.example.", RecordType::MX, ResponseCode::NoError, &["0p9m", "35mt"]),
            ("c.example.", RecordType::DS, ResponseCode::NoError, &["0p9m", "35mt"]),
            ("a.z.w.example.", RecordType::MX, ResponseCode::NoError, &["q04j"]),
            ("a.z.w.example.", RecordType::AAAA, ResponseCode::NoError, &["k8ud", "q04j", "r53b"]),
            ("example.", RecordType::DS, ResponseCode::NoError, &["0p9m"]),
            ("mc.a.example.", RecordType::MX, ResponseCode::NoError, &[]),
        ];
        for (owner, kind, code, owners) in cases {
            let expected = (code, owners.iter().map(|owner| (*owner).to_owned()).collect());
            assert_eq!(proof(&zone, owner, kind), expected, "{owner} {kind}");
        }
        let hash = "2t7b4g4vsa5smi47k61mv5bv1a22bojr.example.";
        assert_eq!(proof(&zone, hash, RecordType::NSEC3).0, ResponseCode::NXDomain, "§7.2.8");
    }

    #[test]
    fn what_takes_too_long_is_refused() {
        let error = zone(&ZONE.replace(" 12 ", " 2501 ")).unwrap_err();
        assert_eq!(error, ZoneError::Iterations(2501));
        assert!(zone(&ZONE.replace("NSEC3PARAM 1 0 12", "NSEC3PARAM 1 1 2501")).unwrap().hashed.is_none());
    }
}
