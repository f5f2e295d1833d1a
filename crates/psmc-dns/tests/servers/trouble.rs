//! What goes wrong with servers: each complaint says what to do, and what may pass is tried again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::TSigResponseContext;
use hickory_proto::rr::rdata::tsig::{TsigAlgorithm, TsigError};
use hickory_proto::rr::{Name, TSigner};
use psmc_net::keys::PrivateKey;
use psmc_routes::GroupKey;
use psmc_routes::update::{Change, Mode, Patience, ServerReport, Target, TsigKey, published, run, run_all};
use psmc_service::clock::unix_seconds;
use psmc_testbed::netns::Namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{
    KEY, bind, bind_with, bind_with_records, knot, name, routes, routes_to, service_key, target,
};

fn change() -> Change {
    Change::publish(routes(1, &["192.0.2.7"]), &service_key(), None, true, 10).unwrap()
}

/// What comes of the change on the only server of `target`.
fn outcome(namespace: &Namespace, target: &Target) -> ServerReport {
    let change = change();
    let report = namespace.block_on(|| run(target, &change, Mode::Change)).unwrap();
    report.servers.into_iter().next().unwrap()
}

fn with_key(key: &str) -> Target {
    Target { key: key.parse::<TsigKey>().unwrap(), ..target(&["127.0.0.1"]) }
}

/// Asserts that servers refuse what they should, in words that help, at the first try.
pub(crate) fn refusals(namespace: &Namespace) {
    let other_secret = KEY.replace("AAEC", "BBBB");
    let other_name = KEY.replace(":up:", ":down:");
    for (target, complaint) in [
        (with_key(&other_secret), "copy the secret again"),
        (with_key(&other_name), "does not know the TSIG key"),
        (Target { zone: name("example.org."), ..with_key(KEY) }, "not authoritative"),
        (Target { zone: name("fixed.example."), ..with_key(KEY) }, "has to let the key change the zone"),
    ] {
        let report = outcome(namespace, &target);
        let error = report.error.unwrap();
        assert!(error.contains(complaint), "{complaint}: {error}");
        assert_eq!((report.ok, report.attempts), (false, 1), "{error}");
    }
}

#[test]
fn bind_refuses_in_words_that_help() {
    let namespace = Namespace::new().unwrap();
    let zones = "zone \"example.com\" { type primary; file \"zone\"; allow-update { key up; }; };\n\
                 zone \"fixed.example\" { type primary; file \"fixed\"; };";
    let _bind = bind_with(&namespace, "127.0.0.1", zones);
    refusals(&namespace);
}

#[test]
fn an_alias_is_said_to_be_one() {
    let namespace = Namespace::new().unwrap();
    let zones = "zone \"example.com\" { type primary; file \"zone\"; allow-update { key up; }; };";
    let _bind = bind_with_records(&namespace, "127.0.0.1", zones, "alias CNAME www\n");
    let routes = routes_to("alias.example.com.", 1, &["192.0.2.7"]);
    let change = Change::publish(routes, &service_key(), None, true, 10).unwrap();
    let target = target(&["127.0.0.1"]);
    let report = namespace.block_on(|| run(&target, &change, Mode::Change)).unwrap();
    let [server] = &report.servers[..] else { panic!("{report:?}") };
    let error = server.error.as_deref().unwrap();
    assert!(error.contains("the name is an alias (CNAME) of www.example.com"), "{error}");
    assert_eq!((server.ok, server.attempts), (false, 1), "{error}");
}

#[test]
fn knot_knows_keys_and_secrets() {
    let namespace = Namespace::new().unwrap();
    let _knot = knot(&namespace, "127.0.0.1");
    let other_secret = KEY.replace("AAEC", "BBBB");
    let error = outcome(&namespace, &with_key(&other_secret)).error.unwrap();
    assert!(error.contains("copy the secret again"), "{error}");
    let error = outcome(&namespace, &with_key(&KEY.replace(":up:", ":down:"))).error.unwrap();
    assert!(error.contains("does not know the TSIG key"), "{error}");
}

#[test]
fn nobody_at_an_address_is_said_after_all_tries() {
    let namespace = Namespace::new().unwrap();
    let patience = Patience { attempts: 2, timeout: Duration::from_secs(20) };
    let report = outcome(&namespace, &Target { patience, ..target(&["127.0.0.1"]) });
    assert!(report.error.unwrap().starts_with("cannot connect"));
    assert_eq!(report.attempts, 2);
}

