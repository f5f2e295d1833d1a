use proptest::prelude::*;
use stamp_suite::packets::{ReflectedPacketAuthenticated, ReflectedPacketUnauthenticated};
use stamp_suite::sender::{build_auth_packet_with_tlvs, build_unauth_packet_with_tlvs};
use stamp_suite::tlv::{DirectMeasurementTlv, ExtraPaddingTlv, RawTlv, ReturnPathTlv, TypedTlv};

use super::*;

/// Long ago, so that it differs from the time of the answer.
const CAME: Duration = Duration::from_secs(1_800_000_000);

fn arrival(from: &str) -> Arrival {
    let to = "192.0.2.1".parse().ok();
    Arrival { length: 0, from: from.parse().unwrap(), to, hops: Some(250), at: Some(CAME) }
}

fn key() -> Key {
    Key::new(b"a key that both have").unwrap()
}

fn answering(key: Option<Key>) -> Answering {
    Answering::new(PORT, key, 1_000_000)
}

fn open(sequence: u32, tlvs: &[RawTlv]) -> Vec<u8> {
    build_unauth_packet_with_tlvs(sequence, 0x1234_5678_9abc_def0, 0x8001, Some(7), tlvs, None)
}

fn sealed(sequence: u32, tlvs: &[RawTlv]) -> Vec<u8> {
    let key = key();
    let of_tlvs = (!tlvs.is_empty()).then(|| key.hmac());
    build_auth_packet_with_tlvs(sequence, 0x1234_5678_9abc_def0, 0x8001, key.hmac(), Some(7), tlvs, of_tlvs)
}

#[test]
fn an_answer_gives_back_what_was_asked_and_numbers_each_measurement() {
    let mut answering = answering(None);
    for (round, from) in [(0, "198.51.100.1:5000"), (1, "198.51.100.1:5000"), (0, "198.51.100.1:5001")] {
        let answer = answering.answer(&open(9, &[]), &arrival(from)).unwrap();
        let answer = ReflectedPacketUnauthenticated::from_bytes(&answer).unwrap();
        assert_eq!((answer.sequence_number, answer.sess_sender_seq_number), (round, 9));
        assert_eq!(answer.sess_sender_timestamp, 0x1234_5678_9abc_def0);
        assert_eq!((answer.sess_sender_ttl, answer.ssid, answer.sess_sender_err_estimate), (250, 7, 0x8001));
        assert_eq!(answer.receive_timestamp, timestamp(CAME));
        assert_ne!(answer.error_estimate & 0xff, 0);
    }
}

#[test]
fn with_a_key_only_those_are_answered_who_have_it() {
    let mut answering = answering(Some(key()));
    let from = arrival("198.51.100.1:5000");
    let answer = answering.answer(&sealed(3, &[]), &from).unwrap();
    let packet = ReflectedPacketAuthenticated::from_bytes(&answer).unwrap();
    assert!(key().hmac().verify(&answer[..AUTH_HMAC_OFFSET], &packet.hmac));
    let mut forged = sealed(3, &[]);
    forged[3] ^= 1;
    assert_eq!(answering.answer(&forged, &from), Err(Refusal::WrongHmac));
    assert_eq!(answering.answer(&open(3, &[]), &from), Err(Refusal::Short));
    let mut padded = open(3, &[]);
    padded.resize(200, 0);
    assert_eq!(answering.answer(&padded, &from), Err(Refusal::WrongHmac));
    // What is refused leaves nothing behind.
    let next =
        ReflectedPacketAuthenticated::from_bytes(&answering.answer(&sealed(4, &[]), &from).unwrap()).unwrap();
    assert_eq!((next.sequence_number, answering.sessions.session_count()), (1, 1));
}

#[test]
fn counts_are_told_to_whom_asks_for_them() {
    for key in [None, Some(key())] {
        let mut answering = answering(key.clone());
        for count in 1..4 {
            let asked = [DirectMeasurementTlv::new(10 + count).to_raw()];
            let question = if key.is_some() { sealed(9, &asked) } else { open(9, &asked) };
            let answer = answering.answer(&question, &arrival("198.51.100.1:5000")).unwrap();
            let base = if key.is_some() { AUTH_BASE_SIZE } else { UNAUTH_BASE_SIZE };
            let list = TlvList::parse(&answer[base..]).unwrap();
            let counts = DirectMeasurementTlv::from_raw(&list.non_hmac_tlvs()[0]).unwrap();
            assert!(list.non_hmac_tlvs()[0].is_processable());
            assert_eq!((counts.sender_tx_count, counts.reflector_rx_count), (10 + count, count));
            assert_eq!(counts.reflector_tx_count, count);
        }
    }
}

