//! Messages, and records by themselves.

use std::collections::BTreeSet;

use hickory_proto::op::{Edns, Header, Message, OpCode, Query};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use super::Malformed;
use super::rdata::read as read_data;

/// A message that has come.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// What is in it.
    pub message: Message,
    /// Where its TSIG record begins, if it has one: what is before that is what is signed.
    pub signed_len: Option<usize>,
}

/// A record as a message has it.
struct Raw {
    name: Name,
    kind: RecordType,
    class: u16,
    ttl: u32,
    /// Where its data begins, and how long that is.
    data: (usize, usize),
}

/// Where a record is in a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Answer,
    Authority,
    Additional,
}

/// Takes a message apart.
///
/// # Errors
/// [`Malformed`]; never for data of a record that somebody could read.
pub fn read_message(bytes: &[u8]) -> Result<Incoming, Malformed> {
    let mut decoder = BinDecoder::new(bytes);
    let Header { metadata, counts } = Header::read(&mut decoder).map_err(|_| Malformed::Form)?;
    let mut message = Message::new(metadata.id, metadata.message_type, metadata.op_code);
    message.metadata = metadata;
    for _ in 0..counts.queries {
        message.queries.push(Query::read(&mut decoder).map_err(|_| Malformed::Form)?);
    }
    for _ in 0..counts.answers {
        let record = read_plain(&mut decoder, bytes, metadata.op_code, Section::Answer)?;
        message.answers.push(record);
    }
    for _ in 0..counts.authorities {
        let record = read_plain(&mut decoder, bytes, metadata.op_code, Section::Authority)?;
        message.authorities.push(record);
    }
    let mut signed_len = None;
    for _ in 0..counts.additionals {
        if signed_len.is_some() {
            // A signature is the last record (RFC 8945 §5.1).
            return Err(Malformed::Place);
        }
        let at = decoder.index();
        let raw = Raw::read(&mut decoder)?;
        if raw.kind == RecordType::OPT {
            add_options(&mut message, &raw, bytes)?;
        } else if raw.kind == RecordType::TSIG {
            message.set_signature(Box::new(signature(raw, bytes)?));
            signed_len = Some(at);
        } else {
            message.additionals.push(raw.record(bytes, metadata.op_code, Section::Additional)?);
        }
    }
    Ok(Incoming { message, signed_len })
}

/// Reads a record that stands by itself, as the database of zones has it.
///
/// # Errors
/// [`Malformed`].
pub fn read_record(bytes: &[u8]) -> Result<Record, Malformed> {
    let mut decoder = BinDecoder::new(bytes);
    let record = read_plain(&mut decoder, bytes, OpCode::Query, Section::Answer)?;
    if decoder.is_empty() { Ok(record) } else { Err(Malformed::Form) }
}

fn read_plain(
    decoder: &mut BinDecoder<'_>,
    bytes: &[u8],
    op_code: OpCode,
    section: Section,
) -> Result<Record, Malformed> {
    let raw = Raw::read(decoder)?;
    if matches!(raw.kind, RecordType::OPT | RecordType::TSIG) {
        return Err(Malformed::Place);
    }
    raw.record(bytes, op_code, section)
}

impl Raw {
    fn read(decoder: &mut BinDecoder<'_>) -> Result<Self, Malformed> {
        let name = Name::read(decoder).map_err(|_| Malformed::Form)?;
        let [kind, class, high, low, length] = {
            let mut numbers = [0; 5];
            for number in &mut numbers {
                *number = decoder.read_u16().map_err(|_| Malformed::Form)?.unverified();
            }
            numbers
        };
        let at = decoder.index();
        decoder.read_slice(length.into()).map_err(|_| Malformed::Form)?;
        Ok(Self {
            name,
            kind: kind.into(),
            class,
            ttl: u32::from(high) << 16 | u32::from(low),
            data: (at, length.into()),
        })
    }

    fn record(self, bytes: &[u8], op_code: OpCode, section: Section) -> Result<Record, Malformed> {
        let class = DNSClass::from(self.class);
        let data = if op_code == OpCode::Update && self.stands_for_all(class, section) {
            RData::Update0(self.kind)
        } else {
            read_data(self.kind, bytes, self.data.0, self.data.1)?
        };
        let mut record = Record::from_rdata(self.name, self.ttl, data);
        record.dns_class = class;
        Ok(record)
    }