/// A server in front of the one at `to`, which answers its first `failures` connections itself, by `answer`.
async fn in_front(at: &str, to: &str, failures: u32, answer: fn(&Message) -> Vec<u8>) -> Arc<AtomicU32> {
    let listener = TcpListener::bind((at, 53)).await.unwrap();
    let to: SocketAddr = format!("{to}:53").parse().unwrap();
    let (count, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::Relaxed);
            counted.store(number + 1, Ordering::Relaxed);
            tokio::spawn(async move {
                if number >= failures {
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    return;
                }
                let length = client.read_u16().await.unwrap();
                let mut question = vec![0; length.into()];
                client.read_exact(&mut question).await.unwrap();
                let answer = answer(&Message::from_vec(&question).unwrap());
                let length = u16::try_from(answer.len()).unwrap();
                client.write_all(&[&length.to_be_bytes(), &answer[..]].concat()).await.unwrap();
                // Keeps the connection until the other side has read and closed.
                let _ = client.read_u8().await;
            });
        }
    });
    seen
}

fn answer_with(question: &Message, code: ResponseCode) -> Message {
    let mut answer = Message::new(question.id, MessageType::Response, question.op_code);
    answer.metadata.response_code = code;
    answer
}

fn servfail(question: &Message) -> Vec<u8> {
    answer_with(question, ResponseCode::ServFail).to_vec().unwrap()
}

fn unsigned_yes(question: &Message) -> Vec<u8> {
    answer_with(question, ResponseCode::NoError).to_vec().unwrap()
}

/// As a server whose clock is an hour ahead answers (RFC 8945 §5.2.3).
fn clock_ahead(question: &Message) -> Vec<u8> {
    let asked = question.signature().unwrap().data.clone();
    let signer =
        TSigner::new((0..32).collect(), TsigAlgorithm::HmacSha256, Name::from_ascii("up.").unwrap(), 300);
    let mut answer = answer_with(question, ResponseCode::NotAuth);
    let bytes = answer.to_vec().unwrap();
    let context = TSigResponseContext::new(
        question.id,
        asked.time,
        signer.unwrap(),
        asked.mac,
        Some(TsigError::BadTime),
    );
    let mut signature = context.sign(&bytes).unwrap();
    signature.data.other = (unix_seconds() + 3600).to_be_bytes()[2..].to_vec();
    answer.set_signature(signature);
    answer.to_vec().unwrap()
}

#[test]
fn a_server_that_fails_for_a_while_is_tried_again() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, "127.0.0.1");
    let report = namespace.block_on(|| async {
        in_front("127.0.0.2", "127.0.0.1", 2, servfail).await;
        run(&target(&["127.0.0.2"]), &change(), Mode::Change).await
    });
    let report = report.unwrap().servers.remove(0);
    assert_eq!((report.ok, report.attempts, report.error), (true, 3, None));
}

#[test]
fn the_routes_of_many_groups_take_one_connection() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, "127.0.0.1");
    let keys = (1..=20).map(|number| GroupKey::new(&PrivateKey::from_seed([number; 32])));
    let of_group = |key: GroupKey| {
        let set = routes(1, &["192.0.2.7", "192.0.2.8", "192.0.2.9"]);
        Change::publish(set, &service_key(), Some(&key), false, 10).unwrap()
    };
    let changes: Vec<Change> = keys.map(of_group).collect();
    let outcome = namespace.block_on(|| async {
        let connections = in_front("127.0.0.2", "127.0.0.1", 0, servfail).await;
        let report = run_all(&target(&["127.0.0.2"]), &changes, Mode::Change).await;
        let found = published(&target(&["127.0.0.1"]), &name("www.example.com.")).await;
        (connections.load(Ordering::Relaxed), report, found.unwrap().0.len())
    });
    let (connections, report, records) = outcome.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((connections, records), (1, 20));
}

#[test]
fn what_is_not_the_servers_own_answer_is_no_answer() {
    for (answer, complaint) in [
        (unsigned_yes as fn(&Message) -> Vec<u8>, "something else may be answering instead of the server"),
        (clock_ahead, "s ahead of this machine's: set both by NTP"),
    ] {
        // A program that another test starts may hold the former listener for a moment longer.
        let namespace = Namespace::new().unwrap();
        let report = namespace.block_on(|| async {
            in_front("127.0.0.2", "127.0.0.1", u32::MAX, answer).await;
            run(&target(&["127.0.0.2"]), &change(), Mode::Change).await
        });
        let report = report.unwrap().servers.remove(0);
        let error = report.error.unwrap();
        assert!(error.contains(complaint), "{error}");
        assert_eq!((report.ok, report.attempts), (false, 1));
    }
}

#[test]
fn a_second_way_to_a_server_is_used_when_the_first_is_dead() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, "127.0.0.1");
    let report = namespace.block_on(|| async {
        // Takes connections and says nothing, as an address under attack.
        let _dead = TcpListener::bind(("127.0.0.2", 53)).await.unwrap();
        run(&target(&["127.0.0.2,127.0.0.1"]), &change(), Mode::Change).await
    });
    let report = report.unwrap().servers.remove(0);
    assert_eq!((report.ok, report.attempts), (true, 1), "{report:?}");
    assert_eq!(report.address, Some("127.0.0.1:53".parse().unwrap()));
}
