//! Our server beside the others: as their primary, as their secondary, under their tools.

use std::io::Write;
use std::process::{Command, Stdio};

use psmc_net::keys::PrivateKey;
use psmc_net::tls::tcp::connect_tcp;
use psmc_routes::update::{Change, Mode, run};
use psmc_testbed::netns::Namespace;

use crate::harness::{
    DYNAMIC, Program, bind, bind_with, dig, knot, ours, ours_in, routes, service_key, target, text_of, until,
    write,
};
use crate::reroute::life_of_routes;
use crate::trouble::refusals;

/// What a server answers, in short.
fn short(namespace: &Namespace, ip: &str, words: &[&str]) -> String {
    dig(namespace, &[&[&format!("@{ip}"), "+short"], words].concat())
}

/// Feeds an updater's script to `nsupdate` or `knsupdate`.
pub(crate) fn update(namespace: &Namespace, program: &str, directory: &std::path::Path, script: &str) {
    let key = if program == "nsupdate" { "-k" } else { "-y" };
    let (file, line) = (directory.join("bind.key"), crate::harness::KEY);
    write(
        directory,
        "bind.key",
        "key up { algorithm hmac-sha256; secret \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"; };\n",
    );
    let key_value = if key == "-k" { file.display().to_string() } else { line.to_owned() };
    let output = namespace.run(|| {
        let mut child = Command::new(program)
            .args([key, &key_value])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{program}: {output:?}");
}

fn script(ip: &str, host: &str) -> String {
    format!("server {ip}\nzone example.com.\nupdate add {host}.example.com. 60 A 203.0.113.9\nsend\n")
}

#[test]
fn ours_carries_routes_as_the_others_do() {
    let namespace = Namespace::new().unwrap();
    let _ours = ours(&namespace, "127.0.0.1", DYNAMIC);
    life_of_routes(&namespace);
}

#[test]
fn ours_refuses_as_the_others_do() {
    let namespace = Namespace::new().unwrap();
    let fixed = "[[zone]]\nname = \"fixed.example\"\nfile = \"zone\"\n";
    let _ours = ours(&namespace, "127.0.0.1", &format!("{DYNAMIC}{fixed}"));
    refusals(&namespace);
}

#[test]
fn the_tools_of_bind_and_knot_update_ours_and_an_update_survives_a_kill() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    update(&namespace, "nsupdate", program.directory.path(), &script("127.0.0.1", "one"));
    update(&namespace, "knsupdate", program.directory.path(), &script("127.0.0.1", "two"));
    for host in ["one", "two"] {
        assert_eq!(short(&namespace, "127.0.0.1", &[&format!("{host}.example.com"), "A"]), "203.0.113.9");
    }
    let directory = program.kill();
    let again = ours_in(&namespace, directory, "127.0.0.1", DYNAMIC).serves(&namespace, "127.0.0.1");
    assert_eq!(short(&namespace, "127.0.0.1", &["two.example.com", "A"]), "203.0.113.9");
    let soa = short(&namespace, "127.0.0.1", &["example.com", "SOA"]);
    assert_eq!(soa.split(' ').nth(2), Some("3"), "{soa}");
    let status = Command::new(env!("CARGO_BIN_EXE_psmc-dns"))
        .args(["status", "--json", "--socket"])
        .arg(again.directory.path().join("sock"))
        .output()
        .unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["zones"][0]["serial"], 3, "{status}");
}

#[test]
fn bind_is_a_secondary_of_ours() {
    let namespace = Namespace::new().unwrap();
    let zones =
        format!("{DYNAMIC}signing_key_file = \"sign.key\"\nnotify = [\"127.0.0.2\"]\nnotify_key = \"up\"\n");
    let _primary = ours(&namespace, "127.0.0.1", &zones);
    let _secondary = bind_with(
        &namespace,
        "127.0.0.2",
        "zone \"example.com\" { type secondary; file \"copy\"; primaries { 127.0.0.1 key up; }; };",
    );
    let change = Change::publish(routes(1, &["192.0.2.7"]), &service_key(), None, true, 10).unwrap();
    let report = namespace.block_on(|| async { run(&target(&["127.0.0.1"]), &change, Mode::Change).await });
    assert!(report.unwrap().is_complete());
    let ours = short(&namespace, "127.0.0.1", &["www.example.com", "TYPE65400"]);
    assert!(ours.starts_with("\\# "), "{ours}");
    until(&ours, || short(&namespace, "127.0.0.2", &["www.example.com", "TYPE65400"]));
    let log = _secondary.log();
    assert!(log.contains("Transfer status: success"), "{log}");
}

