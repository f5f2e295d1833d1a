use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::rdata::TSIG;
use hickory_proto::rr::rdata::tsig::{TsigAlgorithm, make_tsig_record};
use hickory_proto::rr::{Name, RData, Record, RecordType, TSigner};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};
use proptest::prelude::*;

use super::rdata::opaque;
use super::{Malformed, bytes_of, canonical_bytes, data_of, read_message, read_record, type_covered};
use crate::update::TsigKey;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn response(kind: RecordType, data: Vec<u8>) -> Message {
    let mut message = Message::response(7, OpCode::Query);
    message.add_query(Query::query(name("x.example."), kind));
    message.answers.push(Record::from_rdata(name("x.example."), 60, opaque(kind, data)));
    message
}

/// A response with raw bytes behind its header: one answer, and so many additional records.
fn raw(additionals: u16, records: &[u8]) -> Vec<u8> {
    let counts = [0, 1 - additionals.min(1), 0, additionals].map(u16::to_be_bytes).concat();
    [&[0, 7, 0x80, 0], &counts[..], records].concat()
}

#[test]
fn data_that_the_library_cannot_read_stays_as_it_is() {
    let odd: [(u16, &[u8]); 8] = [
        // No data at all, of a type that nobody knows.
        (65_535, b""),
        // ALPN ids that are no UTF-8, and a key that the library does not take.
        (65, b"\0\x01\0\0\x01\0\x06\x02\xfa\xfa\x02h2"),
        (64, b"\0\x01\x02gw\x07example\0\0\x09\0\x02\0\x1d"),
        // NAPTR flags that are not letters or digits.
        (35, b"\0\x01\0\x01\x01-\0\0\0"),
        // A host's information that is not text.
        (13, b"\x01\xff\x01\xff"),
        (257, b"\x80\x05issue\xff"),
        // An address that is too long.
        (1, b"\x01\x02\x03\x04\x05"),
        (65_305, b"\x03abc\0"),
    ];
    for (kind, data) in odd {
        let message = response(kind.into(), data.to_vec());
        let bytes = message.to_vec().unwrap();
        let read = read_message(&bytes).unwrap().message;
        assert_eq!(bytes_of(&read.answers[0].data), data, "type {kind}");
        assert_eq!(read.answers[0].record_type(), kind.into());
        assert_eq!(read.to_vec().unwrap(), bytes, "type {kind}");
    }
}

#[test]
fn names_in_data_are_written_whole() {
    // example. at 12; then a record of it whose data leads there.
    for (kind, before) in
        [(39_u16, &b""[..]), (17, b"\x01a\xc0\x0c"), (36, b"\0\x05"), (26, b"\0\x01\x01b\0")]
    {
        let mut bytes = raw(0, b"\x07eXample\0");
        bytes.extend(kind.to_be_bytes());
        bytes.extend(b"\0\x01\0\0\0\x05");
        bytes.extend(u16::try_from(before.len() + 2).unwrap().to_be_bytes());
        bytes.extend([before, b"\xc0\x0c"].concat());
        let data = &read_message(&bytes).unwrap().message.answers[0].data;
        assert!(bytes_of(data).ends_with(b"\x07eXample\0"), "type {kind}: {data:?}");
        assert!(canonical_bytes(data).ends_with(b"\x07example\0"), "type {kind}: {data:?}");
    }
    // A name that leads nowhere.
    let nowhere = raw(0, b"\x07example\0\0\x27\0\x01\0\0\0\x05\0\x02\xc0\xff");
    assert_eq!(read_message(&nowhere).unwrap_err(), Malformed::Form);
}

#[test]
fn an_update_tells_a_set_from_a_record_without_data() {
    let update = |kind: u16, class: u16, section: usize| {
        let mut counts = [0_u16; 4];
        counts[section] = 1;
        let mut bytes = [&[0, 7, 5 << 3, 0], &counts.map(u16::to_be_bytes).concat()[..]].concat();
        bytes.extend(b"\x01x\0");
        bytes.extend([kind, class, 0, 0, 0].map(u16::to_be_bytes).concat());
        let message = read_message(&bytes).unwrap().message;
        let record = message.answers.first().or(message.authorities.first()).unwrap();
        matches!(record.data, RData::Update0(_))
    };
    let (in_, none, any) = (1, 254, 255);
    let (prerequisite, change) = (1, 2);
    for section in [prerequisite, change] {
        assert!(update(65_535, any, section) && update(1, any, section));
        assert!(!update(65_535, in_, section) && update(1, in_, section));
    }
    assert!(update(65_535, none, prerequisite) && !update(65_535, none, change));
}

