//! Writing the messages.

use super::{
    ACCEPT, CAP, CHAIN, CONNECT, CONNECTED, COUNT, COUNTED, CapTarget, Counted, DONE, Far, HELLO, INCOMING,
    Message, REFRESH, REFUSED, REGISTER, RELEASE, RESERVE, RESERVE_TUNNEL, RESERVED, REVOKE, RequestId,
    Reserve, Reserved, SHED, SHEDDING, SessionId, WELCOME, Welcome, cap, far, grant,
};
use crate::control::LENGTH_LEN;
use crate::fields;

impl Message {
    /// Appends the message, its length in front, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; LENGTH_LEN]);
        self.encode_body(out);
        let len = u32::try_from(out.len() - start - LENGTH_LEN).unwrap_or(u32::MAX);
        out[start..start + LENGTH_LEN].copy_from_slice(&len.to_be_bytes());
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                out.push(HELLO);
                out.extend(hello.version.to_be_bytes());
                fields::short_str(&hello.name, out);
                grant::encode(hello.grant.as_ref(), out);
            }
            Self::Welcome(told) => welcome(told, out),
            Self::Refused(refused) => {
                about(REFUSED, refused.request, out);
                out.extend(refused.reason.code().to_be_bytes());
                fields::short_str(&refused.text, out);
            }
            Self::Reserve(wanted) => reserve(RESERVE, wanted, out),
            Self::ReserveTunnel(wanted) => {
                reserve(RESERVE_TUNNEL, &wanted.session, out);
                out.extend(wanted.inside.octets());
            }
            Self::Reserved(session) => reserved(session, out),
            Self::Cap(wanted) => {
                about(CAP, wanted.request, out);
                target(&wanted.target, out);
                fields::rate(wanted.rate, out);
            }
            Self::Revoke(wanted) => {
                about(REVOKE, wanted.request, out);
                out.extend(wanted.site.0);
                out.extend(wanted.until_s.to_be_bytes());
            }
            Self::Done(request) => about(DONE, *request, out),
            Self::Release(request, session) => about_session(RELEASE, *request, *session, out),
            Self::Refresh(request, session) => about_session(REFRESH, *request, *session, out),
            Self::Chain(request, session, hop) => {
                about_session(CHAIN, *request, *session, out);
                fields::hop(hop, out);
            }
            Self::Connect(request, end) => {
                about(CONNECT, *request, out);
                destination(end, out);
            }
            Self::Connected(request) => about(CONNECTED, *request, out),
            Self::Register(request) => about(REGISTER, *request, out),
            Self::Incoming(stream) => {
                out.push(INCOMING);
                out.extend(stream.0.to_be_bytes());
            }
            Self::Accept(request, stream) => {
                about(ACCEPT, *request, out);
                out.extend(stream.0.to_be_bytes());
            }
            Self::Count(request, session) => about_session(COUNT, *request, *session, out),
            Self::Counted(told) => counted(told, out),
            Self::Shed(ask) => {
                out.push(SHED);
                ask.encode(out);
            }
            Self::Shedding(answer) => {
                out.push(SHEDDING);
                answer.encode(out);
            }
            Self::Unknown(kind) => out.push(*kind),
        }
    }
}

fn welcome(told: &Welcome, out: &mut Vec<u8>) {
    out.push(WELCOME);
    out.extend(told.version.to_be_bytes());
    out.extend(told.data_port.to_be_bytes());
    out.extend(told.sessions.to_be_bytes());
    fields::rate(told.max_rate, out);
    fields::short_str(&told.name, out);
    out.extend(told.abilities.bits().to_be_bytes());
}

fn counted(told: &Counted, out: &mut Vec<u8>) {
    about_session(COUNTED, told.request, told.session, out);
    out.extend(told.clock_us.to_be_bytes());
    told.to_far.encode(out);
    told.to_near.encode(out);
}

fn about(kind: u8, request: RequestId, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(request.0.to_be_bytes());
}

fn about_session(kind: u8, request: RequestId, session: SessionId, out: &mut Vec<u8>) {
    about(kind, request, out);
    out.extend(session.0.to_be_bytes());
}

fn reserve(kind: u8, wanted: &Reserve, out: &mut Vec<u8>) {
    about(kind, wanted.request, out);
    fields::rate(wanted.rate, out);
    destination(&wanted.far, out);
}

fn reserved(reserved: &Reserved, out: &mut Vec<u8>) {
    about_session(RESERVED, reserved.request, reserved.session, out);
    fields::hop(&reserved.near, out);
    fields::hop(&reserved.far, out);
    fields::rate(reserved.rate, out);
    out.extend(reserved.idle_s.to_be_bytes());
}

fn destination(end: &Far, out: &mut Vec<u8>) {
    match end {
        Far::Address(address) => {
            out.push(far::ADDRESS);
            fields::address(*address, out);
        }
        Far::Gateway(key) => {
            out.push(far::GATEWAY);
            out.extend(key.0);
        }
        Far::Relay(address, hop) => {
            out.push(far::RELAY);
            fields::address(*address, out);
            fields::hop(hop, out);
        }
    }
}

fn target(target: &CapTarget, out: &mut Vec<u8>) {
    match target {
        CapTarget::Session(session) => {
            out.push(cap::SESSION);
            out.extend(session.0.to_be_bytes());
        }
        CapTarget::Site(key) => {
            out.push(cap::SITE);
            out.extend(key.0);
        }
        CapTarget::Relay => out.push(cap::RELAY),
    }
}
