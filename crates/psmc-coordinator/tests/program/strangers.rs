//! Who is not let in, and what he is told.

use std::net::TcpStream;
use std::process::Command;

use psmc_net::keys::PrivateKey;
use psmc_signal::connection::Event;
use psmc_signal::{Message, Role};

use crate::harness::{Bed, Caller, alert};
use crate::parts::{TOKEN, client_key, guard_key};

/// Why there is no connection.
fn down(caller: &Caller) -> String {
    loop {
        if let Event::Down { reason, .. } = caller.event() {
            return reason;
        }
    }
}

#[test]
fn strangers_and_pretenders_are_refused_and_counted() {
    let bed = Bed::new(1, "groups = [\"public\"]\n", "");
    let stranger = bed.dial(Role::Gateway, &PrivateKey::generate());
    assert!(down(&stranger).contains("rejects this site's key"));
    drop(stranger);
    let pretender = bed.dial(Role::Gateway, &client_key("van"));
    assert!(down(&pretender).contains("has this key as its `gateway`"));
    drop(pretender);
    let client = bed.dial(Role::Client, &client_key("van")).up();
    client.say(alert("1"));
    assert!(down(&client).contains("clients have no say in that"));
    drop(client);
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let Message::Alert(other) = alert("1") else { panic!("an alert") };
    guard.say(Message::Alert(psmc_signal::Alert { service: "other.example.com".to_owned(), ..other }));
    assert!(down(&guard).contains("that service has another gateway"));
    let status = bed.wait_for("counters", |status| status["counts"]["refused"] == 2);
    assert!(status["handshakes"]["unknown_key"].as_u64() >= Some(1));
    assert_eq!(status["services"][0]["stage"], "withdrawn");
}

#[test]
fn a_watcher_speaks_of_the_addresses_of_its_services_and_of_nothing_else() {
    let (own, other) = (PrivateKey::generate(), PrivateKey::generate());
    let service = format!(
        "groups = [\"public\"]\naddresses = [\"203.0.113.0/28\"]\nwatchers = [\"{}\", \"{}\"]\n",
        own.public(),
        other.public()
    );
    let bed = Bed::new(1, &service, "");
    assert!(down(&bed.dial(Role::Watcher, &client_key("van"))).contains("this key among its `watchers`"));
    assert!(down(&bed.dial(Role::Gateway, &own)).contains("has this key as its `gateway`"));
    let [own, other] = [own, other].map(|key| bed.dial(Role::Watcher, &key).up());
    let say = |watcher: &Caller, target: Option<&str>| {
        let Message::Alert(alert) = alert("1") else { panic!("an alert") };
        let target = target.map(ToOwned::to_owned);
        watcher.say(Message::Alert(psmc_signal::Alert { service: String::new(), target, ..alert }));
        watcher.hear(|message| {
            if let Message::Declined { reason, .. } = message {
                return Some(Some(reason));
            }
            matches!(message, Message::Noted { .. }).then_some(None)
        })
    };
    for wrong in
        [None, Some("203.0.113.16/32"), Some("203.0.113.0/24"), Some("2001:db8::/32"), Some("everything")]
    {
        assert!(say(&own, wrong).unwrap().contains("in the `addresses` of no [[service]]"), "{wrong:?}");
    }
    assert_eq!(bed.status()["services"][0]["stage"], "withdrawn");
    for watcher in [&own, &other] {
        assert_eq!(say(watcher, Some("203.0.113.5/32")), None);
    }
    let status =
        bed.wait_for("two alerts", |status| status["services"][0]["alerts"].as_array().unwrap().len() == 2);
    assert_eq!(
        (&status["watchers"], &status["services"][0]["alerts"][0]["alert"]["service"]),
        (&2.into(), &crate::parts::SERVICE.into())
    );
    // What one of them ends is its own.
    own.say(Message::Clear { id: "1".to_owned(), service: String::new() });
    bed.wait_for("one alert", |status| status["services"][0]["alerts"].as_array().unwrap().len() == 1);
}

/// What the hook answers, as curl prints it: the code and the text.
fn post(bed: &Bed, path: &str, token: &str, body: &str) -> (String, String) {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--write-out",
        "\n%{http_code}",
        "--data",
        body,
    ]);
    command.args([
        "--header",
        &format!("Authorization: Bearer {token}"),
        &format!("http://127.0.0.1:8117{path}"),
    ]);
    let output = bed.namespace.run(|| command.output()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (answer, code) = text.rsplit_once('\n').unwrap();
    (code.to_owned(), answer.to_owned())
}

