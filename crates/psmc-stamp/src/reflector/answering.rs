//! What is answered, apart from the socket. The packets and their extensions are the library's; what is asked of it here is bounded
//! before, and looked at afterwards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use psmc_net::timed::Arrival;
use stamp_suite::clock_format::ClockFormat;
use stamp_suite::configuration::TlvHandlingMode;
use stamp_suite::cos_policy::CosAdmissionPolicy;
use stamp_suite::receiver::{
    AUTH_BASE_SIZE, AUTH_HMAC_OFFSET, ProcessingContext, RateLimiter, UNAUTH_BASE_SIZE, process_stamp_packet,
};
use stamp_suite::session::{ReplayVerdict, SessionManager};
use stamp_suite::session_identity::SessionKey;
use stamp_suite::tlv::{LocationDisclosure, SyncSource, TimestampMethod, TlvList, TlvType};

use super::Refusal;
use crate::PORT;
use crate::clock::{error_estimate, timestamp};
use crate::key::Key;

/// Packets in a second that are answered for all sources together: some percent of a core, HMAC and all. Whoever forges sources gets
/// no more than that.
const MAX_RATE: u32 = 20_000;

/// Measurements that are kept apart: a megabyte or so. Those beyond are answered without a state of their own, which RFC 8762 allows.
const MAX_SESSIONS: usize = 4_096;

/// How long the numbers of a measurement are kept that sends nothing: longer than anybody waits between two probes.
const SESSION_LIFE: Duration = Duration::from_secs(300);

/// How often is looked for those that are over, and how right the clock is: the kernel itself changes its mind once a second.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a code point may be asked for is never a question: see [`is_done_here`].
static POLICY: LazyLock<CosAdmissionPolicy> = LazyLock::new(CosAdmissionPolicy::permit_all);

/// Makes answers.
pub(super) struct Answering {
    port: u16,
    key: Option<Key>,
    of_source: RateLimiter,
    of_all: RateLimiter,
    sessions: Arc<SessionManager>,
    error_estimate: u16,
    looked: Instant,
}

impl Answering {
    /// For a reflector at this port.
    pub(super) fn new(port: u16, key: Option<Key>, rate: u32) -> Self {
        Self {
            port,
            key,
            // None is unlimited for it.
            of_source: RateLimiter::new(rate.max(1)),
            of_all: RateLimiter::new(MAX_RATE),
            sessions: Arc::new(SessionManager::new(Some(SESSION_LIFE), Some(MAX_SESSIONS))),
            error_estimate: error_estimate().to_wire(),
            looked: Instant::now(),
        }
    }

    /// The answer to a packet, which is never longer.
    pub(super) fn answer(&mut self, question: &[u8], arrival: &Arrival) -> Result<Vec<u8>, Refusal> {
        let base = if self.key.is_some() { AUTH_BASE_SIZE } else { UNAUTH_BASE_SIZE };
        if question.len() < base {
            return Err(Refusal::Short);
        }
        let may = self.of_source.allow(source(arrival.from.ip())) && self.of_all.allow(ALL);
        if !may {
            return Err(Refusal::TooMany);
        }
        if self.is_of_reflector(question, arrival.from.port()) {
            return Err(Refusal::Answer);
        }
        self.look();
        let session = self.session_of(question, arrival);
        let known = self.sessions.get_session(session);
        let has_room = known.is_some() || self.sessions.session_count() < MAX_SESSIONS;
        let received = known.as_ref().map_or(0, |session| session.get_received_count()).wrapping_add(1);
        let sent = known.as_ref().map_or(0, |session| session.get_transmitted_count()).wrapping_add(1);
        let mut context = self.context(question, arrival, base);
        if has_room {
            context.stateful_reflector = true;
            context.session_manager = Some(&self.sessions);
            (context.reflector_rx_count, context.reflector_tx_count) = (Some(received), Some(sent));
        }
        let hops = arrival.hops.unwrap_or_default();
        let answered = process_stamp_packet(question, arrival.from, hops, self.key.is_some(), &context);
        let mut answer = answered.ok_or_else(|| self.why_not(question))?.data;
        if let Some(session) = self.sessions.get_session(session) {
            session.record_received();
            session.record_transmitted();
        }
        // Beyond it is an HMAC for padding alone, which needs none (RFC 8972 section 4.8).
        answer.truncate(question.len());
        Ok(answer)
    }

