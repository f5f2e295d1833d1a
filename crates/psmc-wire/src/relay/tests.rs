use proptest::prelude::*;

use super::*;
use crate::control::{LENGTH_LEN, message_length};
use crate::counts::{MAX_SAMPLES, Passed};
use crate::fields::Malformed;
use crate::hop::HopKey;
use crate::ids::Label;

fn rate() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(1u64..)
}

fn key() -> impl Strategy<Value = KeyBytes> {
    any::<[u8; 32]>().prop_map(KeyBytes)
}

fn hop() -> impl Strategy<Value = Hop> {
    (any::<u32>(), any::<[u8; 16]>()).prop_map(|(label, key)| Hop { label: Label(label), key: HopKey(key) })
}

fn address() -> impl Strategy<Value = SocketAddr> {
    let v4 = (any::<[u8; 4]>(), 1u16..).prop_map(SocketAddr::from);
    let v6 = (any::<[u8; 16]>(), 1u16..).prop_map(SocketAddr::from);
    prop_oneof![v4, v6.prop_filter("has another spelling", |v6| v6.ip().to_canonical() == v6.ip())]
}

fn stream_end() -> impl Strategy<Value = Far> {
    prop_oneof![address().prop_map(Far::Address), key().prop_map(Far::Gateway)]
}

fn request() -> impl Strategy<Value = RequestId> {
    (1u32..).prop_map(RequestId)
}

fn session() -> impl Strategy<Value = SessionId> {
    any::<u64>().prop_map(SessionId)
}

fn grant() -> impl Strategy<Value = SignedGrant> {
    (key(), key(), any::<u64>(), any::<u16>(), rate(), any::<bool>(), any::<[u8; 32]>()).prop_map(
        |(relay, site, expires_s, sessions, max_rate, gateway, half)| {
            let mut signature = [0; SIGNATURE_LEN];
            signature[..32].copy_from_slice(&half);
            SignedGrant { grant: Grant { relay, site, expires_s, sessions, max_rate, gateway }, signature }
        },
    )
}

fn greeting() -> impl Strategy<Value = Message> {
    let name = "[a-zé-]{0,40}";
    let hello = (any::<u16>(), name, proptest::option::of(grant()))
        .prop_map(|(version, name, grant)| Message::Hello(Hello { version, name, grant }));
    let welcome = (any::<u16>(), any::<u16>(), any::<u16>(), rate(), name, any::<[bool; 3]>()).prop_map(
        |(version, data_port, sessions, max_rate, name, [counts, revokes, sheds])| {
            let abilities = Abilities { counts, revokes, sheds };
            Message::Welcome(Welcome { version, data_port, sessions, max_rate, name, abilities })
        },
    );
    let refused = (any::<u32>(), any::<u16>(), name).prop_map(|(request, code, text)| {
        let (request, reason) = (RequestId(request), Refusal::from_code(code));
        Message::Refused(Refused { request, reason, text })
    });
    prop_oneof![hello, welcome, refused]
}

fn about_sessions() -> impl Strategy<Value = Message> {
    let far = prop_oneof![stream_end(), (address(), hop()).prop_map(|(at, hop)| Far::Relay(at, hop))];
    let reserve = (request(), rate(), far, proptest::option::of(any::<u32>())).prop_map(
        |(request, rate, far, inside)| {
            let session = Reserve { request, rate, far };
            match inside {
                Some(inside) => Message::ReserveTunnel(ReserveTunnel { session, inside: inside.into() }),
                None => Message::Reserve(session),
            }
        },
    );
    let reserved = (request(), session(), hop(), hop(), rate(), any::<u32>()).prop_map(
        |(request, session, near, far, rate, idle_s)| {
            Message::Reserved(Reserved { request, session, near, far, rate, idle_s })
        },
    );
    let target = prop_oneof![
        session().prop_map(CapTarget::Session),
        key().prop_map(CapTarget::Site),
        Just(CapTarget::Relay)
    ];
    let cap = (request(), target, rate())
        .prop_map(|(request, target, rate)| Message::Cap(Cap { request, target, rate }));
    prop_oneof![
        reserve,
        reserved,
        cap,
        (request(), key(), any::<u64>()).prop_map(|(request, site, until_s)| Message::Revoke(Revoke {
            request,
            site,
            until_s
        })),
        (request(), session()).prop_map(|(request, session)| Message::Release(request, session)),
        (request(), session()).prop_map(|(request, session)| Message::Refresh(request, session)),
        (request(), session(), hop())
            .prop_map(|(request, session, hop)| Message::Chain(request, session, hop)),
    ]
}

fn about_streams() -> impl Strategy<Value = Message> {
    let stream = || any::<u64>().prop_map(StreamId);
    prop_oneof![
        (request(), stream_end()).prop_map(|(request, far)| Message::Connect(request, far)),
        (request(), stream()).prop_map(|(request, stream)| Message::Accept(request, stream)),
        request().prop_map(Message::Connected),
        request().prop_map(Message::Register),
        request().prop_map(Message::Done),
        stream().prop_map(Message::Incoming),
    ]
}