#[test]
fn options_are_as_their_rfcs_have_them() {
    let option = |code: u16, value: &[u8]| {
        let length = u16::try_from(value.len()).unwrap();
        let option = [&code.to_be_bytes(), &length.to_be_bytes(), value].concat();
        let length = u16::try_from(option.len()).unwrap();
        let record = [&b"\0\0\x29\x10\0\0\0\0\0"[..], &length.to_be_bytes(), &option].concat();
        read_message(&raw(1, &record)).map(|incoming| incoming.message.edns.is_some())
    };
    let good: [(u16, &[u8]); 8] = [
        (8, b"\0\0\0\0"),
        (8, b"\0\x01\x18\0\xc0\0\x02"),
        (8, b"\0\x02\x38\0\x20\x01\x0d\xb8\0\0\0"),
        (10, b"12345678"),
        (10, b"1234567812345678"),
        (3, b"\xaa"),
        (9, b""),
        (65_001, b""),
    ];
    for (code, value) in good {
        assert_eq!(option(code, value), Ok(true), "{code} {value:?}");
    }
    let bad: [(u16, &[u8]); 10] = [
        (9, b"\x01"),
        (15, b"\x01"),
        (8, b"\0\x01"),
        (8, b"\0\x07\0\0"),
        (8, b"\0\x01\x21\0\xc0\0\x02\x01\0"),
        (8, b"\0\x01\x17\0\xc0\0\xff"),
        (10, b"12"),
        (10, b"123456789"),
        (14, b"\0"),
        (14, b""),
    ];
    for (code, value) in bad {
        assert_eq!(option(code, value), Err(Malformed::Option(code)), "{code} {value:?}");
    }
    let twice = b"\0\0\x29\x10\0\0\0\0\0\0\0\0\0\x29\x10\0\0\0\0\0\0\0";
    assert_eq!(read_message(&raw(2, twice)).unwrap_err(), Malformed::Place);
    assert_eq!(read_message(&raw(0, &twice[..11])).unwrap_err(), Malformed::Place);
    assert_eq!(read_message(&raw(1, b"\x01x\0\0\x29\x10\0\0\0\0\0\0\0")).unwrap_err(), Malformed::Place);
}

/// A response with its signature, which covers the unsigned one `before` as well; and its MAC.
fn signed(
    signer: &TSigner,
    mut message: Vec<u8>,
    before: &[u8],
    mac: &[u8],
    is_first: bool,
    now: u64,
) -> (Vec<u8>, Vec<u8>) {
    let tsig = TSIG::new(TsigAlgorithm::HmacSha256, now, 300, Vec::new(), 7, None, Vec::new());
    let mut covered = [&u16::try_from(mac.len()).unwrap().to_be_bytes(), mac, before, &message].concat();
    if is_first {
        let mut variables = Vec::new();
        tsig.emit_tsig_for_mac(&mut BinEncoder::new(&mut variables), signer.signer_name()).unwrap();
        covered.extend(variables);
    } else {
        covered.extend([&now.to_be_bytes()[2..], &300_u16.to_be_bytes()].concat());
    }
    let mac = signer.sign(&covered).unwrap();
    message[11] += 1;
    message.extend(
        make_tsig_record(signer.signer_name().clone(), tsig.set_mac(mac.clone())).to_bytes().unwrap(),
    );
    (message, mac)
}

#[test]
fn a_conversation_is_signed_even_where_some_messages_are_not() {
    let key: TsigKey = "hmac-sha256:k:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
    let signer = key.signer();
    let mut request = Message::query();
    let mut conversation = key.sign(&mut request).unwrap();
    let mac = request.signature().unwrap().data.mac.clone();
    let now = request.signature().unwrap().data.time;
    let part = |data: &[u8]| response(65_535.into(), data.to_vec()).to_vec().unwrap();
    let second = part(b"2");
    let (first, mac) = signed(&signer, part(b""), &[], &mac, true, now);
    let (third, _) = signed(&signer, part(b"3"), &second, &mac, false, now);
    for (bytes, is_complete) in [(&first, true), (&second, false), (&third, true)] {
        let incoming = read_message(bytes).unwrap();
        assert!(conversation.accept(&incoming, bytes, now));
        assert_eq!(conversation.is_complete(), is_complete);
    }
    let incoming = read_message(&third).unwrap();
    assert!(!conversation.accept(&incoming, &third, now), "what was said before is not said again");
}

#[test]
fn signatures_stand_with_what_they_cover() {
    let short = data_of(RecordType::RRSIG, b"\0\x41\x0f".to_vec());
    assert_eq!(type_covered(&short), Some(RecordType::HTTPS));
    assert_eq!(type_covered(&data_of(RecordType::RRSIG, b"\0".to_vec())), None);
}

proptest! {
    /// Whatever data a record has, it comes out as it went in: from the wire, into the database, back to the wire.
    #[test]
    fn all_data_survives(kind in prop_oneof![0..300_u16, Just(65_305), any::<u16>()], data in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assume!(![41, 250].contains(&kind));
        let kind = RecordType::from(kind);
        let read = data_of(kind, data.clone());
        prop_assert_eq!(bytes_of(&read), &data[..]);
        prop_assert_eq!(read.record_type(), kind);
        let message = response(kind, data.clone());
        if let Ok(incoming) = read_message(&message.to_vec().unwrap()) {
            let again = read_message(&incoming.message.to_vec().unwrap()).unwrap();
            prop_assert_eq!(bytes_of(&again.message.answers[0].data), bytes_of(&incoming.message.answers[0].data));
            let stored = incoming.message.answers[0].to_bytes().unwrap();
            let loaded = read_record(&stored).unwrap();
            prop_assert_eq!(bytes_of(&loaded.data), bytes_of(&incoming.message.answers[0].data));
        }
    }

    #[test]
    fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(incoming) = read_message(&bytes) {
            let again = incoming.message.to_vec().unwrap();
            prop_assert!(read_message(&again).is_ok());
        }
    }
}
