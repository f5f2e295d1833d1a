//! The resolver as a resolver: beside BIND, Knot and our own server, and under floods.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::RecordType;
use psmc_testbed::netns::Namespace;

use crate::harness::{DYNAMIC, bind_with_records, knot, name, ours, until};
use crate::resolving::{RESOLVER, Resolving, service};

const RECORDS: &str = "\
alias CNAME other
other CNAME www
brief 1 A 203.0.113.7
v6 AAAA 2001:db8::5
";

/// BIND with more records, one of them too long for a datagram.
fn bind(namespace: &Namespace) -> crate::harness::Program {
    let texts: String = (0..40).map(|n| format!("long TXT \"{n:0>100}\"\n")).collect();
    let zone = "zone \"example.com\" { type primary; file \"zone\"; };";
    bind_with_records(namespace, "127.0.0.1", zone, &format!("{RECORDS}{texts}"))
}

/// The name server of the zone is on this machine.
const PRIVATE: &str = "private = [\"example.com\"]\n";

#[test]
fn nobody_else_is_answered_and_no_name_of_others_leads_here() {
    let namespace = Arc::new(Namespace::new().unwrap());
    namespace.add_address("lo", "192.0.2.9/32".parse().unwrap()).unwrap();
    let zone = "zone \"example.com\" { type primary; file \"zone\"; };";
    let _bind = bind_with_records(
        &namespace,
        "127.0.0.1",
        zone,
        "inner A 10.1.2.3\nboth A 10.1.2.3\nboth A 203.0.113.6\n",
    );
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", "");
    let from_elsewhere = ["-b", "192.0.2.9", "www.example.com"];
    let refused = resolving.dig(&from_elsewhere);
    assert!(refused.contains("REFUSED") && refused.contains("ANSWER: 0"), "{refused}");
    assert_eq!(resolving.status().counts.refused, 1);
    assert_eq!(resolving.short(&["both.example.com"]), "203.0.113.6");
    let inner = resolving.dig(&["inner.example.com"]);
    assert!(inner.contains("NOERROR") && inner.contains("ANSWER: 0"), "{inner}");
    resolving.reload("\"127.0.0.1\"", &format!("clients = [\"192.0.2.0/24\"]\n{PRIVATE}"));
    until("203.0.113.5", || resolving.short(&from_elsewhere));
    assert_eq!(resolving.short(&["inner.example.com"]), "10.1.2.3");
}

#[test]
fn names_are_resolved_as_their_servers_say() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", "");
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    assert_eq!(resolving.short(&["WwW.eXample.com", "A"]), "203.0.113.5");
    assert_eq!(resolving.short(&["v6.example.com", "AAAA"]), "2001:db8::5");
    assert_eq!(
        resolving.short(&["alias.example.com", "A"]),
        "other.example.com.\nwww.example.com.\n203.0.113.5"
    );
    for _ in 0..2 {
        let missing = resolving.dig(&["missing.example.com", "A"]);
        assert!(
            missing.contains("status: NXDOMAIN") && missing.contains("SOA\tns1.example.com."),
            "{missing}"
        );
        let empty = resolving.dig(&["www.example.com", "MX"]);
        assert!(empty.contains("status: NOERROR") && empty.contains("ANSWER: 0"), "{empty}");
    }
    // Cut off by UDP, and whole by TCP: to the server, and from the resolver.
    assert_eq!(resolving.short(&["long.example.com", "TXT"]).lines().count(), 40);
    let cut = resolving.dig(&["+ignore", "long.example.com", "TXT"]);
    assert!(cut.contains(" tc ") && cut.contains("ANSWER: 0"), "{cut}");
    assert_eq!(
        crate::harness::dig(&namespace, &["@::1", "+tcp", "+short", "www.example.com"]),
        "203.0.113.5"
    );
    for refused in [["-c", "CH", "version.bind", "TXT"], ["-t", "AXFR", "+tcp", "example.com"]] {
        let answer = resolving.dig(&refused);
        assert!(answer.contains("REFUSED") || answer.contains("Transfer failed"), "{answer}");
    }
    let counts = resolving.status().counts;
    assert!(counts.cache_hits >= 4 && counts.failed == 0, "{counts:?}");
    assert_eq!(counts.stale, 0, "{counts:?}");
}

#[test]
fn every_way_to_a_server_works_and_signatures_come_through() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _ours = ours(&namespace, "127.0.0.1", &format!("{DYNAMIC}signing_key_file = \"sign.key\"\n"));
    for upstream in ["127.0.0.1", "tcp://127.0.0.1", "tls://127.0.0.1#ns.example.com"] {
        let resolving = Resolving::start(&namespace, &format!("\"{upstream}\""), "");
        let signed = resolving.dig(&["+dnssec", "www.example.com", "A"]);
        assert!(signed.contains("RRSIG\tA 15 ") && signed.contains("flags: do"), "{upstream}: {signed}");
        assert!(!resolving.dig(&["+nodnssec", "www.example.com", "A"]).contains("RRSIG"), "{upstream}");
        let denied = resolving.dig(&["+dnssec", "missing.example.com", "A"]);
        assert!(denied.contains("NXDOMAIN") && denied.contains("NSEC"), "{upstream}: {denied}");
    }
    let stranger = Resolving::start(&namespace, "\"tls://127.0.0.1#ns.example.org\"", "");
    assert!(stranger.dig(&["www.example.com", "A"]).contains("SERVFAIL"));
}

