//! Addresses of services in whatever answers carry them: by an alias, as hints of HTTPS and SVCB records, beside others.
//!
//! What is promised about a service's address is promised for all of them; otherwise a browser that asks for HTTPS records
//! goes by another way than one that asks for addresses.

use std::net::IpAddr;

use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable};

use crate::reply::Reply;
use psmc_routes::wire::{bytes_of, data_of, type_covered};

/// The parameters of SVCB records that matter here (RFC 9460 §14.3.2).
const MANDATORY: u16 = 0;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;

/// The names whose addresses an answer has, in lower case.
pub(crate) fn names_with_addresses(reply: &Reply) -> impl Iterator<Item = Name> {
    reply.records().filter_map(|record| {
        if matches!(record.record_type(), RecordType::A | RecordType::AAAA) {
            return Some(record.name.to_lowercase());
        }
        let is_binding = matches!(record.record_type(), RecordType::SVCB | RecordType::HTTPS);
        let binding = Binding::of(record).filter(|binding| is_binding && binding.has_hints())?;
        Some(binding.target.to_lowercase())
    })
}

/// Whether a SVCB or HTTPS record has an address as a hint of which that is so.
pub(crate) fn has_hint(record: &Record, is_so: impl Fn(IpAddr) -> bool) -> bool {
    if !matches!(record.record_type(), RecordType::SVCB | RecordType::HTTPS) {
        return false;
    }
    let Some(binding) = Binding::of(record) else { return false };
    binding.parameters.iter().any(|(key, value)| match *key {
        IPV4_HINT => value.as_chunks().0.iter().any(|octets: &[u8; 4]| is_so((*octets).into())),
        IPV6_HINT => value.as_chunks().0.iter().any(|octets: &[u8; 16]| is_so((*octets).into())),
        _ => false,
    })
}

/// The answer with these addresses of a name in the place of those that it has; what no signature covers any longer has
/// none. Beside an answer there are none of its addresses: whoever needs them asks.
pub(super) fn with_addresses(reply: &Reply, name: &Name, kind: RecordType, addresses: &[IpAddr]) -> Reply {
    let mut changed = reply.clone();
    let is_own = |record: &Record| {
        matches!(record.record_type(), RecordType::A | RecordType::AAAA)
            && record.name.to_lowercase() == *name
    };
    for section in [&mut changed.answers, &mut changed.authorities, &mut changed.additionals] {
        let is_changed =
            section.iter().any(is_own) || section.iter().any(|record| has_hints_of(record, name));
        if !is_changed {
            continue;
        }
        changed.authentic = false;
        section.retain(|record| !is_own(record) && !is_signature_of_addresses(record, name));
        for record in section.iter_mut().filter(|record| has_hints_of(record, name)) {
            if let Some(binding) = Binding::of(record) {
                record.data = data_of(record.record_type(), binding.with_hints(addresses));
            }
        }
    }
    let ttl = changed.answers.iter().map(|record| record.ttl).min().unwrap_or(super::TTL_WITH_ROUTES);
    let has_lost_addresses = reply.answers.iter().any(is_own);
    if has_lost_addresses {
        let data = addresses.iter().filter_map(|address| match (address, kind) {
            (IpAddr::V4(ip), RecordType::A | RecordType::ANY) => Some(RData::A((*ip).into())),
            (IpAddr::V6(ip), RecordType::AAAA | RecordType::ANY) => Some(RData::AAAA((*ip).into())),
            _ => None,
        });
        changed.answers.extend(data.map(|data| Record::from_rdata(name.clone(), ttl, data)));
    }
    changed
}

fn has_hints_of(record: &Record, name: &Name) -> bool {
    matches!(record.record_type(), RecordType::SVCB | RecordType::HTTPS)
        && Binding::of(record)
            .is_some_and(|binding| binding.has_hints() && binding.target.to_lowercase() == *name)
}

/// Whether a record signs addresses of a name, or SVCB and HTTPS records, whose hints may have changed.
fn is_signature_of_addresses(record: &Record, name: &Name) -> bool {
    match type_covered(&record.data) {
        Some(RecordType::A | RecordType::AAAA) => record.name.to_lowercase() == *name,
        Some(RecordType::SVCB | RecordType::HTTPS) => true,
        Some(_) | None => false,
    }
}

/// The data of a SVCB or HTTPS record (RFC 9460 §2.2).
struct Binding {
    priority: [u8; 2],
    /// Whose service it is in the end: the name that is written, or the record's own.
    target: Name,
    written: Name,
    parameters: Vec<(u16, Vec<u8>)>,
}

impl Binding {
    fn of(record: &Record) -> Option<Self> {
        let bytes = bytes_of(&record.data);
        let (priority, rest) = bytes.split_first_chunk()?;
        let mut decoder = BinDecoder::new(rest);
        let written = Name::read(&mut decoder).ok()?;
        let mut rest = &rest[decoder.index()..];
        let mut parameters = Vec::new();
        while let Some((head, tail)) = rest.split_first_chunk::<4>() {
            let [key, length] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
            let (value, tail) = tail.split_at_checked(length.into())?;
            parameters.push((key, value.to_vec()));
            rest = tail;
        }
        let target = if written.is_root() { record.name.clone() } else { written.clone() };
        rest.is_empty().then_some(Self { priority: *priority, target, written, parameters })
    }

