//! From the bytes of a request to the bytes of its responses.

use std::net::SocketAddr;
use std::sync::Arc;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use psmc_routes::wire::{MAX_UDP_LEN, malformed, read_message};
use psmc_service::clock::unix_seconds;

use super::hosted::{Hosted, Outcome, Role};
use super::transfer::portions;
use super::tsig::{self, Session};
use super::{Contents, Server, Transport};

/// What a UDP response holds without EDNS (RFC 1035 §4.2.1).
const PLAIN_UDP_LEN: usize = 512;

/// The length of a header, without which there is nothing to respond to.
const HEADER_LEN: usize = 12;

impl Server {
    /// The responses to a request: none to what is no request, several to a transfer.
    pub async fn respond(&self, bytes: &[u8], from: SocketAddr, over: Transport) -> Vec<Vec<u8>> {
        let Some(is_request) = bytes.get(2).map(|flags| flags & 0x80 == 0) else { return Vec::new() };
        if !is_request || bytes.len() < HEADER_LEN {
            return Vec::new();
        }
        let incoming = match read_message(bytes) {
            Ok(incoming) => incoming,
            Err(error) => {
                self.counters.malformed();
                return malformed(bytes, error).into_iter().collect();
            }
        };
        let (now_s, contents) = (unix_seconds(), self.contents());
        let verified = tsig::verify(&incoming, bytes, contents.keys(), now_s);
        let request = incoming.message;
        let mut session = match verified {
            Ok(session) => session,
            Err(refused) => {
                self.counters.refused();
                tracing::info!(%from, error = ?refused.error(), "request with an invalid TSIG");
                return vec![refused.response(&request, now_s)];
            }
        };
        let responses = self.decide(&contents, &request, session.as_ref(), from, over).await;
        let limit = if over == Transport::Udp { udp_limit(&request) } else { usize::from(u16::MAX) };
        let room = limit - session.as_ref().map_or(0, |_| TSIG_LEN);
        let mut encoded = Vec::with_capacity(responses.len());
        for mut response in responses {
            add_edns(&request, &mut response);
            let bytes = fitting(&response, room);
            encoded.push(match &mut session {
                Some(session) => session.sign(bytes, now_s),
                None => bytes,
            });
        }
        encoded
    }

    async fn decide(
        &self,
        contents: &Contents,
        request: &Message,
        session: Option<&Session>,
        from: SocketAddr,
        over: Transport,
    ) -> Vec<Message> {
        let with = |code| vec![response_to(request, code)];
        if request.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
            return with(ResponseCode::BADVERS);
        }
        // What is not known is said so, whatever else is in it or missing (RFC 8906 §3.1.4).
        if matches!(request.op_code, OpCode::Status | OpCode::Unknown(_)) {
            return with(ResponseCode::NotImp);
        }
        let [question] = &request.queries[..] else { return with(ResponseCode::FormErr) };
        if question.query_class() != DNSClass::IN {
            return with(ResponseCode::Refused);
        }
        let (name, kind) = (question.name(), question.query_type());
        let exact = contents.zone(name);
        match (request.op_code, kind) {
            (OpCode::Query, RecordType::AXFR | RecordType::IXFR) => {
                self.transfer(request, exact, session, from, over)
            }
            (OpCode::Query, _) => vec![self.query(contents.zone_of(name, kind), request, name, kind)],
            (OpCode::Update, RecordType::SOA) => with(self.update(request, exact, session, from).await),
            (OpCode::Notify, RecordType::SOA) => vec![notified(request, exact, session, from)],
            (OpCode::Update | OpCode::Notify, _) => with(ResponseCode::FormErr),
            (OpCode::Status | OpCode::Unknown(_), _) => with(ResponseCode::NotImp),
        }
    }

    fn query(
        &self,
        hosted: Option<&Arc<Hosted>>,
        request: &Message,
        name: &Name,
        kind: RecordType,
    ) -> Message {
        let Some(hosted) = hosted else {
            self.counters.refused();
            return response_to(request, ResponseCode::Refused);
        };
        let Some(zone) = hosted.served() else { return response_to(request, ResponseCode::ServFail) };
        let dnssec = request.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok);
        let answer = zone.answer(name, kind, dnssec);
        let mut response = response_to(request, answer.code);
        response.metadata.authoritative = answer.authoritative;
        response.answers = answer.answers;
        response.authorities = answer.authorities;
        response.additionals = answer.additionals;
        self.counters.answered();
        response
    }

    fn transfer(
        &self,
        request: &Message,
        hosted: Option<&Arc<Hosted>>,
        session: Option<&Session>,
        from: SocketAddr,
        over: Transport,
    ) -> Vec<Message> {
        let with = |code| vec![response_to(request, code)];
        let Some(hosted) = hosted else { return with(ResponseCode::NotAuth) };
        if !hosted.access.admits(from.ip(), session.map(Session::key)) {
            self.counters.refused();
            tracing::info!(%from, zone = %hosted.origin(), "transfer refused: neither key nor address is allowed");
            return with(ResponseCode::Refused);
        }
        let Some(zone) = hosted.served() else { return with(ResponseCode::ServFail) };
        let asked = request.authorities.iter().find_map(|record| {
            let RData::SOA(soa) = &record.data else { return None };
            Some(soa.serial)
        });
        let is_incremental = request.queries[0].query_type() == RecordType::IXFR;
        let records = match (over, is_incremental) {
            // By UDP only the serial number is told: whoever wants more comes by TCP (RFC 1995 §2).
            (Transport::Udp, true) => Some(vec![zone.soa_record().clone()]),
            (Transport::Udp, false) => return with(ResponseCode::FormErr),
            (Transport::Stream, _) => hosted.transfer(asked.filter(|_| is_incremental)),
        };
        let Some(records) = records else { return with(ResponseCode::ServFail) };
        self.counters.transferred();
        let mut messages = Vec::new();
        for portion in portions(records) {
            let mut message = response_to(request, ResponseCode::NoError);
            message.metadata.authoritative = true;
            if !messages.is_empty() {
                message.queries.clear();
            }
            message.answers = portion;
            messages.push(message);
        }
        messages
    }

    async fn update(
        &self,
        request: &Message,
        hosted: Option<&Arc<Hosted>>,
        session: Option<&Session>,
        from: SocketAddr,
    ) -> ResponseCode {
        let Some(mut hosted) = hosted.cloned() else { return ResponseCode::NotAuth };
        let session = match self.updater(&hosted, session, from) {
            Ok(session) => session,
            Err(code) => return code,
        };
        if !self.replays.is_new(session.mac(), unix_seconds()) {
            self.counters.refused();
            tracing::warn!(%from, key = %session.key(), "update refused: replay");
            return ResponseCode::Refused;
        }
        let outcome = loop {
            let successor = match hosted
                .update(&self.store, &request.answers, &request.authorities, unix_seconds())
                .await
            {
                Ok(outcome) => break outcome,
                Err(successor) => successor,
            };
            if let Err(code) = self.updater(&successor, Some(session), from) {
                return code;
            }
            hosted = successor;
        };
        match outcome {
            Outcome::Changed => {
                self.counters.updated();
                tracing::info!(%from, key = %session.key(), zone = %hosted.origin(), "updated");
                ResponseCode::NoError
            }
            Outcome::Unchanged => ResponseCode::NoError,
            Outcome::Refused(refusal) => refusal.0,
            Outcome::Failed(error) => {
                tracing::error!(zone = %hosted.origin(), error, "update failed; the zone is unchanged");
                ResponseCode::ServFail
            }
        }
    }

    /// Who may change the zone, if that is who has signed.
    fn updater<'a>(
        &self,
        hosted: &Hosted,
        session: Option<&'a Session>,
        from: SocketAddr,
    ) -> Result<&'a Session, ResponseCode> {
        let Role::Primary { updaters, .. } = &hosted.role else { return Err(ResponseCode::NotAuth) };
        session.filter(|session| updaters.contains(session.key())).ok_or_else(|| {
            self.counters.refused();
            tracing::info!(%from, zone = %hosted.origin(), "update refused: key not authorised");
            ResponseCode::Refused
        })
    }
}

