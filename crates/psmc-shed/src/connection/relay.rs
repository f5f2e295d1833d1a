//! A relay as an upstream: its own messages (docs/PROTOCOL.md, sections 14.3 and 18), said and heard as those of a router's agent.

use psmc_net::framing::{MessageReader, Pace, write_message};
use psmc_wire::relay::{Abilities, Hello, Message as ToRelay, Refused, VERSION};
use psmc_wire::shed::{Ask, ONLY_TELL};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, split};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{ConnectionError, GONE_AFTER};
use crate::message::{Message, Rules};
use crate::router::INTERVAL;
use crate::server::rules::Translator;

/// Carries messages both ways until the connection ends, and says why it did: as [`carry`](super::carry) does.
///
/// The hello and the first question are sent at once: a relay does not mind being asked before it has said that it serves the site.
pub(super) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    translator: &Translator,
    outgoing: &mut mpsc::Receiver<Message>,
    incoming: &mpsc::Sender<Message>,
) -> ConnectionError {
    let (from, mut to) = split(stream);
    let mut asker = Asker::default();
    let write = async {
        let hello = Hello { version: VERSION, name: name.to_owned(), grant: None };
        let mut next = Some(ToRelay::Hello(hello));
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(message) = next.take()
                && let Err(error) = write_message(&mut to, &message).await
            {
                return error.into();
            }
            tokio::select! {
                wanted = outgoing.recv() => match wanted {
                    None => return ConnectionError::Closed,
                    Some(Message::Rules(rules)) => next = Some(ToRelay::Shed(asker.ask(&rules, translator))),
                    // What only routers say is for nobody.
                    Some(
                        Message::Held { .. }
                        | Message::Taken { .. }
                        | Message::Declined { .. }
                        | Message::Report { .. }
                        | Message::Unknown,
                    ) => {}
                },
                _ = ticks.tick() => next = Some(ToRelay::Shed(asker.only_tell())),
            }
        }
    };
    tokio::select! {
        error = read(from, translator, incoming) => error,
        error = write => error,
    }
}

/// Numbers questions.
#[derive(Debug, Default)]
struct Asker {
    last: u32,
}

impl Asker {
    fn next(&mut self) -> u32 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.last
    }

    fn ask(&mut self, rules: &Rules, translator: &Translator) -> Ask {
        let (lifetime_ms, wanted) = translator.wanted(rules);
        Ask { request: self.next(), serial: rules.serial, lifetime_ms, rules: wanted }
    }

    fn only_tell(&mut self) -> Ask {
        Ask { request: self.next(), serial: ONLY_TELL, lifetime_ms: 0, rules: Vec::new() }
    }
}

async fn read<S: AsyncRead>(
    mut stream: ReadHalf<S>,
    translator: &Translator,
    incoming: &mpsc::Sender<Message>,
) -> ConnectionError {
    let mut reader = MessageReader::default();
    let mut pace = Pace::new();
    let mut is_met = false;
    loop {
        let next = tokio::select! {
            next = timeout(GONE_AFTER, reader.next(&mut stream)) => next,
            () = incoming.closed() => return ConnectionError::Closed,
        };
        let answer = match next {
            Err(_) => return ConnectionError::Silent,
            Ok(Err(error)) => return error.into(),
            Ok(Ok(ToRelay::Shedding(answer))) => answer,
            Ok(Ok(ToRelay::Welcome(welcome))) => match welcome.abilities {
                Abilities { sheds: true, .. } => continue,
                // It would not even refuse.
                Abilities { sheds: false, .. } => return ConnectionError::NotAble,
            },
            Ok(Ok(ToRelay::Refused(Refused { text, .. }))) => return ConnectionError::Refused(text),
            // Nothing else was asked for.
            Ok(Ok(_)) => continue,
        };
        for message in translator.heard(&answer, &mut is_met) {
            if incoming.send(message).await.is_err() {
                return ConnectionError::Closed;
            }
        }
        pace.wait().await;
    }
}
