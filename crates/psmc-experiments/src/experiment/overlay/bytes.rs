//! How long messages are: those of our programs as they encode them, of DNS by its formats.

use std::net::SocketAddr;

use psmc_net::framing::Framed;
use psmc_signal::{Alert, AlertKind, Measured, Mitigation, RelayOffer, Routes, Stage};
use psmc_wire::hop::{Hop, HopKey};
use psmc_wire::ids::{KeyBytes, Label};
use psmc_wire::relay::{self, Far, Grant, SIGNATURE_LEN, SIGNED_GRANT_LEN, SignedGrant};

/// What the client sends first of a TLS handshake, what the server answers, and what the client ends it with.
pub(super) const HANDSHAKE: [u32; 3] = [1448, 1474, 250];

/// Of UDP and IPv4.
const UDP: u32 = 28;

/// A question for the routes of a service, with EDNS: header, name, OPT.
const QUESTION: u32 = 12 + 21 + 11;

/// The most that an answer over UDP has (RFC 9715).
const MOST_UDP: u32 = 1232;

/// A record of type TSIG (RFC 8945), HMAC-SHA-256.
const TSIG: u32 = 90;

/// Name, type, class, TTL and length of a record whose name was there before.
const RECORD: u32 = 12;

/// An ALT record sealed to a group (docs/DNS.md): body and signature, with form, tag, nonce and the tag of the cipher.
fn alt(relays: u32) -> u32 {
    1 + 8 + 12 + 16 + 17 + relays * (1 + 4 + 2 + 32 + 32) + 64
}

/// The records of all groups: a name has them together.
fn records(groups: u32, relays: u32) -> u32 {
    groups * (RECORD + alt(relays))
}

/// A DNS message in a packet of UDP.
pub(super) fn question() -> u32 {
    QUESTION + UDP
}

/// The answer with the routes of all groups over UDP; `None` if it is too long for that.
pub(super) fn answer(groups: u32, relays: u32) -> Option<u32> {
    Some(QUESTION + records(groups, relays)).filter(|bytes| *bytes <= MOST_UDP).map(|bytes| bytes + UDP)
}

/// Over TCP: a question, and the answer.
pub(super) fn asked(groups: u32, relays: u32) -> [u32; 2] {
    [2 + QUESTION, 2 + QUESTION + records(groups, relays)]
}

/// The same, both signed.
pub(super) fn asked_signed(groups: u32, relays: u32) -> [u32; 2] {
    asked(groups, relays).map(|bytes| bytes + TSIG)
}

/// An update that puts the records of so many groups in the place of the last ones, and the confirmation.
pub(super) fn update(groups: u32, relays: u32) -> [u32; 2] {
    [2 + QUESTION + 2 * records(groups, relays) + TSIG, 2 + QUESTION + TSIG]
}

/// The guard's alert.
pub(super) fn alert() -> u32 {
    let measured = Measured { packets: Some(21_034.5), bits: Some(200_417_392.0), ..Measured::default() };
    signal(&psmc_signal::Message::Alert(Alert {
        id: "gw-1763809201".to_owned(),
        service: SERVICE.to_owned(),
        target: Some("203.0.113.10/32".to_owned()),
        kind: AlertKind::Rate,
        usual: measured.clone(),
        measured,
    }))
}

/// What the gateway is told to do, message by message.
pub(super) fn mitigation(relays: usize) -> Vec<u32> {
    let offer = RelayOffer {
        name: "relay-0000".to_owned(),
        address: address(),
        public_key: text(KEY),
        grant: Some(text(SIGNED_GRANT_LEN)),
    };
    let mitigation = Mitigation {
        id: 1_763_809_201_000,
        service: SERVICE.to_owned(),
        stage: Stage::Requested,
        relays: vec![offer; relays],
        expires: 1_763_809_801,
        is_last: true,
    };
    psmc_signal::Message::mitigation(&mitigation).iter().map(signal).collect()
}

/// The gateway is registered, message by message.
pub(super) fn ready(relays: usize) -> Vec<u32> {
    psmc_signal::Message::ready(1_763_809_201_000, &vec![text(KEY); relays]).iter().map(signal).collect()
}

/// The routes for a client, with its grants.
pub(super) fn routes(relays: u32) -> u32 {
    signal(&psmc_signal::Message::Routes(Routes {
        service: SERVICE.to_owned(),
        record: Some(text(alt(relays) as usize)),
        grants: vec![text(SIGNED_GRANT_LEN); relays as usize],
    }))
}