fn about_counts() -> impl Strategy<Value = Message> {
    let sample = any::<[u32; 2]>().prop_map(|[number, at_us]| Passed { number, at_us });
    let samples = proptest::collection::vec(sample, 0..=MAX_SAMPLES);
    let lane = (any::<[u64; 2]>(), any::<[u64; 2]>(), samples)
        .prop_map(|(received, handed_on, samples)| LaneCounts { received, handed_on, samples });
    let counted = (request(), session(), any::<u64>(), proptest::array::uniform2(lane)).prop_map(
        |(request, session, clock_us, [to_far, to_near])| {
            Message::Counted(Counted { request, session, clock_us, to_far, to_near })
        },
    );
    prop_oneof![
        counted,
        (request(), session()).prop_map(|(request, session)| Message::Count(request, session)),
        crate::shed::tests::ask().prop_map(Message::Shed),
        crate::shed::tests::answer().prop_map(Message::Shedding)
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![greeting(), about_sessions(), about_streams(), about_counts()]
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn messages_survive_the_wire(message in message()) {
        let bytes = encoded(&message);
        let (length, body) = bytes.split_first_chunk::<LENGTH_LEN>().expect("a length");
        prop_assert_eq!(message_length(*length), Ok(body.len()));
        prop_assert_eq!(Message::decode(body), Ok(message));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn a_message_that_is_cut_off_is_refused(message in message(), cut in 1usize..8) {
        let bytes = encoded(&message);
        let body = &bytes[LENGTH_LEN..];
        // Without its last field it is the WELCOME of an earlier relay.
        prop_assume!(!(matches!(message, Message::Welcome(_)) && cut == 4));
        prop_assert!(Message::decode(&body[..body.len() - cut.min(body.len())]).is_err());
    }

    #[test]
    fn each_field_of_a_grant_is_signed(grant in grant(), other in grant()) {
        let (one, two) = (grant.grant, other.grant);
        prop_assert_eq!(one == two, one.signed_bytes() == two.signed_bytes());
    }
}

#[test]
fn a_relay_that_says_nothing_of_abilities_has_none() {
    let abilities = Abilities { counts: true, revokes: true, sheds: true };
    let name = "fra1".to_owned();
    let welcome = Welcome { version: 1, data_port: 5115, sessions: 1, max_rate: None, name, abilities };
    let bytes = encoded(&Message::Welcome(welcome.clone()));
    let earlier = Welcome { abilities: Abilities::default(), ..welcome.clone() };
    assert_eq!(Message::decode(&bytes[LENGTH_LEN..bytes.len() - 4]), Ok(Message::Welcome(earlier)));
    let mut later = bytes.clone();
    let len = later.len();
    later[len - 4] = 0x80;
    assert_eq!(
        Message::decode(&later[LENGTH_LEN..]),
        Ok(Message::Welcome(welcome)),
        "unknown bits are ignored"
    );
}

#[test]
fn unknown_types_are_passed_over() {
    assert_eq!(Message::decode(&[200, 1, 2, 3]), Ok(Message::Unknown(200)));
    assert_eq!(Message::decode(&encoded(&Message::Unknown(0))[LENGTH_LEN..]), Ok(Message::Unknown(0)));
}

#[test]
fn an_address_has_one_spelling() {
    let mapped = SocketAddr::new("::ffff:192.0.2.1".parse().unwrap(), 5115);
    let message = Message::Connect(RequestId(1), Far::Address(mapped));
    let bytes = encoded(&message);
    assert_eq!(Message::decode(&bytes[LENGTH_LEN..]), Err(Malformed::Illegal("address")));
    assert_eq!(Message::request_of(&bytes[LENGTH_LEN..]), Some(RequestId(1)), "it can be answered");
    let no_port = SocketAddr::new("192.0.2.1".parse().unwrap(), 0);
    let message = Message::Connect(RequestId(1), Far::Address(no_port));
    assert_eq!(Message::decode(&encoded(&message)[LENGTH_LEN..]), Err(Malformed::Illegal("port")));
}

#[test]
fn no_stream_leads_to_a_label() {
    let hop = Hop { label: Label(1), key: HopKey([0; 16]) };
    let far = Far::Relay(SocketAddr::from(([192, 0, 2, 1], 5115)), hop);
    let message = Message::Connect(RequestId(1), far);
    let refused = Malformed::Illegal("destination of a stream");
    assert_eq!(Message::decode(&encoded(&message)[LENGTH_LEN..]), Err(refused));
}

#[test]
fn only_requests_are_to_be_answered() {
    for bytes in [&[] as &[u8], &[CONNECT], &[CONNECT, 0, 0, 1], &[CONNECT, 0, 0, 0, 0], &[DONE, 0, 0, 0, 1]]
    {
        assert_eq!(Message::request_of(bytes), None, "{bytes:?}");
    }
    assert_eq!(Message::request_of(&[CONNECT, 0, 0, 0, 7, 9]), Some(RequestId(7)));
}

#[test]
fn requests_count_from_one() {
    assert_eq!(Message::decode(&[DONE, 0, 0, 0, 0]), Err(Malformed::Illegal("request")));
    let refused = Refused { request: RequestId::CONNECTION, reason: Refusal::Limit, text: String::new() };
    let message = Message::Refused(refused);
    assert_eq!(Message::decode(&encoded(&message)[LENGTH_LEN..]), Ok(message));
}