    /// As the library tells measurements apart.
    fn session_of(&self, question: &[u8], arrival: &Arrival) -> SessionKey {
        let at = if self.key.is_some() { AUTH_SSID } else { UNAUTH_SSID };
        let ssid = u16::from_be_bytes([question[at], question[at + 1]]);
        SessionKey { client: arrival.from, local: self.local(arrival), ssid, sender_micro_session_id: None }
    }

    fn local(&self, arrival: &Arrival) -> SocketAddr {
        let unknown: IpAddr =
            if arrival.from.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        SocketAddr::new(arrival.to.unwrap_or(unknown), self.port)
    }

    /// What the library is told of a packet, with all that it could be made to do for others switched off.
    fn context(&self, question: &[u8], arrival: &Arrival, base: usize) -> ProcessingContext<'_> {
        let is_done_here =
            TlvList::parse_lenient(&question[base..]).0.iter().all(|tlv| is_done_here(tlv.tlv_type));
        ProcessingContext {
            clock_source: ClockFormat::NTP,
            clock_sync_source: SyncSource::Ntp,
            hardware_clock_sync_source: SyncSource::Ntp,
            error_estimate_wire: self.error_estimate,
            hmac_key: self.key.as_ref().map(Key::hmac),
            hmac_key_set: None,
            require_hmac: self.key.is_some(),
            session_manager: None,
            stateful_reflector: false,
            replay_verdict: ReplayVerdict::New,
            tlv_mode: if is_done_here { TlvHandlingMode::Echo } else { TlvHandlingMode::Ignore },
            verify_tlv_hmac: self.key.is_some(),
            strict_packets: true,
            received_dscp: 0,
            received_ecn: 0,
            reflector_rx_count: None,
            reflector_tx_count: None,
            packet_addr_info: None,
            packet_local_addr: Some(self.local(arrival)),
            ingress_ifindex: None,
            last_reflection: None,
            location_disclosure: LocationDisclosure::none(),
            cos_policy: &POLICY,
            local_addresses: &[],
            local_macs: &[],
            sender_port: arrival.from.port(),
            return_path_allow_alternate: false,
            reflector_member_link_id: None,
            captured_headers: None,
            reflected_control_max_count: 0,
            reflected_control_max_size: 0,
            reflected_control_min_interval_ns: u32::MAX,
            reflected_control_max_rate: 0,
            reflected_control_max_volume: 0,
            rx_timestamp: arrival.at.map(timestamp),
            rx_method: TimestampMethod::SwLocal,
            last_reflection_method: TimestampMethod::SwLocal,
        }
    }

    /// Whether a packet is itself the answer of a reflector, by its port and a time at which it was received, which a question does
    /// not have.
    fn is_of_reflector(&self, question: &[u8], port: u16) -> bool {
        let received = if self.key.is_some() { AUTH_RECEIVED } else { UNAUTH_RECEIVED };
        let has_received = question[received..received + 8].iter().any(|byte| *byte != 0);
        (port == PORT || port == self.port) && has_received
    }

    /// Why the library has not answered.
    fn why_not(&self, question: &[u8]) -> Refusal {
        let Some(key) = &self.key else { return Refusal::Misshapen };
        let hmac = question[AUTH_HMAC_OFFSET..AUTH_BASE_SIZE].try_into();
        let is_authentic = hmac.is_ok_and(|hmac| key.hmac().verify(&question[..AUTH_HMAC_OFFSET], hmac));
        if is_authentic { Refusal::Misshapen } else { Refusal::WrongHmac }
    }

    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        self.error_estimate = error_estimate().to_wire();
        self.sessions.cleanup_stale_sessions();
    }
}

/// Where the identifier of the session is (RFC 8972 section 3).
const UNAUTH_SSID: usize = 14;
const AUTH_SSID: usize = 26;

/// Where an answer has the time at which its question came.
const UNAUTH_RECEIVED: usize = 16;
const AUTH_RECEIVED: usize = 32;

/// Stands for all sources.
const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Who has one address of an IPv6 network has all of them.
fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
    }
}

/// Extensions that the answer is right about. With any other that the library knows all come back as they were sent, which is how
/// one answers that has none (RFC 8972 section 4): it would say that a code point was set, or another way back taken.
fn is_done_here(kind: TlvType) -> bool {
    matches!(
        kind,
        TlvType::ExtraPadding
            | TlvType::TimestampInfo
            | TlvType::DirectMeasurement
            | TlvType::FollowUpTelemetry
            | TlvType::Hmac
            | TlvType::Reserved
            | TlvType::Unknown(_)
    )
}

#[cfg(test)]
mod tests;
