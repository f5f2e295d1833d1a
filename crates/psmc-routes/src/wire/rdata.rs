//! The data of records.

use hickory_proto::dnssec::rdata::DNSSECRData;
use hickory_proto::rr::rdata::{A, AAAA, NULL};
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_proto::serialize::binary::{
    BinDecodable, BinDecoder, BinEncodable, BinEncoder, NameEncoding, Restrict,
};

use super::{Field, Malformed, layout};

/// Data of a type from its bytes, in which no name is compressed. Whatever the bytes are, `bytes_of` yields them again.
#[must_use]
pub fn data_of(kind: RecordType, bytes: Vec<u8>) -> RData {
    match (kind, &bytes[..]) {
        (RecordType::A, [a, b, c, d]) => return RData::A(A::new(*a, *b, *c, *d)),
        (RecordType::AAAA, bytes) => {
            if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
                return RData::AAAA(AAAA(octets.into()));
            }
        }
        _ => {}
    }
    understood(kind, &bytes).unwrap_or_else(|| opaque(kind, bytes))
}

/// Data that nobody looks into. The library's constructor takes it that there is some, which need not be so.
pub(super) fn opaque(kind: RecordType, bytes: Vec<u8>) -> RData {
    let mut rdata = NULL::new();
    rdata.anything = bytes;
    RData::Unknown { code: kind, rdata }
}

/// The data as the library reads it, if it would write the same.
fn understood(kind: RecordType, bytes: &[u8]) -> Option<RData> {
    let length = u16::try_from(bytes.len()).ok()?;
    if !has_structure(kind) || length == 0 {
        return None;
    }
    let data = RData::read(&mut BinDecoder::new(bytes), kind, Restrict::new(length)).ok()?;
    (bytes_of(&data) == bytes).then_some(data)
}

/// The types whose data this crate looks into, by the library's eyes.
fn has_structure(kind: RecordType) -> bool {
    matches!(
        kind,
        RecordType::NS
            | RecordType::CNAME
            | RecordType::PTR
            | RecordType::SOA
            | RecordType::MX
            | RecordType::SRV
            | RecordType::TXT
            | RecordType::SVCB
            | RecordType::HTTPS
            | RecordType::DNSKEY
            | RecordType::DS
            | RecordType::RRSIG
            | RecordType::NSEC
            | RecordType::NSEC3
            | RecordType::NSEC3PARAM
            | RecordType::TSIG
    )
}

/// The bytes of data, with no name compressed, each letter as it came.
pub fn bytes_of(data: &RData) -> Vec<u8> {
    if let RData::Unknown { rdata, .. } = data {
        return rdata.anything.clone();
    }
    emitted(data, false)
}

/// The canonical form of data (RFC 4034 §6.2): the names of old types in lower case.
pub fn canonical_bytes(data: &RData) -> Vec<u8> {
    let RData::Unknown { code, rdata } = data else {
        return emitted(data, true);
    };
    let whole = (&rdata.anything[..], 0, rdata.anything.len());
    rewritten(*code, whole, Name::to_lowercase).unwrap_or_else(|_| rdata.anything.clone())
}

/// The type that a RRSIG record covers.
pub fn type_covered(data: &RData) -> Option<RecordType> {
    if let RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) = data {
        return Some(rrsig.input().type_covered);
    }
    let RData::Unknown { code: RecordType::RRSIG, rdata } = data else { return None };
    Some(RecordType::from(u16::from_be_bytes(*rdata.anything.first_chunk()?)))
}

/// Whether bytes can be data of a type, as far as its addresses and names tell.
pub fn is_well_formed(kind: RecordType, bytes: &[u8]) -> bool {
    let has_length = match layout(kind) {
        Some([Field::Ipv4]) => bytes.len() == 4,
        Some([Field::Ipv6]) => bytes.len() == 16,
        Some(_) | None => kind != RecordType::SOA || understood(kind, bytes).is_some(),
    };
    has_length && rewritten(kind, (bytes, 0, bytes.len()), Name::clone).is_ok()
}

/// Reads the data of a record, at `at` of a message, of this length: names in it may lead to others before it.
pub(super) fn read(kind: RecordType, message: &[u8], at: usize, length: usize) -> Result<RData, Malformed> {
    let end = at + length;
    let raw = message.get(at..end).ok_or(Malformed::Form)?;
    let has_names = layout(kind).is_some_and(|fields| fields.iter().any(is_name));
    let bytes = if has_names && !raw.is_empty() {
        rewritten(kind, (message, at, end), Name::clone)?
    } else {
        raw.to_vec()
    };
    Ok(data_of(kind, bytes))
}

/// The data at a place of a message with each name written whole, those whose case does not count as `change` makes them.
fn rewritten(
    kind: RecordType,
    (message, at, end): (&[u8], usize, usize),
    change: impl Fn(&Name) -> Name,
) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::with_capacity(end - at);
    let mut place = at;
    let fields = layout(kind).unwrap_or_default();
    let names = fields.iter().rposition(is_name).map_or(0, |last| last + 1);
    for field in &fields[..names] {
        if is_name(field) {
            let name = name_at(message, &mut place)?;
            if place > end {
                return Err(Malformed::Form);
            }
            let name = if *field == Field::Name { change(&name) } else { name };
            bytes.extend(name.to_bytes().map_err(|_| Malformed::Form)?);
        } else {
            let length = match width(*field) {
                Some(width) => width,
                // A text has its length in front.
                None => usize::from(*message[..end].get(place).ok_or(Malformed::Form)?) + 1,
            };
            bytes.extend(message[..end].get(place..place + length).ok_or(Malformed::Form)?);
            place += length;
        }
    }
    bytes.extend(&message[place..end]);
    Ok(bytes)
}

/// Reads a name, and moves the place behind it.
fn name_at(message: &[u8], place: &mut usize) -> Result<Name, Malformed> {
    let at = u16::try_from(*place).ok().filter(|_| *place <= message.len()).ok_or(Malformed::Form)?;
    let mut decoder = BinDecoder::new(message).clone(at);
    let name = Name::read(&mut decoder).map_err(|_| Malformed::Form)?;
    *place = decoder.index();
    Ok(name)
}

fn is_name(field: &Field) -> bool {
    matches!(field, Field::Name | Field::CasedName)
}

/// How many bytes a part takes that stands in front of a name; `None` for a text.
fn width(field: Field) -> Option<usize> {
    match field {
        Field::U8 | Field::Algorithm => Some(1),
        Field::U16 | Field::Type | Field::CertificateKind => Some(2),
        Field::U32 | Field::Ttl | Field::Time | Field::Ipv4 => Some(4),
        Field::Ipv6 => Some(16),
        Field::Locator => Some(8),
        Field::Eui(length) => Some(length.into()),
        Field::Text
        | Field::Name
        | Field::CasedName
        | Field::Texts
        | Field::Rest
        | Field::Hex
        | Field::Base64
        | Field::Salt
        | Field::Hash
        | Field::Types
        | Field::Location
        | Field::Prefixes
        | Field::Parameters
        | Field::Nsap
        | Field::Gateway
        | Field::AnycastRelay
        | Field::HostIdentity => None,
    }
}

fn emitted(data: &RData, is_canonical: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_canonical_form(is_canonical);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    // What was read can be written: data has 64 KiB at most.
    let _ = data.emit(&mut encoder);
    bytes
}
