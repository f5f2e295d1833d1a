use psmc_wire::Label;
use psmc_wire::hop::{Hop, HopKey};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn packets(destination: &str) -> Packets {
    let destination = destination.parse().unwrap();
    Packets { destination, source: None, protocol: None, ports: None }
}

fn rule(destination: &str, rate: u64) -> Rule {
    Rule { what: What::Packets(packets(destination)), rate: Some(rate) }
}

fn ask(serial: u64, rules: Vec<Rule>) -> Ask {
    Ask { request: 1, serial, lifetime_ms: 10_000, rules }
}

/// Everything in 203.0.113.0/24 is the asker's own, and all datagrams to it.
fn is_own(what: &What) -> bool {
    match what {
        What::Packets(packets) => {
            "203.0.113.0/24".parse::<ipnet::IpNet>().unwrap().contains(&packets.destination)
        }
        What::Datagrams(_) => true,
        What::Label(hop, _) => hop.key == HopKey([7; 16]),
    }
}

#[derive(Default)]
struct Owner {
    register: Register,
    counts: ShedCounts,
}

impl Owner {
    fn say(&mut self, ask: &Ask, now: u64) -> Answer {
        self.register.handle(ask, Bounds::default(), is_own, &mut self.counts, now)
    }

    fn verdicts(&mut self, ask: &Ask, now: u64) -> Vec<Verdict> {
        self.say(ask, now).rules.iter().map(|told| told.verdict).collect()
    }
}

fn passes(held: &Held, to: &str, now: u64) -> bool {
    let from = "198.51.100.1".parse().unwrap();
    held.passes_packet((from, to.parse().unwrap()), 17, Some(9), 1000, now)
}

/// How many of packets of 1000 bytes pass that come every millisecond from a time on.
fn passing(held: &Held, to: &str, from: u64, count: u64) -> usize {
    (0..count).filter(|number| passes(held, to, from + number * SECOND / 1000)).count()
}

#[test]
fn a_rule_lets_pass_what_it_says_and_ends_by_itself() {
    let mut owner = Owner::default();
    let said = ask(1, vec![rule("203.0.113.10/32", 100_000), rule("203.0.113.0/24", 0)]);
    assert_eq!(owner.verdicts(&said, SECOND), [Verdict::Taken; 2]);
    let held = owner.register.held();
    let passed = passing(&held, "203.0.113.10", SECOND, 5000);
    // 100 a second, and what a limit lets pass at once.
    assert!((500..=520).contains(&passed), "{passed}");
    assert_eq!(passing(&held, "203.0.113.11", 6 * SECOND, 100), 0);
    assert!(passes(&held, "198.51.100.7", 6 * SECOND), "nobody else is touched");
    let told: Vec<_> = owner.register.told(7 * SECOND).map(|told| (told.offered, told.dropped)).collect();
    assert_eq!(told, [(5_000_000, (5000 - passed as u64) * 1000), (100_000, 100_000)]);
    assert_eq!(passing(&held, "203.0.113.11", 11 * SECOND, 100), 100, "nobody has asked again");
    assert_eq!(owner.register.told(11 * SECOND).count(), 0);
}

#[test]
fn who_asks_again_goes_on_with_limits_and_counters() {
    let mut owner = Owner::default();
    owner.say(&ask(1, vec![rule("203.0.113.10/32", 100_000)]), 0);
    let mut passed = 0;
    for round in 0..10 {
        let now = round * SECOND / 2;
        let answer = owner.say(&ask(round + 2, vec![rule("203.0.113.10/32", 100_000 + round)]), now);
        assert_eq!(answer.rules[0].offered, round * 500_000);
        passed += passing(&owner.register.held(), "203.0.113.10", now, 500);
    }
    assert!((500..=520).contains(&passed), "to renew is to let nothing more pass: {passed}");
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut owner = Owner::default();
    owner.say(&ask(7, vec![rule("203.0.113.10/32", 5)]), 0);
    let many = (0..64).map(|number| rule(&format!("203.0.113.{number}/32"), 0)).collect();
    let over = Ask { lifetime_ms: 0, ..ask(9, vec![]) };
    for (said, outcome) in [
        (ask(7, vec![]), Outcome::Replayed),
        (ask(6, vec![]), Outcome::Replayed),
        (over, Outcome::Expired),
        (ask(10, many), Outcome::TooMany),
        (ask(ONLY_TELL, vec![rule("203.0.113.9/32", 0)]), Outcome::Told),
    ] {
        let answer = owner.say(&said, SECOND);
        assert_eq!((answer.outcome, answer.serial, answer.lasts_ms), (outcome, 7, 9000));
        assert_eq!(
            answer.rules.iter().map(|told| &told.rule).collect::<Vec<_>>(),
            [&rule("203.0.113.10/32", 5)]
        );
    }
    let expected = ShedCounts { taken: 1, replayed: 2, expired: 1, too_many: 1, ..ShedCounts::default() };
    assert_eq!(owner.counts, expected);
}

