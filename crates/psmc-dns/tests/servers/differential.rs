//! Many zones with whatever records there are, through BIND to ours as its secondary, and from there to the resolver: all of them
//! say what BIND says. And questions that no client should ask, to BIND and to ours.

mod client;
mod questions;
mod zones;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, Record, RecordType};
use psmc_dns::zone::read_zone_text;
use psmc_testbed::netns::Namespace;

use crate::harness::{Program, ZONE, name, ours, text_of, write};
use crate::resolving::{RESOLVER, Resolving};
use client::{Client, in_words};
use zones::{Random, Sample};

/// So many zones, of which these are signed, with NSEC and with NSEC3 in turns.
const ZONES: usize = 300;
const SIGNED: usize = 8;

/// Differences that are shown: one is enough to look for, and many are of one kind.
const MAX_SHOWN: usize = 40;

#[test]
fn what_bind_says_of_any_zone_ours_and_the_resolver_say() {
    let namespace = Arc::new(Namespace::new().unwrap());
    let samples: Vec<Sample> = (0..ZONES).map(|number| zones::sample(number, number < SIGNED)).collect();
    let _bind = bind(&namespace, &samples);
    let config: String = samples
        .iter()
        .map(|sample| {
            format!(
                "[[zone]]\nname = \"{}\"\nprimary = \"127.0.0.1\"\ntransfer = [\"127.0.0.1\"]\n",
                sample.origin
            )
        })
        .collect();
    let ours = ours(
        &namespace,
        "127.0.0.2",
        &format!("{config}[[zone]]\nname = \"example.com\"\nprimary = \"127.0.0.1\"\n"),
    );
    // Name servers of the zones are on this machine.
    let _resolving = Resolving::start(&namespace, "\"127.0.0.2\"", "private = [\".\"]\n");
    let differences = namespace.run(|| {
        let mut clients = [Client::new("127.0.0.1"), Client::new("127.0.0.2"), Client::new(RESOLVER)];
        let mut differences = Vec::new();
        for sample in &samples {
            clients[1].wait_for(&sample.origin);
            compare_zone(sample, &mut clients, &mut differences);
        }
        differences
    });
    assert!(
        differences.is_empty(),
        "{} differences:\n{}\n{}",
        differences.len(),
        shown(&differences),
        ours.log().lines().filter(|line| line.contains("WARN")).take(3).collect::<String>()
    );
}

#[test]
fn odd_questions_have_the_answers_that_bind_gives() {
    let namespace = Namespace::new().unwrap();
    let _bind = bind(&namespace, &[]);
    let _ours = ours(&namespace, "127.0.0.2", "[[zone]]\nname = \"example.com\"\nfile = \"zone\"\n");
    let differences = namespace.run(|| questions::compare("127.0.0.1:53", "127.0.0.2:53"));
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown(&differences));
}

fn shown(differences: &[String]) -> String {
    differences.iter().take(MAX_SHOWN).map(|difference| format!("{difference}\n")).collect()
}

/// BIND as the primary of these zones, and of example.com.
fn bind(namespace: &Namespace, samples: &[Sample]) -> Program {
    text_of(namespace, Command::new("ip").args(["address", "add", "127.0.0.1/8", "dev", "lo"]));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "zone", ZONE);
    let mut config = format!(
        "options {{ directory \"{}\"; pid-file none; lock-file none; session-keyfile none; listen-on port 53 {{ 127.0.0.1; }};\n\
         listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; allow-transfer {{ any; }}; notify no;\n\
         minimal-responses yes; transfers-out 100; check-names primary ignore; check-sibling no; check-integrity no;\n\
         answer-cookie no; }};\ncontrols {{ }};\nzone \"example.com\" {{ type primary; file \"zone\"; }};\n",
        path.display()
    );
    for sample in samples {
        let origin = &sample.origin;
        write(path, origin, &sample.text);
        let file = match &sample.signing {
            Some(options) => sign(path, origin, options),
            None => origin.clone(),
        };
        writeln!(config, "zone \"{origin}\" {{ type primary; file \"{file}\"; }};").unwrap();
    }
    write(path, "named.conf", &config);
    let mut command = Command::new("/usr/sbin/named");
    command.args(["-g", "-n", "1", "-c", "named.conf"]);
    let program = Program::start(namespace, directory, &mut command).serves(namespace, "127.0.0.1");
    let log = program.log();
    let refused: Vec<&str> =
        log.lines().filter(|line| line.contains("not loaded") || line.contains("master")).collect();
    assert!(!log.contains("not loaded due to errors"), "BIND refuses: {refused:?}");
    program
}

