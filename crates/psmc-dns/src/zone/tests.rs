use std::fs;

use hickory_proto::dnssec::rdata::DNSSECRData;
use hickory_proto::dnssec::{PublicKey, PublicKeyBuf, TBS};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use proptest::prelude::*;
use psmc_net::keys::PrivateKey;

use super::*;

const TEXT: &str = "$TTL 300
@        IN SOA ns1 hostmaster 7 3600 600 86400 60
@        IN NS  ns1
ns1      IN A   192.0.2.53
www      IN A   192.0.2.1
www      IN TYPE65400 \\# 3 010203
alias    IN CNAME www
far      IN CNAME www.example.org.
loop     IN CNAME loop
a.b.c    IN A   192.0.2.2
*.wild   IN TXT \"wild\"
sub      IN NS  ns.sub
ns.sub   IN A   192.0.2.3
svc      IN SVCB 1 . port=53 key65400=abc
mail     IN MX  10 www
";

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn zone() -> Zone {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("zone");
    fs::write(&path, TEXT).unwrap();
    read_zone_file(&path, &name("example.com.")).unwrap()
}

/// A zone of these records beside those that every zone has.
fn zone_with(more: &str) -> Result<Zone, ZoneError> {
    let (origin, text) = (name("example.com."), format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n{more}"));
    Zone::new(&origin, read_zone_text(text.as_bytes(), &origin).unwrap())
}

fn signed() -> Zone {
    ZoneSigner::new(PrivateKey::from_seed([3; 32])).sign(&zone(), None, 2_000_000_000).unwrap()
}

fn ask(zone: &Zone, text: &str, kind: RecordType, dnssec: bool) -> Answer {
    zone.answer(&name(text), kind, dnssec)
}

fn shape(answer: &Answer) -> (ResponseCode, usize, usize, usize) {
    (answer.code, answer.answers.len(), answer.authorities.len(), answer.additionals.len())
}

#[test]
fn each_kind_of_name_has_its_answer() {
    let zone = zone();
    let plain = |text: &str, kind| shape(&ask(&zone, text, kind, true));
    let (ok, none) = (ResponseCode::NoError, ResponseCode::NXDomain);
    assert_eq!(plain("WWW.example.com.", RecordType::A), (ok, 1, 0, 0));
    assert_eq!(plain("www.example.com.", RecordType::Unknown(65400)), (ok, 1, 0, 0));
    assert_eq!(plain("www.example.com.", RecordType::AAAA), (ok, 0, 1, 0));
    assert_eq!(plain("alias.example.com.", RecordType::A), (ok, 2, 0, 0));
    assert_eq!(plain("far.example.com.", RecordType::A), (ok, 1, 0, 0));
    assert_eq!(plain("loop.example.com.", RecordType::A).0, ok);
    assert_eq!(plain("b.c.example.com.", RecordType::A), (ok, 0, 1, 0));
    assert_eq!(plain("x.b.c.example.com.", RecordType::A), (none, 0, 1, 0));
    assert_eq!(plain("any.thing.wild.example.com.", RecordType::TXT), (ok, 1, 0, 0));
    assert_eq!(plain("any.wild.example.com.", RecordType::A), (ok, 0, 1, 0));
    assert_eq!(plain("x.sub.example.com.", RecordType::A), (ok, 0, 1, 1));
    assert_eq!(plain("mail.example.com.", RecordType::MX), (ok, 1, 0, 1));
    assert_eq!(plain("*.example.com.", RecordType::A), (none, 0, 1, 0));
    let referral = ask(&zone, "sub.example.com.", RecordType::A, false);
    assert!(!referral.authoritative);
    let wildcard = ask(&zone, "any.wild.example.com.", RecordType::TXT, false);
    assert_eq!(wildcard.answers[0].name, name("any.wild.example.com."));
}

#[test]
fn what_is_signed_can_be_validated() {
    let signed = signed();
    let key = PublicKeyBuf::new(
        PrivateKey::from_seed([3; 32]).public().as_bytes().to_vec(),
        hickory_proto::dnssec::Algorithm::ED25519,
    );
    let mut checked = 0;
    for (owner, node) in &signed.nodes {
        for (kind, set) in &**node {
            let is_cut = *owner == name("sub.example.com.") && *kind == RecordType::NS;
            let is_glue = *owner == name("ns.sub.example.com.");
            assert_eq!(set.signatures.len(), usize::from(!is_cut && !is_glue), "{owner} {kind}");
            for signature in &set.signatures {
                let RData::DNSSEC(DNSSECRData::RRSIG(rrsig)) = &signature.data else { panic!("{signature}") };
                let tbs = TBS::from_input(owner, DNSClass::IN, rrsig.input(), set.records.iter()).unwrap();
                key.verify(tbs.as_ref(), rrsig.sig()).unwrap();
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn names_below_a_dname_go_elsewhere() {
    let long = "l".repeat(63);
    let moved = zone_with(&format!(
        "old DNAME New\nold TXT x\nx.old A 192.0.2.9\nhost.new A 192.0.2.1\n*.w.new A 192.0.2.2\nout DNAME example.org.\n\
         long DNAME {long}.{long}.{long}.example.org.\nalias CNAME host.old\n"
    ))
    .unwrap();
    let answer = |owner: &str, kind| {
        let answer = moved.answer(&name(owner), kind, false);
        let records = answer.answers.iter().map(|record| format!("{} {}", record.name, record.record_type()));
        (answer.code, records.collect::<Vec<_>>().join(", "))
    };
    let ok = |records: &str| (ResponseCode::NoError, records.to_owned());
    assert_eq!(
        answer("Host.old.example.com.", RecordType::A),
        ok("old.example.com. DNAME, host.old.example.com. CNAME, host.new.example.com. A")
    );
    assert_eq!(answer("old.example.com.", RecordType::TXT), ok("old.example.com. TXT"));
    assert_eq!(
        answer("a.w.old.example.com.", RecordType::A),
        ok("old.example.com. DNAME, a.w.old.example.com. CNAME, a.w.new.example.com. A")
    );
    let hidden = (ResponseCode::NXDomain, "old.example.com. DNAME, x.old.example.com. CNAME".to_owned());
    assert_eq!(answer("x.old.example.com.", RecordType::A), hidden, "what is below it is not there");
    assert_eq!(
        answer("a.b.out.example.com.", RecordType::A),
        ok("out.example.com. DNAME, a.b.out.example.com. CNAME")
    );
    assert_eq!(
        answer("alias.example.com.", RecordType::A),
        ok(
            "alias.example.com. CNAME, old.example.com. DNAME, host.old.example.com. CNAME, host.new.example.com. A"
        )
    );
    let too_long = answer(&format!("{long}.long.example.com."), RecordType::A);
    assert_eq!(too_long, (ResponseCode::YXDomain, "long.example.com. DNAME".to_owned()));
    assert_eq!(
        zone_with("old DNAME a\nold DNAME b\n").unwrap_err(),
        ZoneError::Dnames("old.example.com.".to_owned())
    );
    assert!(matches!(zone_with("old DNAME a\nold CNAME b\n"), Err(ZoneError::BesideAlias(_))));
}

#[test]
fn only_the_top_of_a_zone_has_a_soa_record() {
    let below = zone_with("sub SOA ns h 1 2 3 4 5\n");
    assert_eq!(below.unwrap_err(), ZoneError::SoaBelow("sub.example.com.".to_owned()));
}

#[test]
fn denial_comes_with_proof() {
    let signed = signed();
    let proofs = |text: &str, kind| {
        let answer = ask(&signed, text, kind, true);
        let nsec = answer.authorities.iter().filter(|record| record.record_type() == RecordType::NSEC);
        nsec.map(|record| record.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(proofs("www.example.com.", RecordType::AAAA), ["www.example.com."]);
    // The name would come behind mail, a wildcard for it right behind the top.
    assert_eq!(proofs("nothing.example.com.", RecordType::A), ["mail.example.com.", "example.com."]);
    assert_eq!(proofs("any.wild.example.com.", RecordType::TXT), ["*.wild.example.com."]);
    assert_eq!(proofs("any.wild.example.com.", RecordType::A), ["*.wild.example.com."]);
    assert_eq!(proofs("x.sub.example.com.", RecordType::A), ["sub.example.com."]);
    assert_eq!(proofs("www.example.com.", RecordType::A), [""; 0]);
    assert_eq!(ask(&signed, "www.example.com.", RecordType::A, true).answers.len(), 2);
    assert_eq!(ask(&signed, "www.example.com.", RecordType::A, false).answers.len(), 1);
}

#[test]
fn what_did_not_change_keeps_its_signature() {
    let (signer, before) = (ZoneSigner::new(PrivateKey::from_seed([3; 32])), signed());
    let newer = zone().updated(&[], &[add("new.example.com.", 9)]).unwrap().unwrap();
    let after = signer.sign(&newer, Some(&before), 2_000_000_100).unwrap();
    let delta = before.delta(&after);
    // SOA, the new A, the NSEC records around it, and a signature for each.
    assert_eq!((delta.removed.len(), delta.added.len()), (4, 8));
    let later = signer.sign(&newer, Some(&after), 2_000_000_000 + 30 * 24 * 3600).unwrap();
    assert!(after.delta(&later).added.iter().all(|record| record.record_type() == RecordType::RRSIG));
}

fn add(text: &str, host: u8) -> Record {
    Record::from_rdata(name(text), 60, RData::A(A::new(192, 0, 2, host)))
}

fn of_class(mut record: Record, class: DNSClass) -> Record {
    record.dns_class = class;
    record.ttl = 0;
    record
}

fn empty(text: &str, kind: RecordType, class: DNSClass) -> Record {
    of_class(Record::update0(name(text), 0, kind), class)
}

fn code(prerequisites: &[Record], updates: &[Record]) -> Option<ResponseCode> {
    zone().updated(prerequisites, updates).err().map(|refusal| refusal.0)
}

#[test]
fn prerequisites_are_those_of_the_rfc() {
    let (any, none) = (DNSClass::ANY, DNSClass::NONE);
    let (www, nothing) = ("www.example.com.", "nothing.example.com.");
    let (yes, no) =
        (|record| code(&[record], &[]), |record, expected| assert_eq!(code(&[record], &[]), Some(expected)));
    assert_eq!(yes(empty(www, RecordType::ANY, any)), None);
    assert_eq!(yes(empty(www, RecordType::A, any)), None);
    assert_eq!(yes(empty(nothing, RecordType::ANY, none)), None);
    assert_eq!(yes(empty(www, RecordType::AAAA, none)), None);
    assert_eq!(yes(of_class(add(www, 1), DNSClass::IN)), None);
    no(empty(nothing, RecordType::ANY, any), ResponseCode::NXDomain);
    no(empty(www, RecordType::AAAA, any), ResponseCode::NXRRSet);
    no(empty(www, RecordType::ANY, none), ResponseCode::YXDomain);
    no(empty(www, RecordType::A, none), ResponseCode::YXRRSet);
    no(of_class(add(www, 2), DNSClass::IN), ResponseCode::NXRRSet);
    no(empty("www.example.org.", RecordType::A, any), ResponseCode::NotZone);
    no(add(www, 1), ResponseCode::FormErr);
}

#[test]
fn an_update_is_carried_out_whole_or_not_at_all() {
    let www = "www.example.com.";
    let zone = zone();
    let updated = |updates: &[Record]| zone.updated(&[], updates).unwrap();
    let newer = updated(&[empty(www, RecordType::A, DNSClass::ANY), add(www, 8), add(www, 9)]).unwrap();
    assert_eq!(newer.serial(), 8);
    let addresses = |zone: &Zone| zone.set(&name(www), RecordType::A).map_or(0, |set| set.records.len());
    assert_eq!((addresses(&zone), addresses(&newer)), (1, 2));
    let fewer = newer.updated(&[], &[of_class(add(www, 8), DNSClass::NONE)]).unwrap().unwrap();
    assert_eq!(addresses(&fewer), 1);
    assert_eq!(updated(&[add("www.example.com.", 1)]).map(|zone| zone.serial()), Some(8));
    assert!(updated(&[of_class(add(www, 77), DNSClass::NONE)]).is_none());
    // The top keeps its SOA and its last name server.
    assert!(updated(&[empty("example.com.", RecordType::ANY, DNSClass::ANY)]).is_none());
    assert!(updated(&[empty("example.com.", RecordType::NS, DNSClass::ANY)]).is_none());
    // An alias stands alone.
    assert!(updated(&[add("alias.example.com.", 1)]).is_none());
    // One that is wrong spoils all.
    let outside = code(&[], &[add(www, 8), add("www.example.org.", 1)]);
    assert_eq!(outside, Some(ResponseCode::NotZone));
    let ours = of_class(Record::update0(name(www), 0, RecordType::RRSIG), DNSClass::ANY);
    assert_eq!(code(&[], &[ours]), Some(ResponseCode::Refused));
}

proptest! {
    /// Random updates against a list of records, and each delta leads from the one zone to the other.
    #[test]
    fn updates_do_what_a_list_would(operations in proptest::collection::vec((0..4_u8, 0..3_u8, 0..3_u8), 0..30)) {
        let mut zone = zone();
        let mut model: Vec<(u8, u8)> = Vec::new();
        for (kind, host, data) in operations {
            let record = add(&format!("h{host}.example.com."), data);
            let update = match kind {
                0 | 1 => record,
                2 => of_class(record, DNSClass::NONE),
                _ => empty(&format!("h{host}.example.com."), RecordType::A, DNSClass::ANY),
            };
            match kind {
                0 | 1 if !model.contains(&(host, data)) => model.push((host, data)),
                0 | 1 => {}
                2 => model.retain(|entry| *entry != (host, data)),
                _ => model.retain(|entry| entry.0 != host),
            }
            if let Some(newer) = zone.updated(&[], &[update]).unwrap() {
                let delta = zone.delta(&newer);
                let mut records: Vec<Record> = zone.records().cloned().collect();
                records.retain(|record| !delta.removed.contains(record));
                records.extend(delta.added);
                let again = Zone::new(zone.origin(), records).unwrap();
                prop_assert!(again.delta(&newer).added.is_empty() && newer.delta(&again).added.is_empty());
                prop_assert_eq!(newer.serial(), zone.serial() + 1);
                zone = newer;
            }
        }
        for host in 0..3 {
            let set = zone.set(&name(&format!("h{host}.example.com.")), RecordType::A);
            let count = model.iter().filter(|entry| entry.0 == host).count();
            prop_assert_eq!(set.map_or(0, |set| set.records.len()), count);
        }
    }
}