#[test]
fn rules_are_refused_one_by_one() {
    let mut owner = Owner::default();
    let ports = |protocol, ports| Rule {
        what: What::Packets(Packets { protocol, ports: Some(ports), ..packets("203.0.113.10/32") }),
        rate: Some(1),
    };
    let mixed =
        What::Packets(Packets { source: Some("::/0".parse().unwrap()), ..packets("203.0.113.10/32") });
    let hop = |key| Hop { label: Label(5), key: HopKey([key; 16]) };
    let said = ask(
        1,
        vec![
            rule("198.51.100.0/24", 0),
            rule("203.0.112.0/23", 0),
            rule("203.0.113.1/32", 1),
            rule("203.0.113.1/32", 2),
            ports(None, (5, 6)),
            ports(Some(6), (6, 5)),
            ports(Some(6), (0, 5)),
            Rule { what: mixed, rate: None },
            rule("203.0.113.2/32", u64::MAX - 1),
            Rule { what: What::Label(hop(8), None), rate: Some(0) },
            Rule { what: What::Label(hop(7), None), rate: Some(0) },
            ports(Some(17), (5, 6)),
        ],
    );
    use Verdict::{Contradictory, Foreign, Illegal, Taken};
    let expected = [
        Foreign,
        Foreign,
        Contradictory,
        Contradictory,
        Illegal,
        Illegal,
        Illegal,
        Illegal,
        Illegal,
        Foreign,
        Taken,
        Taken,
    ];
    assert_eq!(owner.verdicts(&said, 0), expected);
    let counts = owner.counts;
    assert_eq!((counts.foreign, counts.contradictory, counts.illegal), (3, 2, 5));
    assert_eq!(owner.register.told(0).count(), 2);
}

#[test]
fn the_most_specific_rule_counts() {
    let mut owner = Owner::default();
    let one_port =
        What::Packets(Packets { protocol: Some(17), ports: Some((9, 9)), ..packets("203.0.113.0/24") });
    let only_two = Rule { what: What::Datagrams(Some(2)), rate: Some(0) };
    let any = Rule { what: What::Datagrams(None), rate: None };
    let rules = vec![rule("203.0.113.0/24", 0), Rule { what: one_port, rate: None }, any, only_two];
    owner.say(&ask(1, rules), 0);
    let held = owner.register.held();
    assert!(passes(&held, "203.0.113.10", 1));
    assert!(!held.passes_packet(
        ("198.51.100.1".parse().unwrap(), "203.0.113.10".parse().unwrap()),
        17,
        Some(10),
        1000,
        1
    ));
    assert_eq!([0, 1, 2].map(|precedence| held.passes_datagram(precedence, 1000, 1)), [true, true, false]);
}

#[test]
fn labels_are_kept_apart() {
    let mut owner = Owner::default();
    let hop = Hop { label: Label(5), key: HopKey([7; 16]) };
    owner.say(&ask(1, vec![Rule { what: What::Label(hop, Some(1)), rate: Some(0) }]), 0);
    let held = owner.register.held();
    assert_eq!(held.labels().collect::<Vec<_>>(), [5]);
    assert!(!held.passes_label(5, 1, 1000, 1));
    assert!(held.passes_label(5, 0, 1000, 1) && held.passes_label(6, 1, 1000, 1));
    assert!(held.passes_datagram(1, 1000, 1), "it is of that label only");
}

#[test]
fn a_closed_rule_that_opens_keeps_its_counters() {
    let mut owner = Owner::default();
    owner.say(&ask(1, vec![rule("203.0.113.10/32", 0)]), 0);
    assert_eq!(passing(&owner.register.held(), "203.0.113.10", 0, 10), 0);
    let answer = owner.say(&ask(2, vec![rule("203.0.113.10/32", 100_000)]), SECOND);
    assert_eq!((answer.rules[0].offered, answer.rules[0].dropped), (10_000, 10_000));
    assert!(passes(&owner.register.held(), "203.0.113.10", SECOND));
}