/// Takes the word of the zone's primary, or of whoever has its key, that the zone has changed (RFC 1996).
fn notified(
    request: &Message,
    hosted: Option<&Arc<Hosted>>,
    session: Option<&Session>,
    from: SocketAddr,
) -> Message {
    let Some(hosted) = hosted else { return response_to(request, ResponseCode::NotAuth) };
    let Role::Secondary { primary, key } = &hosted.role else {
        return response_to(request, ResponseCode::Refused);
    };
    let is_signed =
        session.is_some_and(|session| key.as_ref().is_some_and(|key| key.name() == session.key()));
    if !is_signed && primary.ip() != from.ip().to_canonical() {
        tracing::info!(%from, zone = %hosted.origin(), "NOTIFY refused: not from the primary");
        return response_to(request, ResponseCode::Refused);
    }
    hosted.notified.notify_one();
    let mut response = response_to(request, ResponseCode::NoError);
    response.metadata.authoritative = true;
    response
}

fn response_to(request: &Message, code: ResponseCode) -> Message {
    let mut response = Message::new(request.id, MessageType::Response, request.op_code);
    // Of the request's flags only these are answered with, and only to a question (RFC 6895 §2, RFC 4035 §3.1.6).
    let is_question = request.op_code == OpCode::Query;
    response.metadata.recursion_desired = is_question && request.recursion_desired;
    response.metadata.checking_disabled = is_question && request.checking_disabled;
    response.metadata.response_code = code;
    response.queries.clone_from(&request.queries);
    response
}

fn add_edns(request: &Message, response: &mut Message) {
    let Some(asked) = &request.edns else { return };
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP_LEN).set_dnssec_ok(asked.flags().dnssec_ok);
    let code: u16 = response.response_code.into();
    edns.set_rcode_high(u8::try_from(code >> 4).unwrap_or(0));
    response.set_edns(edns);
}

fn udp_limit(request: &Message) -> usize {
    let asked =
        request.edns.as_ref().map_or(PLAIN_UDP_LEN, |edns| edns.max_payload().min(MAX_UDP_LEN).into());
    asked.max(PLAIN_UDP_LEN)
}

/// The bytes of a response; where it is too long, without its records, and marked as cut off.
fn fitting(response: &Message, room: usize) -> Vec<u8> {
    match response.to_vec() {
        Ok(bytes) if bytes.len() <= room => bytes,
        Ok(_) | Err(_) => {
            let mut cut = response.truncate();
            for section in [&mut cut.answers, &mut cut.authorities, &mut cut.additionals] {
                section.clear();
            }
            cut.to_vec().unwrap_or_default()
        }
    }
}

/// Room for a TSIG record: two names of 255 bytes are the exception, and such a response is cut off.
const TSIG_LEN: usize = 200;
