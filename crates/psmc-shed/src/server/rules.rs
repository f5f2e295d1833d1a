//! Rules of a server as relays and sites have them (docs/PROTOCOL.md, section 18): they have no names, and say with each answer what
//! has come.

use std::time::Duration;

use psmc_service::clock::since_1970;
use psmc_wire::shed::{Answer, MAX_RULES, Outcome, Packets, Rule, Told, Verdict, What};

use super::engine::wanted;
use crate::class::Class;
use crate::config::{Accept, Datagrams};
use crate::message::{Count, Decline, Message, Reason, Refusal, Rules, Wanted};

/// What the classes of a server are called at an upstream that has no names.
#[derive(Clone, Debug)]
pub struct Translator {
    classes: Vec<(Wanted, What)>,
}

impl Translator {
    /// For these classes, of which those in `datagrams` come in sessions whose packets the upstream does not see.
    #[must_use]
    pub fn new(accepts: &[Accept], datagrams: &[Datagrams]) -> Self {
        let what = |accept: &Accept| {
            let hidden = datagrams.iter().find(|hidden| hidden.class == accept.name);
            hidden.map_or_else(|| What::Packets(packets(&accept.class)), |it| What::Datagrams(it.precedence))
        };
        Self { classes: accepts.iter().map(|accept| (wanted(accept, None), what(accept))).collect() }
    }

    /// For how many milliseconds a message's rules last, and what they are.
    #[must_use]
    pub fn wanted(&self, said: &Rules) -> (u32, Vec<Rule>) {
        let left = Duration::from_millis(said.expires_ms).saturating_sub(since_1970());
        let rule = |wanted: &Wanted| {
            let (_, what) = self.classes.iter().find(|(class, _)| class.name == wanted.name)?;
            Some(Rule { what: what.clone(), rate: wanted.rate })
        };
        let rules = said.rules.iter().filter_map(rule).take(MAX_RULES).collect();
        (u32::try_from(left.as_millis()).unwrap_or(u32::MAX), rules)
    }

    /// What a router's agent would say in place of an answer. The first one tells what the upstream has.
    #[must_use]
    pub fn heard(&self, answer: &Answer, is_met: &mut bool) -> Vec<Message> {
        let mut messages = Vec::new();
        if !std::mem::replace(is_met, true) {
            let held = answer.rules.iter().filter_map(|told| {
                let (class, _) = self.class_of(told)?;
                Some(Wanted { rate: told.rule.rate, ..class.clone() })
            });
            messages.push(Message::Held { rules: held.collect() });
        }
        messages.extend(self.outcome(answer));
        let counts = answer.rules.iter().filter(|told| told.verdict == Verdict::Taken).filter_map(|told| {
            let (class, _) = self.class_of(told)?;
            Some(Count { name: class.name.clone(), offered: told.offered, dropped: told.dropped })
        });
        let at_ms = answer.clock_us / 1000;
        messages.push(Message::Report { at_ms, enforced: true, counts: counts.collect() });
        messages
    }

    fn outcome(&self, answer: &Answer) -> Option<Message> {
        let (serial, max_rules) = (answer.serial, usize::from(answer.max_rules));
        let declined = |reason| Some(Message::Declined { serial, reason, max_rules });
        match answer.outcome {
            Outcome::Told => None,
            Outcome::Taken => {
                let refused = answer.rules.iter().filter_map(|told| self.refusal(told)).collect();
                Some(Message::Taken { serial, lasts_ms: answer.lasts_ms.into(), refused })
            }
            Outcome::Replayed => declined(Decline::Replayed),
            Outcome::Expired => declined(Decline::Expired),
            Outcome::TooMany => declined(Decline::TooMany),
            Outcome::Other(_) => declined(Decline::Other),
        }
    }

    fn refusal(&self, told: &Told) -> Option<Refusal> {
        let reason = match told.verdict {
            Verdict::Taken => return None,
            Verdict::Foreign => Reason::Foreign,
            Verdict::Contradictory => Reason::Contradictory,
            Verdict::Illegal => Reason::Illegal,
            Verdict::Other(_) => Reason::Other,
        };
        let (class, _) = self.class_of(told)?;
        Some(Refusal { name: class.name.clone(), reason })
    }

    fn class_of(&self, told: &Told) -> Option<&(Wanted, What)> {
        self.classes.iter().find(|(_, what)| *what == told.rule.what)
    }
}

fn packets(class: &Class) -> Packets {
    Packets {
        destination: class.destination(),
        source: class.source(),
        protocol: class.protocol().map(|protocol| protocol.0),
        ports: class.ports().map(|ports| (ports.first(), ports.last())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::tests::class;
    use crate::config::Basis;

    fn translator() -> Translator {
        let accept = |name: &str, text: &str| Accept {
            name: name.parse().unwrap(),
            class: class(text),
            rate: 1000,
            basis: Basis::File,
        };
        let accepts = [accept("dns", "203.0.113.10/32 udp 53"), accept("bulk", "203.0.113.11/32")];
        Translator::new(&accepts, &[Datagrams { class: "bulk".parse().unwrap(), precedence: Some(2) }])
    }

    fn told(what: &What, verdict: Verdict) -> Told {
        Told { rule: Rule { what: what.clone(), rate: Some(7) }, verdict, offered: 100, dropped: 60 }
    }

    #[test]
    fn classes_come_back_by_their_names() {
        let translator = translator();
        let wanted = translator.classes.iter().map(|(class, _)| Wanted { rate: Some(7), ..class.clone() });
        let now = u64::try_from(since_1970().as_millis()).unwrap();
        let said = Rules { serial: 5, expires_ms: now + 60_000, rules: wanted.collect() };
        let (lasts, rules) = translator.wanted(&said);
        assert!((1..=60_000).contains(&lasts));
        assert_eq!(rules[1], Rule { what: What::Datagrams(Some(2)), rate: Some(7) });
        let answer = Answer {
            request: 1,
            outcome: Outcome::Taken,
            serial: 5,
            lasts_ms: 60_000,
            max_rules: 16,
            clock_us: 2_000_000,
            rules: vec![told(&rules[0].what, Verdict::Taken), told(&rules[1].what, Verdict::Foreign)],
        };
        let refused = vec![Refusal { name: "bulk".to_owned(), reason: Reason::Foreign }];
        let counts = vec![Count { name: "dns".to_owned(), offered: 100, dropped: 60 }];
        let after = [
            Message::Taken { serial: 5, lasts_ms: 60_000, refused },
            Message::Report { at_ms: 2000, enforced: true, counts },
        ];
        let mut is_met = true;
        assert_eq!(translator.heard(&answer, &mut is_met), after);
        is_met = false;
        let first = translator.heard(&Answer { outcome: Outcome::Told, ..answer.clone() }, &mut is_met);
        assert!(
            is_met
                && matches!(&first[..], [Message::Held { rules }, Message::Report { .. }] if rules.len() == 2)
        );
        let many = translator.heard(&Answer { outcome: Outcome::TooMany, ..answer }, &mut is_met);
        assert!(matches!(many[0], Message::Declined { reason: Decline::TooMany, max_rules: 16, .. }));
    }
}
