//! What is asked.

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use psmc_routes::wire::MAX_UDP_LEN;

/// A question, with all that its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    name: Name,
    kind: RecordType,
    dnssec_ok: bool,
    checking_disabled: bool,
}

/// How a question is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With EDNS (RFC 6891).
    Edns,
    /// Without.
    Plain,
}

impl Question {
    /// A question of our own.
    pub(super) fn new(name: &Name, kind: RecordType) -> Self {
        Self { name: name.to_lowercase(), kind, dnssec_ok: false, checking_disabled: false }
    }

    /// The question of a request.
    ///
    /// # Errors
    /// The response code for a request that a resolver does not serve.
    pub(super) fn of_request(request: &Message) -> Result<Self, ResponseCode> {
        if request.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
            return Err(ResponseCode::BADVERS);
        }
        let [query] = &request.queries[..] else { return Err(ResponseCode::FormErr) };
        let kind = query.query_type();
        // A resolver has no zones to transfer, and only the Internet's names.
        if query.query_class() != DNSClass::IN || matches!(kind, RecordType::AXFR | RecordType::IXFR) {
            return Err(ResponseCode::Refused);
        }
        Ok(Self {
            name: query.name().to_lowercase(),
            kind,
            dnssec_ok: request.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok),
            checking_disabled: request.checking_disabled,
        })
    }

    /// Of what, in lower case.
    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// What of it.
    pub(super) fn kind(&self) -> RecordType {
        self.kind
    }

    /// Whether signatures are asked for, which takes EDNS.
    pub(super) fn wants_signatures(&self) -> bool {
        self.dnssec_ok
    }

    /// Whether an address is asked for.
    pub(super) fn is_of_address(&self) -> bool {
        matches!(self.kind, RecordType::A | RecordType::AAAA)
    }

    /// The domain that has the name, as far as the name alone tells: its last two labels.
    pub(super) fn domain(&self) -> Name {
        self.name.trim_to(2)
    }

    /// As it is put to an upstream server, with EDNS unless that server does not take it.
    pub(super) fn message(&self, id: u16, form: Form) -> Message {
        let mut message = Message::query();
        message.metadata.id = id;
        message.metadata.recursion_desired = true;
        message.metadata.checking_disabled = self.checking_disabled;
        // We want to be told whether the answer was validated (RFC 6840 §5.7).
        message.metadata.authentic_data = true;
        message.add_query(Query::query(self.name.clone(), self.kind));
        if form == Form::Plain {
            return message;
        }
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_LEN).set_dnssec_ok(self.dnssec_ok);
        message.set_edns(edns);
        message
    }

    /// Whether a message answers this question under this id.
    pub(super) fn is_answered_by(&self, message: &Message, id: u16) -> bool {
        let is_same = |query: &Query| {
            query.query_type() == self.kind
                && query.query_class() == DNSClass::IN
                && query.name().to_lowercase() == self.name
        };
        message.id == id
            && message.message_type == hickory_proto::op::MessageType::Response
            // A server that cannot read a question may leave it out of its complaint.
            && (message.queries.len() == 1 && is_same(&message.queries[0])
                || message.queries.is_empty()
                    && matches!(message.response_code, ResponseCode::FormErr | ResponseCode::NotImp))
    }
}