#[test]
fn ours_is_a_secondary_of_bind_and_of_knot() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind_with(
        &namespace,
        "127.0.0.1",
        "zone \"example.com\" { type primary; file \"zone\"; allow-update { key up; }; notify explicit; notify-delay 0;\n\
         also-notify { 127.0.0.3; }; };",
    );
    let _knot = knot(&namespace, "127.0.0.2");
    let of =
        |primary: &str| format!("[[zone]]\nname = \"example.com\"\nprimary = \"{primary}\"\nkey = \"up\"\n");
    let of_bind = ours(&namespace, "127.0.0.3", &of("127.0.0.1"));
    let _of_knot = ours(&namespace, "127.0.0.4", &of("127.0.0.2"));
    for ip in ["127.0.0.3", "127.0.0.4"] {
        assert_eq!(short(&namespace, ip, &["www.example.com", "A"]), "203.0.113.5", "{ip}");
    }
    // BIND tells of a change; nobody waits for the refresh of an hour.
    update(&namespace, "nsupdate", of_bind.directory.path(), &script("127.0.0.1", "one"));
    until("203.0.113.9", || short(&namespace, "127.0.0.3", &["one.example.com", "A"]));
}

#[test]
fn transfers_come_whole_and_in_parts() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    // So many records take several messages, and each is signed.
    let mut many = String::from("server 127.0.0.1\nzone example.com.\n");
    for host in 0..800 {
        many += &format!("update add host-{host}.example.com. 60 A 203.0.113.9\n");
    }
    update(&namespace, "nsupdate", program.directory.path(), &(many + "send\n"));
    update(&namespace, "nsupdate", program.directory.path(), &script("127.0.0.1", "one"));
    let transfer = |kind: &str| {
        let words = ["@127.0.0.1", "-y", crate::harness::KEY, "+noall", "+answer", "example.com", kind];
        dig(&namespace, &words)
    };
    let whole = transfer("AXFR");
    assert_eq!(whole.lines().filter(|line| line.contains("host-")).count(), 800, "{whole}");
    let since = transfer("IXFR=2");
    let kinds: Vec<&str> = since.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(kinds, ["SOA", "SOA", "SOA", "A", "SOA"], "{since}");
    assert_eq!(transfer("IXFR=3").lines().count(), 1);
    let refused = dig(&namespace, &["@127.0.0.1", "-b", "127.0.0.9", "example.com", "AXFR"]);
    assert!(refused.contains("Transfer failed"), "{refused}");
}

#[test]
fn signed_zones_are_validated_by_others_and_tls_is_spoken() {
    let namespace = Namespace::new().unwrap();
    let zones = format!("{DYNAMIC}signing_key_file = \"sign.key\"\n");
    let program = ours(&namespace, "127.0.0.1", &zones);
    let key = PrivateKey::from_seed([3; 32]).public();
    let anchor = format!("trust-anchors {{ example.com. static-key 257 3 15 \"{key}\"; }};\n");
    write(program.directory.path(), "anchor", &anchor);
    let anchor = program.directory.path().join("anchor");
    let validated = |name: &str, kind: &str| {
        let words = ["@127.0.0.1", "+root=example.com", "-a", anchor.to_str().unwrap(), name, kind];
        text_of(&namespace, Command::new("delv").args(words))
    };
    assert!(
        validated("www.example.com", "A").contains("; fully validated"),
        "{}",
        validated("www.example.com", "A")
    );
    let denied = validated("nothing.example.com", "A");
    assert!(denied.contains("negative response, fully validated"), "{denied}");
    let denied = validated("www.example.com", "AAAA");
    assert!(denied.contains("negative response, fully validated"), "{denied}");
    // Names in data are signed in lower case, also in that of types that the library does not know.
    let odd = "server 127.0.0.1\nzone example.com.\nupdate add moved.example.com. 60 DNAME New.Example.ORG.\n\
               update add who.example.com. 60 RP Mail.Example.COM. Text.Example.COM.\nsend\n";
    update(&namespace, "nsupdate", program.directory.path(), odd);
    for (name, kind) in [("moved.example.com", "DNAME"), ("who.example.com", "RP")] {
        let answer = validated(name, kind);
        assert!(answer.contains("; fully validated") && answer.contains("Example."), "{answer}");
    }
    let tls =
        text_of(&namespace, Command::new("kdig").args(["@127.0.0.1", "+tls", "+short", "www.example.com"]));
    assert_eq!(tls, "203.0.113.5");
}

