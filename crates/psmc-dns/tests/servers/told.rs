//! The resolver beside a coordinator that tells it of routes.

use std::sync::Arc;
use std::thread::spawn;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Identity};
use psmc_routes::AltRecord;
use psmc_signal::connection::Greeting;
use psmc_signal::{ALPN, Message, Role, Routes};
use psmc_testbed::netns::Namespace;
use tokio::sync::mpsc;

use crate::harness::{bind, routes, service_key, until, write};
use crate::resolving::{Resolving, service};

/// A coordinator that lets one client in, and says to it what comes by the channel.
fn coordinator(
    namespace: &Arc<Namespace>,
    client: &PrivateKey,
) -> (PrivateKey, mpsc::Sender<Message>, mpsc::Receiver<Message>) {
    let (key, inside) = (PrivateKey::from_seed([11; 32]), namespace.clone());
    let allowed: AllowedKeys = [client.public()].into_iter().collect();
    let acceptor = Acceptor::for_protocol(&Identity::new(&key), allowed, ALPN);
    let (to_say, mut said) = mpsc::channel(8);
    let (incoming, heard) = mpsc::channel(64);
    spawn(move || {
        inside.block_on(|| async {
            let listener = listen_tcp("127.0.0.1:5116".parse().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let greeting = Greeting::receive(acceptor.accept(stream).await.unwrap().stream).await.unwrap();
            assert_eq!(
                (greeting.role, &greeting.services[..]),
                (Role::Client, &["www.example.com".to_owned()][..])
            );
            let channel = greeting.welcome().await.unwrap();
            // It ends with the test.
            channel.run(&mut said, &incoming).await.to_string()
        })
    });
    (key, to_say, heard)
}

fn news(record: Option<&AltRecord>) -> Message {
    let record = record.map(|record| STANDARD.encode(record.encode()));
    Message::Routes(Routes {
        service: "www.example.com".to_owned(),
        record,
        grants: vec!["grant".to_owned()],
    })
}

#[test]
fn a_coordinator_tells_of_routes_and_takes_them_back_but_makes_none() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace, "127.0.0.1");
    let client = PrivateKey::from_seed([12; 32]);
    let (key, to_say, mut heard) = coordinator(&namespace, &client);
    let directory = Arc::new(tempfile::tempdir().unwrap());
    write(directory.path(), "client.key", &client.to_base64());
    let coordinator = format!(
        "[coordinator]\naddress = \"127.0.0.1:5116\"\npublic_key = \"{}\"\nprivate_key_file = \"client.key\"\n",
        key.public()
    );
    let more = service("") + &coordinator;
    let resolving = Resolving::start_in(&namespace, directory, "\"127.0.0.1\"", &more);
    resolving.psmcd.peer().comes_up = true;
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");

    let signed = |serial, by: &PrivateKey| AltRecord::Open(routes(serial, &["192.0.2.7"]).sign(by));
    let told = |serial| format!("{serial} told");
    let count = || format!("{} told", resolving.status().counts.routes_told);
    to_say.blocking_send(news(Some(&signed(9, &key)))).unwrap();
    until(&told(1), count);
    assert_eq!(resolving.status().counts.routes_forged, 1);
    to_say.blocking_send(news(Some(&signed(5, &service_key())))).unwrap();
    until("[5]", || format!("{:?}", resolving.psmcd.serials()));
    assert_eq!(resolving.psmcd.peer().given[0].grants, ["grant"]);
    resolving.psmcd.peer().failed = vec!["bad".to_owned()];
    let complaint = Message::RelayFailed {
        service: "www.example.com".to_owned(),
        relay: "bad".to_owned(),
        reason: "silent".to_owned(),
    };
    let complaints = std::iter::from_fn(|| heard.blocking_recv()).filter(|message| *message != Message::Ping);
    assert_eq!(complaints.take(1).next(), Some(complaint), "a relay that fails is told of");
    to_say.blocking_send(news(None)).unwrap();
    until("1 cleared", || format!("{} cleared", resolving.psmcd.peer().cleared));
    to_say.blocking_send(news(Some(&signed(5, &service_key())))).unwrap();
    until(&told(4), count);
    assert_eq!(resolving.status().counts.routes_replayed, 1, "what was taken back does not count again");
}
