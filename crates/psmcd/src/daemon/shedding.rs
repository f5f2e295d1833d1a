//! What peers are asked to drop of what goes to this site.

use psmc_api::{Response, ShedAnswer, ShedOutcome, ShedRule, ShedSpec, ShedTold, ShedVerdict};
use psmc_wire::shed::{Answer, MAX_RULES, Outcome, Packets, Rule, Told, Verdict, What};
use thiserror::Error;

use super::control::Control;
use super::requests::Refusal;

/// Why a peer is not asked.
#[derive(Debug, Error)]
enum ShedSpecError {
    #[error("{0} is no prefix: write one such as 203.0.113.0/24")]
    Prefix(String),
    #[error("{0} rules are too many: {MAX_RULES} can be asked for at a time")]
    TooMany(usize),
}

impl Control {
    /// Asks a peer, and tells what it has answered last: to a question before, most of the time.
    pub(super) async fn shed(&self, spec: ShedSpec) -> Result<Response, Refusal> {
        let peer = self.peers[self.peers.find(&spec.peer)?].id;
        if spec.rules.len() > MAX_RULES {
            return Err(Refusal::of(&ShedSpecError::TooMany(spec.rules.len())));
        }
        let rules: Result<Vec<Rule>, _> = spec.rules.iter().map(rule).collect();
        let rules = rules.map_err(|error| Refusal::of(&error))?;
        let (serial, lifetime_ms) = (spec.serial, spec.lifetime_ms);
        let asked = self.plane.call(move |plane| {
            let asked = plane.site.shed(peer, rules, serial, lifetime_ms);
            asked.map(|()| plane.site.shedding(peer).cloned())
        });
        let answer = asked.await.map_err(Refusal::Ends)?.map_err(|error| Refusal::of(&error))?;
        Ok(Response::Shed(answer.as_ref().map(told)))
    }
}

fn rule(spec: &ShedRule) -> Result<Rule, ShedSpecError> {
    let prefix = |text: &String| text.parse().map_err(|_| ShedSpecError::Prefix(text.clone()));
    let packets = Packets {
        destination: prefix(&spec.destination)?,
        source: spec.source.as_ref().map(prefix).transpose()?,
        protocol: spec.protocol,
        ports: spec.ports,
    };
    Ok(Rule { what: What::Packets(packets), rate: spec.bytes_per_second })
}

fn told(answer: &Answer) -> ShedAnswer {
    ShedAnswer {
        request: answer.request,
        outcome: match answer.outcome {
            Outcome::Taken => ShedOutcome::Taken,
            Outcome::Told => ShedOutcome::Told,
            Outcome::Replayed => ShedOutcome::Replayed,
            Outcome::Expired => ShedOutcome::Expired,
            Outcome::TooMany => ShedOutcome::TooMany,
            Outcome::Other(_) => ShedOutcome::Other,
        },
        serial: answer.serial,
        lasts_ms: answer.lasts_ms,
        max_rules: answer.max_rules,
        clock_us: answer.clock_us,
        rules: answer.rules.iter().filter_map(rule_told).collect(),
    }
}

/// `None` of what this site cannot have asked for.
fn rule_told(told: &Told) -> Option<ShedTold> {
    let What::Packets(packets) = &told.rule.what else { return None };
    let rule = ShedRule {
        destination: packets.destination.to_string(),
        source: packets.source.map(|source| source.to_string()),
        protocol: packets.protocol,
        ports: packets.ports,
        bytes_per_second: told.rule.rate,
    };
    let verdict = match told.verdict {
        Verdict::Taken => ShedVerdict::Taken,
        Verdict::Foreign => ShedVerdict::Foreign,
        Verdict::Contradictory => ShedVerdict::Contradictory,
        Verdict::Illegal => ShedVerdict::Illegal,
        Verdict::Other(_) => ShedVerdict::Other,
    };
    Some(ShedTold { rule, verdict, offered_bytes: told.offered, dropped_bytes: told.dropped })
}