#[test]
fn a_flood_gets_no_more_than_its_share() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    namespace.run(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.9:0").unwrap();
        let mut question = hickory_proto::op::Message::query();
        let name = crate::harness::name("www.example.com.");
        question.add_query(hickory_proto::op::Query::query(name, hickory_proto::rr::RecordType::A));
        let question = question.to_vec().unwrap();
        // Whatever the machine's speed, more than a thousand of these fall into some second.
        while status(&program)["limited"].as_u64().unwrap() == 0 {
            for _ in 0..5000 {
                socket.send_to(&question, "127.0.0.1:53").unwrap();
            }
        }
    });
    // The flooder is served by TCP, and strangers by both.
    assert_eq!(short(&namespace, "127.0.0.1", &["+tcp", "www.example.com", "A"]), "203.0.113.5");
}

#[test]
fn whoever_holds_connections_open_leaves_most_of_them_to_others() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    let patience = std::time::Duration::from_secs(10);
    // None of them ever asks anything.
    let _held = namespace
        .block_on(async || {
            let mut held = Vec::new();
            for _ in 0..600 {
                let (from, to) = ([127, 0, 0, 9].into(), ([127, 0, 0, 1], 53).into());
                held.push(connect_tcp(None, Some(from), to, patience).await.unwrap());
            }
            held
        })
        .unwrap();
    let other = ["+tcp", "-b", "127.0.0.7", "www.example.com", "A"];
    assert_eq!(short(&namespace, "127.0.0.1", &other), "203.0.113.5");
    assert!(status(&program)["overloaded"].as_u64().unwrap() >= 500);
}

#[test]
fn responses_are_never_answered() {
    let namespace = Namespace::new().unwrap();
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    namespace.run(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.9:0").unwrap();
        let mut question = hickory_proto::op::Message::query();
        let name = crate::harness::name("www.example.com.");
        question.add_query(hickory_proto::op::Query::query(name, hickory_proto::rr::RecordType::A));
        let mut question = question.to_vec().unwrap();
        let mut response = question.clone();
        response[..3].copy_from_slice(&[0, 0, question[2] | 0x80]);
        for _ in 0..5000 {
            socket.send_to(&response, "127.0.0.1:53").unwrap();
        }
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let mut answer = [0; 512];
        // The first answer is that to the first question, however many answers came before it.
        let (id, mut answered) = ([0xab, 0xcd], None);
        question[..2].copy_from_slice(&id);
        while answered.is_none() {
            socket.send_to(&question, "127.0.0.1:53").unwrap();
            answered = socket.recv(&mut answer).ok();
        }
        assert_eq!(answer[..2], id, "an answer to an answer");
    });
    assert_eq!(status(&program)["limited"].as_u64().unwrap(), 0);
}

fn status(program: &Program) -> serde_json::Value {
    let socket = program.directory.path().join("sock");
    let status = psmc_dns::status::ask(&socket).unwrap();
    serde_json::to_value(status.counts).unwrap()
}

#[test]
fn a_recorded_update_is_not_carried_out_again() {
    use std::io::Read;
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, "127.0.0.2");
    let program = ours(&namespace, "127.0.0.1", DYNAMIC);
    let replayed = namespace.run(|| {
        use hickory_proto::op::{Message, OpCode, Query};
        use hickory_proto::rr::rdata::{A, tsig::TsigAlgorithm};
        use hickory_proto::rr::{RData, Record, RecordType, TSigner};
        let mut message = Message::query();
        message.metadata.op_code = OpCode::Update;
        message.add_query(Query::query(crate::harness::name("example.com."), RecordType::SOA));
        let name = crate::harness::name("one.example.com.");
        message.add_authority(Record::from_rdata(name, 60, RData::A(A::new(203, 0, 113, 9))));
        let key = (0..32).collect();
        let signer = TSigner::new(key, TsigAlgorithm::HmacSha256, crate::harness::name("up."), 300).unwrap();
        message.finalize(&signer, psmc_service::clock::unix_seconds()).unwrap();
        let bytes = message.to_vec().unwrap();
        let send = || {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:53").unwrap();
            let length = u16::try_from(bytes.len()).unwrap();
            stream.write_all(&[&length.to_be_bytes(), &bytes[..]].concat()).unwrap();
            let mut header = [0; 6];
            stream.read_exact(&mut header).unwrap();
            header[5] & 0x0f
        };
        (send(), send())
    });
    const REFUSED: u8 = 5;
    assert_eq!(replayed, (0, REFUSED));
    assert_eq!(status(&program)["updated"], 1);
}