    fn has_hints(&self) -> bool {
        self.parameters.iter().any(|(key, _)| is_hint(*key))
    }

    /// The bytes with these addresses as hints; without hints of a family of which there are none.
    fn with_hints(mut self, addresses: &[IpAddr]) -> Vec<u8> {
        for (key, value) in &mut self.parameters {
            let octets = addresses.iter().filter_map(|address| match (address, *key) {
                (IpAddr::V4(ip), IPV4_HINT) => Some(ip.octets().to_vec()),
                (IpAddr::V6(ip), IPV6_HINT) => Some(ip.octets().to_vec()),
                _ => None,
            });
            if is_hint(*key) {
                *value = octets.flatten().collect();
            }
        }
        self.parameters.retain(|(key, value)| !is_hint(*key) || !value.is_empty());
        let keys: Vec<u16> = self.parameters.iter().map(|(key, _)| *key).collect();
        for (_, value) in self.parameters.iter_mut().filter(|(key, _)| *key == MANDATORY) {
            let chunks = value
                .chunks_exact(2)
                .filter(|chunk| keys.contains(&u16::from_be_bytes([chunk[0], chunk[1]])));
            *value = chunks.flatten().copied().collect();
        }
        self.parameters.retain(|(key, value)| *key != MANDATORY || !value.is_empty());
        let mut bytes = self.priority.to_vec();
        bytes.extend(self.written.to_bytes().unwrap_or_default());
        for (key, value) in &self.parameters {
            bytes.extend(key.to_be_bytes());
            bytes.extend(u16::try_from(value.len()).unwrap_or(0).to_be_bytes());
            bytes.extend(value);
        }
        bytes
    }
}

fn is_hint(key: u16) -> bool {
    matches!(key, IPV4_HINT | IPV6_HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use psmc_dns::zone::read_zone_text;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn records(text: &str) -> Vec<Record> {
        let text = format!("$TTL 300\n{text}");
        read_zone_text(text.as_bytes(), &name("example.")).unwrap()
    }

    fn reply(answers: &str, additionals: &str) -> Reply {
        let additionals = records(additionals);
        Reply { additionals, authentic: true, ..Reply::of_records(records(answers)) }
    }

    fn data(records: &[Record]) -> Vec<(String, Vec<u8>)> {
        records.iter().map(|record| (record.name.to_string(), bytes_of(&record.data))).collect()
    }

    fn inner() -> Vec<IpAddr> {
        ["10.77.0.1", "fd77::1"].map(|ip| ip.parse().unwrap()).to_vec()
    }

    #[test]
    fn whoever_carries_addresses_is_found() {
        let names = |answers: &str, additionals: &str| -> Vec<String> {
            names_with_addresses(&reply(answers, additionals)).map(|name| name.to_string()).collect()
        };
        assert_eq!(names("a CNAME Www\nWww A 192.0.2.1", ""), ["www.example."]);
        assert_eq!(
            names("www HTTPS 1 . ipv4hint=192.0.2.1\nx HTTPS 1 www ipv6hint=::1", ""),
            ["www.example.", "www.example."]
        );
        assert_eq!(names("www HTTPS 1 . alpn=h2\nx HTTPS 0 www", ""), [""; 0]);
        assert_eq!(names("x MX 1 www", "www AAAA ::1"), ["www.example."]);
    }

    #[test]
    fn addresses_are_replaced_wherever_they_are() {
        let www = name("www.example.");
        let signature = "RRSIG A 13 2 300 20300101000000 20200101000000 7 example. AAAA";
        let by_alias = reply(&format!("a CNAME www\nwww A 192.0.2.1\nwww A 192.0.2.2\nwww {signature}"), "");
        let changed = with_addresses(&by_alias, &www, RecordType::A, &inner());
        assert_eq!(data(&changed.answers), data(&records("a CNAME www\nwww A 10.77.0.1")));
        assert!(!changed.authentic);

        let hints = "alpn=h2 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1";
        let https = reply(
            &format!("www HTTPS 1 . {hints}\nother HTTPS 1 . {hints}"),
            "www A 192.0.2.1\nns A 192.0.2.3",
        );
        let changed = with_addresses(&https, &www, RecordType::HTTPS, &inner());
        let ours = "www HTTPS 1 . alpn=h2 mandatory=ipv4hint,alpn ipv4hint=10.77.0.1 ipv6hint=fd77::1";
        assert_eq!(data(&changed.answers), data(&records(&format!("{ours}\nother HTTPS 1 . {hints}"))));
        assert_eq!(data(&changed.additionals), data(&records("ns A 192.0.2.3")));
        let changed = with_addresses(&https, &www, RecordType::HTTPS, &inner()[1..]);
        let ours = "www HTTPS 1 . alpn=h2 mandatory=alpn ipv6hint=fd77::1";
        assert_eq!(data(&changed.answers[..1]), data(&records(ours)));

        let any = with_addresses(&reply("www A 192.0.2.1\nwww TXT x", ""), &www, RecordType::ANY, &inner());
        assert_eq!(data(&any.answers), data(&records("www TXT x\nwww A 10.77.0.1\nwww AAAA fd77::1")));
    }
}