#[test]
fn a_dead_server_is_passed_over_and_what_has_expired_serves_in_the_end() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let first = bind(&namespace);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\", \"127.0.0.2\"", PRIVATE);
    // Knot has no such name, and would answer first if it were there and this machine busy.
    assert_eq!(resolving.short(&["brief.example.com", "A"]), "203.0.113.7");
    let second = knot(&namespace, "127.0.0.2");
    drop(second.kill());
    for host in ["www", "ns1", "alias"] {
        assert!(!resolving.short(&[&format!("{host}.example.com"), "A"]).is_empty(), "{host}");
    }
    drop(first.kill());
    // Its TTL is a second: then it has expired.
    until("203.0.113.7 after its time", || {
        let answer = resolving.short(&["brief.example.com", "A"]);
        let when = if resolving.status().counts.stale > 0 { "after" } else { "within" };
        format!("{answer} {when} its time")
    });
    assert!(resolving.dig(&["brief.example.com", "A"]).contains("\t30\tIN\tA\t203.0.113.7"));
    assert!(resolving.dig(&["unknown.example.com", "A"]).contains("SERVFAIL"));
    assert!(resolving.status().upstreams.iter().all(|server| !server.answers));
}

/// A name server that answers for what is in `example.com`, and lets everything else wait for ever.
fn half_dead(namespace: &Arc<Namespace>) {
    let inside = namespace.clone();
    let socket = inside.run(|| UdpSocket::bind("127.0.0.1:53")).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let Ok(mut message) = Message::from_vec(&buffer[..length]) else { continue };
            let asked = message.queries[0].name().clone();
            if asked.to_ascii().to_lowercase().ends_with("example.com.") {
                message.metadata.message_type = hickory_proto::op::MessageType::Response;
                let data = hickory_proto::rr::RData::A(std::net::Ipv4Addr::new(203, 0, 113, 5).into());
                message.add_answer(hickory_proto::rr::Record::from_rdata(asked, 60, data));
                socket.send_to(&message.to_vec().unwrap(), from).unwrap();
            }
        }
    });
}

#[test]
fn a_flood_of_random_names_is_bounded_and_others_are_answered() {
    let namespace = Arc::new(Namespace::new().unwrap());
    half_dead(&namespace);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", "");
    namespace.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..2000_u16 {
            let mut message = Message::query();
            message.metadata.id = number;
            message.add_query(Query::query(name(&format!("n{number}.flooded.test.")), RecordType::A));
            socket.send_to(&message.to_vec().unwrap(), (RESOLVER, 53)).unwrap();
            if number % 50 == 0 {
                // The resolver has one thread, and its socket room for a few hundred datagrams.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
    let status = resolving.status();
    // What the socket had no room for is not counted.
    assert!(status.counts.limited > 64, "{status:?}");
    assert!(status.under_way <= 64, "{status:?}");
    assert!(status.kept_bytes < 32 << 20, "{status:?}");
}

#[test]
fn one_question_of_many_is_asked_once() {
    let namespace = Arc::new(Namespace::new().unwrap());
    half_dead(&namespace);
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", "");
    namespace.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut message = Message::query();
        message.add_query(Query::query(name("silent.test."), RecordType::A));
        for _ in 0..20 {
            socket.send_to(&message.to_vec().unwrap(), (RESOLVER, 53)).unwrap();
        }
    });
    until("20 questions, 1 forwarded", || {
        let counts = resolving.status().counts;
        format!("{} questions, {} forwarded", counts.questions, counts.forwarded)
    });
    assert_eq!(resolving.status().counts.merged, 19);
}

#[test]
fn another_configuration_is_taken_while_it_resolves() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let _bind = bind(&namespace);
    let _knot = knot(&namespace, "127.0.0.2");
    let resolving = Resolving::start(&namespace, "\"127.0.0.1\"", PRIVATE);
    assert_eq!(resolving.short(&["ns1.example.com", "A"]), "127.0.0.1");
    assert!(resolving.status().services.is_empty());
    resolving.reload("\"127.0.0.1\"", &format!("{PRIVATE}{}", service("")));
    until("1 service", || format!("{} service", resolving.status().services.len()));
    // The same servers have answered: what is kept counts.
    let forwarded = resolving.status().counts.forwarded;
    assert_eq!(resolving.short(&["ns1.example.com", "A"]), "127.0.0.1");
    assert_eq!(resolving.status().counts.forwarded, forwarded);
    resolving.reload("\"127.0.0.2\"", "");
    until("127.0.0.2:53", || {
        let status = resolving.status();
        status.upstreams.iter().map(|server| server.server.clone()).collect()
    });
    // BIND alone has this name.
    assert_eq!(resolving.short(&["v6.example.com", "AAAA"]), "");
    assert_eq!(resolving.short(&["www.example.com", "A"]), "203.0.113.5");
}