#[test]
fn the_hook_takes_alerts_from_whoever_has_the_token() {
    let hook = "hook = \"127.0.0.1:8117\"\nhook_token_file = \"token\"\nmetrics = \"127.0.0.1:8118\"\n";
    let bed = Bed::new(1, "groups = [\"public\"]\naddresses = [\"203.0.113.5\"]\n", hook);
    let alert = r#"{"id": "cdn-7", "service": "203.0.113.5", "kind": "rate", "measured": {"bits": 1e9}}"#;
    let code = |path: &str, token: &str, body: &str| post(&bed, path, token, body).0;
    for wrong in ["", "0123456789abcdee", "0123456789abcdef0"] {
        assert_eq!(code("/alerts", wrong, alert), "401");
    }
    assert_eq!(bed.status()["services"][0]["stage"], "withdrawn");
    assert_eq!(code("/alerts", TOKEN, "{}"), "400");
    assert_eq!(code("/alerts", TOKEN, &alert.replace("203.0.113.5", "other.example.com")), "422");
    assert_eq!(code("/alerts", TOKEN, &"x".repeat(100_000)), "413");
    assert_eq!(code("/", TOKEN, alert), "404");
    assert_eq!(post(&bed, "/alerts", TOKEN, alert), ("200".to_owned(), "noted\n".to_owned()));
    let status = bed.status();
    assert_eq!(status["services"][0]["alerts"][0]["alert"]["service"], "www.example.com");
    let metrics =
        bed.namespace.run(|| Command::new("curl").args(["-s", "http://127.0.0.1:8118/metrics"]).output());
    let metrics = String::from_utf8(metrics.unwrap().stdout).unwrap();
    assert!(metrics.contains("psmc_coordinator_mitigated{service=\"www.example.com\"} 1"), "{metrics}");
    let clear = r#"{"service": "www.example.com"}"#;
    assert_eq!(code("/alerts/cdn-7/clear", TOKEN, clear), "200");
    // What is in an id is encoded in a path.
    let odd = alert.replace("cdn-7", "a 1/ü");
    assert_eq!(code("/alerts", TOKEN, &odd), "200");
    assert_eq!(code("/alerts", TOKEN, &format!("\u{feff}{odd}")), "200", "a byte order mark");
    assert_eq!(bed.status()["services"][0]["alerts"].as_array().map(Vec::len), Some(1));
    assert_eq!(code("/alerts/a%201%2F%C3%BC/clear", TOKEN, clear), "200");
    assert_eq!(bed.status()["services"][0]["alerts"], serde_json::json!([]));
}

#[test]
fn methods_and_challenges_are_those_of_http() {
    let hook = "hook = \"127.0.0.1:8117\"\nhook_token_file = \"token\"\nmetrics = \"127.0.0.1:8118\"\n";
    let bed = Bed::new(1, "groups = [\"public\"]\n", hook);
    // The head of an answer, in lower case.
    let head = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-s", "-o", "/dev/null", "-D", "-", "--max-time", "30"]).args(arguments);
        let output = bed.namespace.run(|| command.output()).unwrap();
        String::from_utf8(output.stdout).unwrap().to_lowercase()
    };
    let alerts = "http://127.0.0.1:8117/alerts";
    let stranger = head(&[alerts, "--data", "{}"]);
    assert!(stranger.contains(" 401 ") && stranger.contains("www-authenticate: bearer realm="), "{stranger}");
    let token = format!("Authorization: bearer  {TOKEN}");
    let got = head(&["-H", &token, alerts]);
    assert!(got.contains(" 405 ") && got.contains("allow: post\r\n"), "{got}");
    let metrics = "http://127.0.0.1:8118/metrics";
    let asked = head(&["-I", metrics]);
    assert!(asked.contains(" 200 ") && !asked.contains("content-length: 0\r\n"), "{asked}");
    let posted = head(&[metrics, "--data", "x"]);
    assert!(posted.contains(" 405 ") && posted.contains("allow: get, head\r\n"), "{posted}");
}

#[test]
fn half_a_handshake_and_half_a_request_hold_nobody_up() {
    let hook = "hook = \"127.0.0.1:8117\"\nhook_token_file = \"token\"\n";
    let bed = Bed::new(1, "groups = [\"public\"]\n", hook);
    let idle = |port: u16, count: usize| {
        bed.namespace
            .run(|| (0..count).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect::<Vec<_>>())
    };
    let (signal, http) = (idle(5117, 300), idle(8117, 300));
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    guard.say(alert("1"));
    guard.hear(|message| (message == Message::Noted { id: "1".to_owned() }).then_some(()));
    let evicted = bed.status()["handshakes"]["evicted"].as_u64();
    assert!(evicted >= Some(200), "those of one source make room for newer ones: {evicted:?}");
    drop((signal, http));
}
