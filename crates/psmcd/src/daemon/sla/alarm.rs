//! What coordinators are told: which prefix is flooded, for as long as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use psmc_api::{SlaAggregate, SlaCause};
use psmc_net::tls::Identity;
use psmc_signal::connection::{Coordinator, Event, Link, Options};
use psmc_signal::{Alert, AlertKind, Measured, Message, Role};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// What goes on is said so often: a coordinator lets it lapse after a minute if nothing else is configured.
const REPEAT: Duration = Duration::from_secs(20);

/// An attack is over once it was not seen for so long: who pauses is not gone, and what is judged anew each quarter of a second is near
/// a limit at times.
const CALM: Duration = Duration::from_secs(10);

/// The longest identifier of an alert, in characters, as coordinators take it.
const MAX_ID: usize = 64;

/// Alerts by their identifiers.
type Alerts = BTreeMap<String, Alert>;

/// Coordinators that are told, if there are any.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    telling: Option<Telling>,
}

/// The task that tells them; ends with this.
#[derive(Debug)]
struct Telling {
    coordinators: Vec<Coordinator>,
    /// What is told, and when it was last seen.
    attacks: BTreeMap<String, (Duration, Alert)>,
    alerts: watch::Sender<Alerts>,
    task: JoinHandle<()>,
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Alarm {
    /// Tells these from now on, or nobody.
    pub(super) fn tell(&mut self, coordinators: &[Coordinator], identity: &Identity) {
        if self.telling.as_ref().is_some_and(|telling| telling.coordinators == coordinators) {
            return;
        }
        self.telling = (!coordinators.is_empty()).then(|| {
            let (alerts, to_tell) = watch::channel(Alerts::new());
            let link = Link::open(Options {
                identity: identity.clone(),
                role: Role::Watcher,
                services: Vec::new(),
                coordinators: coordinators.to_vec(),
                interface: None,
                local: None,
            });
            let task = tokio::spawn(tell(link, to_tell));
            Telling { coordinators: coordinators.to_vec(), attacks: BTreeMap::new(), alerts, task }
        });
    }

    /// These aggregates cross segments that are at fault. Those that look like attacks are told of, until they have not been among them
    /// for a while.
    pub(super) fn note<'a>(
        &mut self,
        aggregates: impl Iterator<Item = &'a SlaAggregate>,
        site: &str,
        now: Duration,
    ) {
        let Some(Telling { attacks, alerts, .. }) = &mut self.telling else { return };
        for attack in aggregates.filter(|aggregate| aggregate.cause == SlaCause::Attack) {
            let alert = alert(attack, site);
            attacks.insert(alert.id.clone(), (now, alert));
        }
        attacks.retain(|_, (seen, _)| now.saturating_sub(*seen) < CALM);
        alerts.send_if_modified(|before| {
            // Other figures of the same are told when it is repeated.
            let is_news = !before.keys().eq(attacks.keys());
            *before = attacks.iter().map(|(id, (_, alert))| (id.clone(), alert.clone())).collect();
            is_news
        });
    }
}

fn alert(aggregate: &SlaAggregate, site: &str) -> Alert {
    let bits = |mbps: f64| Measured { bits: Some(mbps * 1e6), ..Measured::default() };
    let usual = aggregate.risen.map(|risen| bits(aggregate.rate_mbps / risen)).unwrap_or_default();
    let id: String = format!("{} by {site}", aggregate.prefix).chars().take(MAX_ID).collect();
    Alert {
        id,
        service: String::new(),
        target: Some(aggregate.prefix.clone()),
        kind: AlertKind::Rate,
        measured: bits(aggregate.rate_mbps),
        usual,
    }
}

/// Says what holds: when it begins and ends, when there is a connection anew, and again and again.
async fn tell(mut link: Link, mut alerts: watch::Receiver<Alerts>) {
    let mut repeat = interval(REPEAT);
    repeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut said, mut declined) = (BTreeSet::new(), BTreeSet::new());
    let mut is_up = true;
    loop {
        tokio::select! {
            event = link.next() => match event {
                Event::Up { coordinator } => {
                    tracing::info!(%coordinator, "connected to the coordinator");
                    is_up = true;
                    say_all(&link, &alerts.borrow());
                }
                Event::Down { coordinator, reason } => {
                    if std::mem::take(&mut is_up) {
                        tracing::warn!(%coordinator, reason, "cannot reach the coordinator; retrying");
                    }
                }
                Event::Message(message) => hear(message, &mut declined),
            },
            changed = alerts.changed() => {
                if changed.is_err() {
                    return;
                }
                let alerts = alerts.borrow_and_update();
                for id in said.difference(&alerts.keys().cloned().collect()) {
                    declined.remove(id);
                    say(&link, Message::Clear { id: id.clone(), service: String::new() });
                }
                said = alerts.keys().cloned().collect();
                say_all(&link, &alerts);
            }
            _ = repeat.tick() => say_all(&link, &alerts.borrow()),
        }
    }
}

fn say_all(link: &Link, alerts: &Alerts) {
    alerts.values().for_each(|alert| say(link, Message::Alert(alert.clone())));
}

fn say(link: &Link, message: Message) {
    if let Err(error) = link.send(message) {
        tracing::warn!(%error, "cannot notify the coordinator");
    }
}

/// What a coordinator says to a watcher: that an alert is taken, or why not, which is logged once.
fn hear(message: Message, declined: &mut BTreeSet<String>) {
    match message {
        Message::Declined { id, reason } => {
            let id = id.chars().take(MAX_ID).collect::<String>();
            if declined.len() < MAX_DECLINED && declined.insert(id.clone()) {
                tracing::warn!(id, reason, "the coordinator does not take the alert");
            }
        }
        Message::Noted { id } => tracing::debug!(id, "the coordinator has noted the alert"),
        Message::Hello { .. }
        | Message::Welcome { .. }
        | Message::Refused { .. }
        | Message::Alert(_)
        | Message::Clear { .. }
        | Message::Mitigation(_)
        | Message::Clients { .. }
        | Message::Ready { .. }
        | Message::Report { .. }
        | Message::RelayFailed { .. }
        | Message::Routes(_)
        | Message::Ping
        | Message::Unknown => {}
    }
}

/// Identifiers that are remembered so that they are logged once: more than there are alerts at a time, eight segments with four each.
const MAX_DECLINED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_says_what_and_how_much_more_than_before() {
        let aggregate = SlaAggregate {
            from: "r0".to_owned(),
            to: "r1".to_owned(),
            prefix: "2001:db8:1111:2222:3333:4444:5555:6666/128".to_owned(),
            share_pct: 90.0,
            rate_mbps: 20.0,
            ingresses: Vec::new(),
            sources: 1,
            source_addresses: Vec::new(),
            answered_pct: 0.0,
            risen: Some(10.0),
            cause: SlaCause::Attack,
        };
        let alert = alert(&aggregate, &"x".repeat(63));
        assert_eq!(alert.id.len(), MAX_ID);
        assert_eq!(alert.target, Some(aggregate.prefix));
        assert_eq!((alert.measured.bits, alert.usual.bits), (Some(2e7), Some(2e6)));
    }
}