#[test]
fn padding_comes_back_as_it_is_and_brings_no_more_bytes() {
    let padding = [ExtraPaddingTlv::new_zeros(100).to_raw()];
    let question = open(1, &padding);
    assert_eq!(
        answering(None).answer(&question, &arrival("198.51.100.1:5000")).unwrap().len(),
        question.len()
    );
    // By itself it needs no HMAC, and the library adds one.
    let key = key();
    let question = build_auth_packet_with_tlvs(1, 2, 0x8001, key.hmac(), None, &padding, None);
    let answer = answering(Some(key)).answer(&question, &arrival("198.51.100.1:5000")).unwrap();
    assert_eq!(answer.len(), question.len());
    assert!(TlvList::parse(&answer[AUTH_BASE_SIZE..]).unwrap().contains_only_extra_padding());
}

#[test]
fn what_is_not_done_here_comes_back_untouched() {
    let elsewhere = ReturnPathTlv::with_return_address("203.0.113.66".parse().unwrap()).to_raw();
    let asked = [elsewhere, DirectMeasurementTlv::new(1).to_raw()];
    let question = open(1, &asked);
    let answer = answering(None).answer(&question, &arrival("198.51.100.1:5000")).unwrap();
    assert_eq!(answer[UNAUTH_BASE_SIZE..], question[UNAUTH_BASE_SIZE..]);
}

#[test]
fn two_reflectors_do_not_answer_each_other() {
    for port in [PORT, 5862] {
        let mut answering = Answering::new(5862, None, 1000);
        let from = arrival(&format!("198.51.100.1:{port}"));
        // A sender may have the same port.
        let answer = answering.answer(&open(1, &[]), &from).unwrap();
        assert_eq!(answering.answer(&answer, &from), Err(Refusal::Answer));
    }
    let mut sealed_answering = answering(Some(key()));
    let from = arrival("198.51.100.1:862");
    let answer = sealed_answering.answer(&sealed(1, &[]), &from).unwrap();
    assert_eq!(sealed_answering.answer(&answer, &from), Err(Refusal::Answer));
}

#[test]
fn each_source_has_its_share() {
    let mut answering = Answering::new(PORT, None, 10);
    let sources = ["198.51.100.1:5000", "198.51.100.2:5000", "[2001:db8::1]:5000"].map(arrival);
    for from in &sources {
        let answered = (0..100).filter(|_| answering.answer(&open(1, &[]), from).is_ok()).count();
        // A hundred questions take less than a second, or some more are answered.
        assert!((10..100).contains(&answered), "{answered}");
    }
    let neighbour = arrival("[2001:db8::2]:5000");
    let refused = (0..100).filter(|_| answering.answer(&open(1, &[]), &neighbour) == Err(Refusal::TooMany));
    assert!(refused.count() > 0);
}

#[test]
fn more_measurements_than_are_kept_are_answered_without_a_state() {
    let mut answering = answering(None);
    for client in 0..MAX_SESSIONS + 2 {
        let from = arrival(&format!("198.51.{}.{}:5000", client / 250, client % 250 + 1));
        let answer = answering.answer(&open(9, &[]), &from).unwrap();
        let number = ReflectedPacketUnauthenticated::from_bytes(&answer).unwrap().sequence_number;
        assert_eq!(number, if client < MAX_SESSIONS { 0 } else { 9 });
    }
    assert_eq!(answering.sessions.session_count(), MAX_SESSIONS);
}

proptest! {
    #[test]
    fn no_answer_is_longer_than_its_question(
        head in proptest::collection::vec(any::<u8>(), 44),
        tail in proptest::collection::vec(any::<u8>(), 0..300),
        kind in 0u8..16,
    ) {
        // Of all kinds of extensions, of which most have a length that fits.
        let mut question = head;
        if let Ok(length) = u16::try_from(tail.len()) {
            question.extend([0x80, kind]);
            question.extend(length.to_be_bytes());
        }
        question.extend(tail);
        let from = arrival("198.51.100.1:5000");
        if let Ok(answer) = answering(None).answer(&question, &from) {
            prop_assert_eq!(answer.len(), question.len());
        }
        let mut answering = answering(Some(key()));
        question.resize(question.len().max(AUTH_BASE_SIZE), 0);
        let hmac = key().hmac().compute(&question[..AUTH_HMAC_OFFSET]);
        question[AUTH_HMAC_OFFSET..AUTH_BASE_SIZE].copy_from_slice(&hmac);
        let answer = answering.answer(&question, &from);
        if let Ok(answer) = answer {
            prop_assert_eq!(answer.len(), question.len());
        }
    }

    #[test]
    fn what_is_short_is_not_answered(question in proptest::collection::vec(any::<u8>(), 0..44)) {
        prop_assert_eq!(answering(None).answer(&question, &arrival("198.51.100.1:5000")), Err(Refusal::Short));
    }

    #[test]
    fn a_tail_of_zeros_comes_back(length in 0usize..1400) {
        let mut question = open(1, &[]);
        question.resize(44 + length, 0);
        let answer = answering(None).answer(&question, &arrival("198.51.100.1:5000")).unwrap();
        prop_assert_eq!(answer.len(), question.len());
        prop_assert!(answer[44..].iter().all(|byte| *byte == 0));
    }
}