/// Signs a zone's file; yields the name of the signed one.
fn sign(directory: &std::path::Path, origin: &str, options: &[&str]) -> String {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).current_dir(directory).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let key = run("dnssec-keygen", &["-q", "-a", "ED25519", "-f", "KSK", origin]);
    let text = fs::read_to_string(directory.join(origin)).unwrap();
    let record = fs::read_to_string(directory.join(format!("{key}.key"))).unwrap();
    write(directory, origin, &format!("{text}{record}"));
    let arguments = [&["-q", "-x", "-z", "-o", origin, "-f", "signed"], options, &[origin, &key]].concat();
    run("dnssec-signzone", &arguments);
    let signed = format!("{origin}.signed");
    fs::rename(directory.join("signed"), directory.join(&signed)).unwrap();
    signed
}

/// Compares what all three say of a zone.
fn compare_zone(sample: &Sample, clients: &mut [Client; 3], out: &mut Vec<String>) {
    let origin = name(&format!("{}.", sample.origin));
    let [bind, ours, _] = clients;
    let (all, copied) = (bind.transfer(&origin), ours.transfer(&origin));
    let mut differ = |what: &str, bind: &[String], other: &[String]| {
        if bind != other {
            let (bind, other): (BTreeSet<&String>, BTreeSet<&String>) =
                (bind.iter().collect(), other.iter().collect());
            let missing: Vec<_> = bind.difference(&other).take(3).collect();
            let extra: Vec<_> = other.difference(&bind).take(3).collect();
            out.push(format!("{} {what}: missing {missing:?}, too much {extra:?}", sample.origin));
        }
    };
    differ("transfer", &words(&all), &words(&copied));
    if sample.signing.is_none() {
        match read_zone_text(sample.text.as_bytes(), &origin) {
            Ok(read) => differ("file", &words(&all), &words(&read)),
            Err(error) => differ("file", &words(&all), &[format!("{error:?}")]),
        }
    }
    let mut random = Random(all.len() as u64 + 1);
    for (place, (owner, kind)) in questions_of(&origin, &all, &mut random).into_iter().enumerate() {
        let dnssec = sample.signing.is_some();
        let [bind, ours, resolver] = clients;
        let (bind, ours) = (bind.ask(&owner, kind, dnssec), ours.ask(&owner, kind, dnssec));
        let what = format!("{owner} {kind}{}", if dnssec { " with signatures" } else { "" });
        let head =
            |message: &Message| vec![format!("{:?} aa={}", message.response_code, message.authoritative)];
        differ(&format!("{what}: code"), &head(&bind), &head(&ours));
        differ(&format!("{what}: answers"), &words(&bind.answers), &words(&ours.answers));
        differ(&format!("{what}: authority"), &words(&bind.authorities), &words(&ours.authorities));
        // What is said twice of each kind of record is said often enough.
        if place % 2 == 0 && bind.authoritative && bind.response_code != ResponseCode::YXDomain {
            let resolver = resolver.ask(&owner, kind, dnssec);
            differ(
                &format!("{what}: code of the resolver"),
                &[format!("{:?}", bind.response_code)],
                &[format!("{:?}", resolver.response_code)],
            );
            differ(
                &format!("{what}: answers of the resolver"),
                &words_without_ttl(&bind.answers),
                &words_without_ttl(&resolver.answers),
            );
        }
    }
}

/// What to ask of a zone with these records: each set, some types and names that are not there, and what is below names.
fn questions_of(origin: &Name, records: &[Record], random: &mut Random) -> Vec<(Name, RecordType)> {
    let is_asked = |record: &&Record| {
        !matches!(record.record_type(), RecordType::RRSIG | RecordType::NSEC3 | RecordType::SIG)
    };
    let mut questions: BTreeSet<(Name, u16)> = records
        .iter()
        .filter(is_asked)
        .map(|record| (record.name.clone(), record.record_type().into()))
        .collect();
    let owners: Vec<Name> = records.iter().filter(is_asked).map(|record| record.name.clone()).collect();
    for _ in 0..2 {
        let owner = &owners[random.below(owners.len())];
        questions.insert((owner.clone(), 28));
        questions.insert((owner.base_name(), 16));
        for below in ["nothing", "a.b.c", "*"] {
            let label = name(&format!("{below}."));
            if let Ok(below) = label.append_name(owner)
                && origin.zone_of(&below)
            {
                questions.insert((below, 1));
            }
        }
    }
    questions.retain(|(owner, _)| origin.zone_of(owner));
    questions.into_iter().map(|(owner, kind)| (owner, kind.into())).collect()
}

fn words(records: &[Record]) -> Vec<String> {
    let mut words: Vec<String> =
        records.iter().map(|record| format!("{} {}", record.ttl, in_words(record))).collect();
    words.sort();
    words.dedup();
    words
}

fn words_without_ttl(records: &[Record]) -> Vec<String> {
    let mut words: Vec<String> = records.iter().map(in_words).collect();
    words.sort();
    words.dedup();
    words
}