    /// Whether it is a record of an update that has no data because it means a set (RFC 2136 §2.4, §2.5): not one whose data
    /// has no bytes, which types that this crate does not know may have.
    fn stands_for_all(&self, class: DNSClass, section: Section) -> bool {
        let has_no_data = self.data.1 == 0;
        let may_be_empty = super::layout(self.kind).is_none() && self.kind != RecordType::ANY;
        let means_a_record = match section {
            Section::Answer | Section::Additional => class == DNSClass::IN,
            Section::Authority => class != DNSClass::ANY,
        };
        has_no_data && !(means_a_record && may_be_empty)
    }
}

/// Takes the OPT record of a message (RFC 6891 §6.1.2), whose options are kept as they came.
fn add_options(message: &mut Message, raw: &Raw, bytes: &[u8]) -> Result<(), Malformed> {
    if message.edns.is_some() || !raw.name.is_root() {
        return Err(Malformed::Place);
    }
    let [code_high, version, flags_high, flags_low] = raw.ttl.to_be_bytes();
    let flags = u16::from_be_bytes([flags_high, flags_low]);
    let mut edns = Edns::new();
    edns.set_max_payload(raw.class).set_version(version).set_rcode_high(code_high);
    edns.set_dnssec_ok(flags & DNSSEC_OK != 0);
    let mut seen = BTreeSet::new();
    let mut rest = &bytes[raw.data.0..raw.data.0 + raw.data.1];
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let [code, length] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
        let (value, tail) = tail.split_at_checked(length.into()).ok_or(Malformed::Form)?;
        // Where an option comes several times, the first one counts.
        if seen.insert(code) {
            if !is_sound(code, value) {
                return Err(Malformed::Option(code));
            }
            edns.options_mut().insert(EdnsOption::Unknown(code, value.to_vec()));
        }
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(Malformed::Form);
    }
    message.metadata.merge_response_code(code_high);
    message.set_edns(edns);
    Ok(())
}

/// Whether an option is as its RFC has it. Those that say nothing about it are sound.
fn is_sound(code: u16, value: &[u8]) -> bool {
    match code {
        CLIENT_SUBNET => is_subnet(value),
        // Nothing in a question, four bytes in an answer (RFC 7314 §2).
        EXPIRE => matches!(value.len(), 0 | 4),
        // A code, and perhaps a text (RFC 8914 §2).
        EXTENDED_ERROR => value.len() >= 2,
        // A client's part alone, or with a server's of 8 to 32 bytes (RFC 7873 §4).
        COOKIE => value.len() == 8 || (16..=40).contains(&value.len()),
        // Key tags are of two bytes each (RFC 8145 §4.1).
        KEY_TAG => !value.is_empty() && value.len().is_multiple_of(2),
        _ => true,
    }
}

/// Whether an option of the client's subnet is sound (RFC 7871 §6); a family of 0 has no address (§7.1.2).
fn is_subnet(value: &[u8]) -> bool {
    let Some(([family_high, family_low, source, _scope], address)) = value.split_first_chunk::<4>() else {
        return false;
    };
    let bits = match u16::from_be_bytes([*family_high, *family_low]) {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return false,
    };
    let source = usize::from(*source);
    let unused = match source % 8 {
        0 => 0,
        used => 0xff_u8 >> used,
    };
    source <= bits
        && address.len() == source.div_ceil(8)
        && address.last().is_none_or(|last| last & unused == 0)
}

fn signature(raw: Raw, bytes: &[u8]) -> Result<Record<hickory_proto::rr::rdata::TSIG>, Malformed> {
    let class = DNSClass::from(raw.class);
    let RData::TSIG(tsig) = read_data(raw.kind, bytes, raw.data.0, raw.data.1)? else {
        return Err(Malformed::Form);
    };
    let mut record = Record::from_rdata(raw.name, raw.ttl, tsig);
    record.dns_class = class;
    Ok(record)
}

/// The flag DO (RFC 3225 §3).
const DNSSEC_OK: u16 = 0x8000;

/// Options of EDNS by their codes.
const CLIENT_SUBNET: u16 = 8;
const EXPIRE: u16 = 9;
const COOKIE: u16 = 10;
const KEY_TAG: u16 = 14;
const EXTENDED_ERROR: u16 = 15;