/// HELLO to a relay with a grant, and WELCOME.
pub(super) fn hello() -> [u32; 2] {
    let key = KeyBytes([0; KEY]);
    let grant = Grant { relay: key, site: key, expires_s: 0, sessions: 1, max_rate: Some(0), gateway: false };
    let hello = relay::Hello {
        version: relay::VERSION,
        name: "client-0000".to_owned(),
        grant: Some(SignedGrant { grant, signature: [0; SIGNATURE_LEN] }),
    };
    let welcome = relay::Welcome {
        version: relay::VERSION,
        data_port: 0,
        sessions: 1,
        max_rate: Some(0),
        name: "relay-0000".to_owned(),
        abilities: relay::Abilities { counts: true, revokes: true, sheds: true },
    };
    [of_relay(&relay::Message::Hello(hello)), of_relay(&relay::Message::Welcome(welcome))]
}

/// A gateway's REGISTER, and DONE.
pub(super) fn register() -> [u32; 2] {
    let request = relay::RequestId(0);
    [relay::Message::Register(request), relay::Message::Done(request)].map(|message| of_relay(&message))
}

/// A coordinator's CAP, and DONE.
pub(super) fn cap() -> [u32; 2] {
    let request = relay::RequestId(0);
    let cap = relay::Cap { request, target: relay::CapTarget::Relay, rate: Some(0) };
    [relay::Message::Cap(cap), relay::Message::Done(request)].map(|message| of_relay(&message))
}

/// A client's RESERVE of a session to a gateway, and RESERVED.
pub(super) fn reserve() -> [u32; 2] {
    let request = relay::RequestId(0);
    let reserve = relay::Reserve { request, rate: None, far: Far::Gateway(KeyBytes([0; KEY])) };
    let hop = Hop { label: Label(0), key: HopKey([0; 16]) };
    let reserved = relay::Reserved {
        request,
        session: relay::SessionId(0),
        near: hop.clone(),
        far: hop,
        rate: Some(0),
        idle_s: 0,
    };
    [of_relay(&relay::Message::Reserve(reserve)), of_relay(&relay::Message::Reserved(reserved))]
}

fn of_relay(message: &relay::Message) -> u32 {
    let mut out = Vec::new();
    message.encode(&mut out);
    length(&out)
}

fn signal(message: &psmc_signal::Message) -> u32 {
    let mut out = Vec::new();
    message.encode(&mut out);
    length(&out)
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// As many characters as so many bytes have in base64.
fn text(bytes: usize) -> String {
    "A".repeat(bytes.div_ceil(3) * 4)
}

fn address() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 10], 5115))
}

const SERVICE: &str = "www.example.com";

/// Bytes of a public key.
const KEY: usize = 32;

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;
    use psmc_net::tls::{Acceptor, Dialer, Identity};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

    use super::*;

    /// A record of TLS with a byte.
    const DATA: u32 = 23;

    /// Passes on what comes, and counts it.
    async fn pass_on(mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>) -> u32 {
        let (mut room, mut sum) = ([0; 4096], 0);
        while let Ok(count @ 1..) = from.read(&mut room).await {
            sum += u32::try_from(count).unwrap();
            to.write_all(&room[..count]).await.unwrap();
        }
        to.shutdown().await.unwrap();
        sum
    }

    #[tokio::test]
    async fn handshakes_are_as_long_as_real_ones() {
        let [client, server] = [(); 2].map(|()| Identity::new(&PrivateKey::generate()));
        let ((near, mine), (theirs, far)) = (duplex(1 << 16), duplex(1 << 16));
        let ((from_client, to_client), (from_server, to_server)) = (split(mine), split(theirs));
        let dial = async {
            let dialer = Dialer::for_protocol(&client, server.public(), relay::ALPN);
            let mut stream = dialer.connect(near).await.unwrap().stream;
            stream.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'y');
        };
        let accept = async {
            let allowed = [client.public()].into_iter().collect();
            let acceptor = Acceptor::for_protocol(&server, allowed, relay::ALPN);
            let mut stream = acceptor.accept(far).await.unwrap().stream;
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            stream.write_all(b"y").await.unwrap();
        };
        let counts = async { tokio::join!(pass_on(from_client, to_server), pass_on(from_server, to_client)) };
        let ((), (), (sent, answered)) = tokio::join!(dial, accept, counts);
        let [first, answer, last] = HANDSHAKE;
        let near = |count: u32, expected: u32| count.abs_diff(expected) < 20;
        assert!(
            near(sent, first + last + DATA) && near(answered, answer + DATA),
            "{sent} and {answered} bytes"
        );
    }

    #[test]
    fn few_groups_fit_into_a_packet_of_dns_and_few_relays_into_a_message() {
        assert!(answer(3, 3).is_some() && answer(4, 3).is_none());
        assert!(mitigation(30).len() == 1 && mitigation(100).len() > 1);
        assert!(routes(3) > alt(3) && ready(3) > ready(2));
    }
}
