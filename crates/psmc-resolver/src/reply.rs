//! What is answered.

use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, ResponseCode};
use hickory_proto::rr::{RData, Record};
use psmc_routes::wire::MAX_UDP_LEN;

/// What a UDP response holds without EDNS (RFC 1035 §4.2.1).
const PLAIN_UDP_LEN: usize = 512;

/// The longest that an answer is kept: a day (RFC 8767 §4 takes a week at most for sane).
const MAX_LIFETIME_S: u32 = 24 * 3600;

/// The longest that the absence of records is kept (RFC 2308 §5): three hours.
const MAX_NEGATIVE_S: u32 = 3 * 3600;

/// How long it is remembered that nobody could answer (RFC 9520 §3.2): a second, so that recovery is soon noticed.
const FAILURE_S: u32 = 1;

/// An answer, apart from whom it is for.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) code: ResponseCode,
    pub(super) authentic: bool,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    pub(super) additionals: Vec<Record>,
}

impl Reply {
    /// What an upstream server said.
    pub(super) fn of(message: Message) -> Self {
        Self {
            code: message.response_code,
            authentic: message.authentic_data,
            answers: message.answers,
            authorities: message.authorities,
            additionals: message.additionals,
        }
    }

    /// An answer that has a code only.
    pub(super) fn of_code(code: ResponseCode) -> Self {
        let (answers, authorities, additionals) = (Vec::new(), Vec::new(), Vec::new());
        Self { code, authentic: false, answers, authorities, additionals }
    }

    /// Records that the resolver itself answers with.
    pub(super) fn of_records(answers: Vec<Record>) -> Self {
        Self { answers, ..Self::of_code(ResponseCode::NoError) }
    }

    /// Whether it says that there is nothing of what was asked.
    pub(super) fn is_negative(&self) -> bool {
        self.answers.is_empty() || self.code != ResponseCode::NoError
    }

    /// Whether it says anything about the name, rather than about the server.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.code, ResponseCode::NoError | ResponseCode::NXDomain)
    }

    /// How long it may be kept; not at all without the SOA record that says so (RFC 2308 §5).
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let seconds = if !self.is_final() {
            FAILURE_S
        } else if self.is_negative() {
            let soa = self.authorities.iter().find_map(|record| {
                let RData::SOA(soa) = &record.data else { return None };
                Some(record.ttl.min(soa.minimum))
            })?;
            // The chain of aliases that ends in nothing counts as well.
            self.answers.iter().map(|record| record.ttl).fold(soa.min(MAX_NEGATIVE_S), u32::min)
        } else {
            self.answers.iter().map(|record| record.ttl).fold(MAX_LIFETIME_S, u32::min)
        };
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The same after it has been kept for so long.
    pub(super) fn aged(&self, age: Duration) -> Self {
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        self.with_ttl(|ttl| ttl.saturating_sub(age))
    }

    /// The same with no TTL above `most` seconds.
    pub(super) fn capped(&self, most: u32) -> Self {
        self.with_ttl(|ttl| ttl.min(most))
    }

    /// The same with this TTL.
    pub(super) fn lasting(&self, ttl: u32) -> Self {
        self.with_ttl(|_| ttl)
    }

    /// The addresses in it.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let address = |record: &Record| record.data.ip_addr();
        self.answers.iter().filter_map(address).collect()
    }

    /// About what it takes in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        let records = self.answers.len() + self.authorities.len() + self.additionals.len();
        let data: usize = self.records().map(|record| data_len(&record.data)).sum();
        size_of::<Self>() + records * size_of::<Record>() + data
    }

    /// The response to a request, in at most `limit` bytes; cut off where it is longer.
    pub(super) fn to_bytes(&self, request: &Message, limit: usize) -> Vec<u8> {
        let mut response = Message::new(request.id, MessageType::Response, request.op_code);
        let dnssec_ok = request.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok);
        response.metadata.recursion_desired = request.recursion_desired;
        response.metadata.recursion_available = true;
        response.metadata.checking_disabled = request.checking_disabled;
        response.metadata.authentic_data = self.authentic && (dnssec_ok || request.authentic_data);
        response.metadata.response_code = self.code;
        response.queries.clone_from(&request.queries);
        response.answers.clone_from(&self.answers);
        response.authorities.clone_from(&self.authorities);
        response.additionals.clone_from(&self.additionals);
        if request.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_UDP_LEN).set_dnssec_ok(dnssec_ok);
            edns.set_rcode_high(u8::try_from(u16::from(self.code) >> 4).unwrap_or(0));
            response.set_edns(edns);
        }
        fitting(response, limit)
    }

    fn with_ttl(&self, change: impl Fn(u32) -> u32) -> Self {
        let mut reply = self.clone();
        for section in [&mut reply.answers, &mut reply.authorities, &mut reply.additionals] {
            section.iter_mut().for_each(|record| record.ttl = change(record.ttl));
        }
        reply
    }

    /// All of its records.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.answers.iter().chain(&self.authorities).chain(&self.additionals)
    }
}

/// What a datagram back to whoever sent `request` may hold.
pub(super) fn udp_limit(request: &Message) -> usize {
    let asked =
        request.edns.as_ref().map_or(PLAIN_UDP_LEN, |edns| edns.max_payload().min(MAX_UDP_LEN).into());
    asked.max(PLAIN_UDP_LEN)
}

/// The bytes of a response; where it is too long, first without its additional records, then without any.
fn fitting(mut response: Message, limit: usize) -> Vec<u8> {
    if let Ok(bytes) = response.to_vec()
        && bytes.len() <= limit
    {
        return bytes;
    }
    response.additionals.clear();
    if let Ok(bytes) = response.to_vec()
        && bytes.len() <= limit
    {
        return bytes;
    }
    response.metadata.truncation = true;
    response.answers.clear();
    response.authorities.clear();
    response.to_vec().unwrap_or_default()
}

/// About how many bytes outside of its record the data takes; the largest kinds by name.
fn data_len(data: &RData) -> usize {
    if let RData::Unknown { rdata, .. } = data {
        rdata.anything.len()
    } else if let RData::TXT(txt) = data {
        txt.txt_data.iter().map(|text| text.len() + size_of::<Box<[u8]>>()).sum()
    } else if matches!(data, RData::DNSSEC(_) | RData::SVCB(_) | RData::HTTPS(_)) {
        // Signatures and keys of RSA have 512 bytes at most as a rule.
        512
    } else {
        64
    }
}
