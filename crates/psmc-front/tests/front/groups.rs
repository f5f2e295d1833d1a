//! Groups of servers, TLS to them, and classes by the peers of psmcd.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use psmc_api::{Request, Response, Status};
use serde_json::json;
use tokio::sync::oneshot;

use crate::harness::{Front, OK, Server, data, head, rest, wait_for};
use crate::https;

/// Two groups: the first has the server that [`Front`] is started with.
fn second(server: &Server, more: &str) -> String {
    format!("name = \"first\"\n[[upstream]]\nname = \"second\"\nservers = [\"{}\"]\n{more}\n", server.address)
}

#[test]
fn a_class_has_the_servers_of_its_groups() {
    let [first, other] = [Server::answering(OK), Server::answering(OK)];
    let classes = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\nupstream = [\"first\"]\n\
        [[class]]\nname = \"rest\"\nratio = 3\nupstream = [\"second\"]\n";
    let front = Front::start(&[first.address], &second(&other, ""), classes);
    for _ in 0..3 {
        assert!(front.get("/paying", "Cookie: tier=gold\r\n").starts_with("HTTP/1.1 200 "));
        assert!(front.get("/rest", "").starts_with("HTTP/1.1 200 "));
    }
    let heads = [&first, &other].map(Server::heads);
    assert!(heads[0].len() == 3 && heads[0].iter().all(|head| head.starts_with("get /paying ")), "{heads:?}");
    assert!(heads[1].len() == 3 && heads[1].iter().all(|head| head.starts_with("get /rest ")), "{heads:?}");
    let status = front.status();
    let groups = [0, 1].map(|server| status["servers"][server]["upstream"].as_str().unwrap().to_owned());
    assert_eq!(groups, ["first", "second"]);
    // They share no server, so that there is nothing that a ratio could be held by.
    assert_eq!(status["classes"][1]["beside"], serde_json::Value::Null);
}

/// By hand: two places that are in use for 36 of 40 ms; the second class asks for twice as much, and has thrice the slowdown.
#[test]
fn a_plan_is_of_slowdowns_and_of_each_set_of_servers() {
    let [first, other] = [Server::answering(OK), Server::answering(OK)];
    let hold = "hold = \"slowdown\"";
    let classes = |of_rest: &str| {
        format!(
            "[[class]]\nname = \"paying\"\nmatch = {{ cookie = \"tier=gold\" }}\nupstream = [\"first\"]\n\
             [[class]]\nname = \"rest\"\nratio = 3\nupstream = [\"{of_rest}\"]\n"
        )
    };
    let given = ["paying=18", "rest=9"].map(|rate| ["--arrivals", rate]).concat();
    let given = [given, ["paying=50", "rest=100"].map(|ms| ["--service", ms]).concat()].concat();
    let groups = format!("limit = 2\n{}", second(&other, "limit = 1"));
    let front = Front::start_as(hold, &[first.address], "", &groups, &classes("first"));
    let plan = front.plan(&given).unwrap();
    assert!(plan.starts_with("2 requests at a time, load 90 %: the ratios can be held\n"), "{plan}");
    assert!(plan.contains(" of 50.0 ms, ratio 1, response time 102.6 ms, slowdown 2.1\n"), "{plan}");
    assert!(plan.contains(" of 100.0 ms, ratio 3, response time 615.8 ms, slowdown 6.2\n"), "{plan}");
    assert_eq!(front.status()["hold"], "slowdown");
    // Apart, each has places of its own.
    let front = Front::start_as(hold, &[first.address], "", &groups, &classes("second"));
    let plan = front.plan(&given).unwrap();
    assert!(
        plan.contains("2 requests at a time, load 45 %") && plan.contains("1 requests at a time, load 90 %"),
        "{plan}"
    );
    assert!(
        front.plan(&["--places", "2"]).unwrap_err().contains("--places is for classes that share servers")
    );
}

/// A server that holds what it is asked until it is told to go on.
fn held() -> (Server, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let ((go, wait), (say, said)) = (mpsc::channel(), mpsc::channel());
    let wait = Mutex::new(wait);
    let server = Server::start(move |stream, _| {
        head(stream);
        say.send(()).unwrap();
        if wait.lock().unwrap().recv().is_ok() {
            let _ = stream.write_all(OK.replace("OK\r\n", "OK\r\nConnection: close\r\n").as_bytes());
        }
    });
    (server, go, said)
}

#[test]
fn a_group_that_both_may_have_takes_what_the_own_one_has_no_room_for() {
    let [(own, go_on, in_own), (shared, go_on_there, in_shared)] = [held(), held()];
    let classes = "[[class]]\nname = \"paying\"\nmatch = { cookie = \"tier=gold\" }\n\
        [[class]]\nname = \"rest\"\nratio = 2\nupstream = [\"second\"]\n";
    let front =
        Front::start(&[own.address], &format!("limit = 1\n{}", second(&shared, "limit = 1")), classes);
    let ask = |cookie: &str| {
        let mut client = front.connect();
        write!(client, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n")
            .unwrap();
        client
    };
    let mut clients = vec![ask("tier=gold")];
    in_own.recv().unwrap();
    clients.push(ask("tier=gold"));
    in_shared.recv().unwrap();
    // The first class may have either, and waits for none of its own.
    clients.push(ask("a=b"));
    let waiting = || (front.status()["classes"][1]["waiting"] == 1).then_some(());
    wait_for("the second class", waiting);
    go_on.send(()).unwrap();
    assert!(rest(&mut clients.remove(0)).unwrap().starts_with("HTTP/1.1 200 "));
    // The place that is free is none for it.
    waiting().unwrap();
    for _ in 0..2 {
        go_on_there.send(()).unwrap();
    }
    for mut client in clients {
        assert!(rest(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
    }
    let status = front.status();
    assert_eq!((status["classes"][1]["beside"].as_str(), shared.connections()), (Some("paying"), 2));
}

#[test]
fn servers_are_asked_by_tls_and_have_to_be_who_they_should() {
    let server = Server::answering(OK);
    // A front with a certificate is a server with one.
    let behind = Front::start_with(&[server.address], &https::tls(), "", "");
    let ca = data("ca.pem");
    for (name, h2) in [("front.test", "false"), ("front.test", "true")] {
        let tls =
            format!("tls = {{ name = \"{name}\", ca = \"{ca}\" }}\nh2 = {h2}\nhealth_path = \"/health\"");
        let front = Front::start(&[behind.address], &tls, "");
        assert!(front.get("/through", "").starts_with("HTTP/1.1 200 "), "{h2}");
        let seen = server.heads().pop().unwrap();
        assert!(seen.contains("\r\nx-forwarded-proto: https\r\n"), "{seen}");
    }
    let [by_1, by_2]: [String; 2] = server.heads().try_into().unwrap();
    assert!(by_1.contains("\r\nvia: 1.1 psmc-front, 1.1 psmc-front\r\n"), "{by_1}");
    assert!(by_2.contains("\r\nvia: 1.1 psmc-front, 2 psmc-front\r\n"), "{by_2}");
    let before = server.heads().len();
    // Another name, an address that stands in no certificate, and nobody who vouches for it.
    for tls in [
        format!("tls = {{ name = \"other.test\", ca = \"{ca}\" }}"),
        format!("tls = {{ ca = \"{ca}\" }}"),
        "tls = { name = \"front.test\" }".to_owned(),
    ] {
        let front = Front::start(&[behind.address], &tls, "");
        assert!(front.get("/", "").starts_with("HTTP/1.1 502 "), "{tls}");
    }
    assert_eq!(server.heads().len(), before);
}

/// What psmcd says, as far as a front looks at it.
fn status_of(networks: &[&str], stands_by_for: &[&str]) -> Status {
    let peer = |name: &str, networks: &[&str], stands_by_for: &[&str]| {
        json!({
            "name": name, "public_key": "", "state": "connected", "control": { "connected": true, "since_s": 1.0 },
            "allowed_ips": networks, "stands_by_for": stands_by_for, "tx_bytes": 0, "rx_bytes": 0,
            "tx_packets": 0, "rx_packets": 0, "drops": {}, "paths": [],
        })
    };
    let site = json!({
        "name": "van", "public_key": "", "interface": "psmc0", "addresses": [], "listen": "[::]:5115",
        "uptime_s": 1.0, "version": "0.1.0",
    });
    let peers = [peer("hq", networks, stands_by_for), peer("other", &["192.0.2.0/24"], &[])];
    serde_json::from_value(json!({ "site": site, "peers": peers, "counters": {} })).unwrap()
}

/// Answers on psmcd's socket, by its protocol, until it is told to end.
fn psmcd(socket: &Path, status: Arc<Mutex<Status>>) -> (oneshot::Sender<()>, thread::JoinHandle<()>) {
    let (end, mut ended) = oneshot::channel();
    let socket = socket.to_owned();
    let answering = async move {
        let mut server = psmc_api::Server::bind(&socket).unwrap();
        loop {
            let call = tokio::select! {
                call = server.next_call() => call.unwrap(),
                _ = &mut ended => return,
            };
            assert_eq!(call.request(), &Request::Status);
            let status = status.lock().unwrap().clone();
            call.respond(Response::Status(Box::new(status)));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    (end, thread::spawn(move || runtime.block_on(answering)))
}

#[test]
fn who_comes_from_a_peer_is_of_its_class_as_long_as_it_is_one() {
    let server = Server::answering(OK);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("van.sock");
    let settings = format!("psmcd = \"{}\"", socket.display());
    let classes = "[[class]]\nname = \"office\"\nmatch = { peer = \"hq\" }\n[[class]]\nname = \"rest\"\n";
    let front = Front::start_as(&settings, &[server.address], "", "", classes);
    // Asks until what it asks is of this class.
    let until = |class: usize| {
        let of_class = || front.status()["classes"][class]["arrived"].as_u64().unwrap();
        let before = of_class();
        wait_for("the class", || {
            assert!(front.get("/", "").starts_with("HTTP/1.1 200 "));
            (of_class() > before).then_some(())
        });
    };
    // Nobody is known.
    until(1);
    let status = Arc::new(Mutex::new(status_of(&["127.0.0.0/8"], &[])));
    let (end, daemon) = psmcd(&socket, status.clone());
    until(0);
    // Another peer has the network in its place.
    *status.lock().unwrap() = status_of(&["127.0.0.0/8"], &["127.0.0.0/8"]);
    until(1);
    *status.lock().unwrap() = status_of(&["127.0.0.0/8"], &[]);
    until(0);
    end.send(()).unwrap();
    daemon.join().unwrap();
    until(1);
    assert!(front.log().contains("psmcd does not say who its peers are"), "{}", front.log());
}
