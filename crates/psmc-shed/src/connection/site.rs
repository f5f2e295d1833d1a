//! A peer of this machine's site as an upstream: the site's daemon asks it, over the control channel that both have anyway.

use psmc_api::{Client, ShedAnswer, ShedOutcome, ShedRule, ShedSpec, ShedTold, ShedVerdict};
use psmc_wire::shed::{Answer, ONLY_TELL, Outcome, Packets, Rule, Told, Verdict, What};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::{ConnectionError, Site};
use crate::message::Message;
use crate::router::INTERVAL;
use crate::server::rules::Translator;

/// Connects to the daemon.
pub(super) async fn connect(site: &Site) -> Result<Client, ConnectionError> {
    let socket = site.socket.clone();
    let connected = spawn_blocking(move || Client::connect(&socket)).await;
    // A panic was reported where it happened.
    Ok(connected.map_err(|_| ConnectionError::Closed)??)
}

/// Carries messages both ways until the daemon or the peer is gone, and says why it ended: as [`carry`](super::carry) does.
pub(super) async fn carry(
    mut client: Client,
    site: &Site,
    translator: &Translator,
    outgoing: &mut mpsc::Receiver<Message>,
    incoming: &mpsc::Sender<Message>,
) -> ConnectionError {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_met, mut last) = (false, 0);
    loop {
        let mut spec =
            ShedSpec { peer: site.peer.clone(), serial: ONLY_TELL, lifetime_ms: 0, rules: Vec::new() };
        tokio::select! {
            () = incoming.closed() => return ConnectionError::Closed,
            wanted = outgoing.recv() => match wanted {
                None => return ConnectionError::Closed,
                Some(Message::Rules(said)) => {
                    let (lifetime_ms, rules) = translator.wanted(&said);
                    let rules = rules.iter().filter_map(to_api).collect();
                    spec = ShedSpec { serial: said.serial, lifetime_ms, rules, ..spec };
                }
                // What only routers say is for nobody.
                Some(
                    Message::Held { .. }
                    | Message::Taken { .. }
                    | Message::Declined { .. }
                    | Message::Report { .. }
                    | Message::Unknown,
                ) => continue,
            },
            _ = ticks.tick() => {}
        }
        let answer = match ask(client, spec).await {
            Ok((kept, answer)) => {
                client = kept;
                answer
            }
            Err(error) => return error,
        };
        let Some(answer) = answer.filter(|answer| answer.request != last) else { continue };
        last = answer.request;
        for message in translator.heard(&from_api(&answer), &mut is_met) {
            if incoming.send(message).await.is_err() {
                return ConnectionError::Closed;
            }
        }
    }
}

async fn ask(mut client: Client, spec: ShedSpec) -> Result<(Client, Option<ShedAnswer>), ConnectionError> {
    let asked = spawn_blocking(move || {
        let answer = client.shed(spec);
        (client, answer)
    });
    // A panic was reported where it happened.
    let (client, answer) = asked.await.map_err(|_| ConnectionError::Closed)?;
    Ok((client, answer?))
}

fn to_api(rule: &Rule) -> Option<ShedRule> {
    // Datagrams are a relay's.
    let What::Packets(packets) = &rule.what else { return None };
    Some(ShedRule {
        destination: packets.destination.to_string(),
        source: packets.source.map(|source| source.to_string()),
        protocol: packets.protocol,
        ports: packets.ports,
        bytes_per_second: rule.rate,
    })
}

fn from_api(answer: &ShedAnswer) -> Answer {
    Answer {
        request: answer.request,
        outcome: match answer.outcome {
            ShedOutcome::Taken => Outcome::Taken,
            ShedOutcome::Told => Outcome::Told,
            ShedOutcome::Replayed => Outcome::Replayed,
            ShedOutcome::Expired => Outcome::Expired,
            ShedOutcome::TooMany => Outcome::TooMany,
            ShedOutcome::Other => Outcome::Other(u8::MAX),
        },
        serial: answer.serial,
        lasts_ms: answer.lasts_ms,
        max_rules: answer.max_rules,
        clock_us: answer.clock_us,
        rules: answer.rules.iter().filter_map(told).collect(),
    }
}

/// `None` of what is no rule.
fn told(told: &ShedTold) -> Option<Told> {
    let rule = &told.rule;
    let packets = Packets {
        destination: rule.destination.parse().ok()?,
        source: rule.source.as_ref().map(|source| source.parse()).transpose().ok()?,
        protocol: rule.protocol,
        ports: rule.ports,
    };
    let verdict = match told.verdict {
        ShedVerdict::Taken => Verdict::Taken,
        ShedVerdict::Foreign => Verdict::Foreign,
        ShedVerdict::Contradictory => Verdict::Contradictory,
        ShedVerdict::Illegal => Verdict::Illegal,
        ShedVerdict::Other => Verdict::Other(u8::MAX),
    };
    let rule = Rule { what: What::Packets(packets), rate: rule.bytes_per_second };
    Some(Told { rule, verdict, offered: told.offered_bytes, dropped: told.dropped_bytes })
}
