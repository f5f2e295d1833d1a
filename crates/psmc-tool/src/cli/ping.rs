//! `psmc ping`: the round trip of each path to a peer, as the paths themselves measure it.

use std::num::NonZeroU32;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use psmc_api::{Client, ClientError, PathPing, PathState};
use psmc_service::daemon::{self, Signals, SystemError};
use serde::Serialize;

use super::args::{Pause, Target};
use super::units::duration_ms;
use super::{CliError, connect, output};
use psmcd::config::Name;

#[derive(Debug, Args)]
pub(super) struct PingArgs {
    /// The peer
    peer: Name,
    /// End after so many rounds
    #[arg(long, short, value_name = "N")]
    count: Option<NonZeroU32>,
    /// From one round to the next; the next one waits until all paths of this one have answered, or not answered in time
    #[arg(long, short, default_value = "1s", value_name = "TIME")]
    interval: Pause,
    /// How long to wait for an answer
    #[arg(long, default_value = "2s", value_name = "TIME")]
    timeout: Pause,
    /// Print only the summary, as JSON
    #[arg(long)]
    json: bool,
}

/// Why `psmc ping` has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PingError {
    #[error("there is no path to {0}; `psmc status` says why")]
    NoPaths(Name),
    #[error("no path to {0} has answered; `psmc status` says what is known of them")]
    NoAnswer(Name),
    #[error(transparent)]
    Signals(#[from] SystemError),
}

/// What the summary is made of.
enum Message {
    Round(Vec<PathPing>),
    Over(Result<(), ClientError>),
    /// By Ctrl-C, or because there is no listening for it.
    Interrupted(Result<(), SystemError>),
}

pub(super) fn run(args: &PingArgs, target: &Target) -> Result<(), CliError> {
    let client = connect(target)?;
    let (speaker, messages) = mpsc::channel();
    let (asker, interrupter) = (speaker.clone(), speaker);
    let (peer, count) = (args.peer.clone(), args.count.map(NonZeroU32::get));
    let times = (args.interval.0, args.timeout.0);
    thread::spawn(move || drop(interrupter.send(Message::Interrupted(wait_for_interrupt()))));
    thread::spawn(move || drop(asker.send(Message::Over(ask(client, &peer, count, times, &asker)))));
    let mut tally = Tally { peer: args.peer.to_string(), rounds: 0, paths: Vec::new() };
    // Both threads say something before they end.
    while let Ok(message) = messages.recv() {
        match message {
            Message::Round(paths) if paths.is_empty() => {
                return Err(PingError::NoPaths(args.peer.clone()).into());
            }
            Message::Round(paths) => {
                let text = tally.take(&paths, args.timeout.0);
                if !args.json {
                    output::print(&text)?;
                }
            }
            Message::Over(outcome) => {
                outcome?;
                break;
            }
            Message::Interrupted(outcome) => {
                outcome.map_err(PingError::from)?;
                break;
            }
        }
    }
    output::print(&if args.json { output::json(&tally.summary())? } else { tally.text() })?;
    let is_answered = tally.paths.iter().any(|path| !path.rtts_ms.is_empty());
    if is_answered { Ok(()) } else { Err(PingError::NoAnswer(args.peer.clone()).into()) }
}

/// Returns when somebody wants this to end.
fn wait_for_interrupt() -> Result<(), SystemError> {
    daemon::run(async {
        Signals::listen()?.next().await;
        Ok(())
    })
}

/// Asks for one round after the other, until there are enough or nobody wants to know any more.
fn ask(
    mut client: Client,
    peer: &Name,
    count: Option<u32>,
    (interval, timeout): (Duration, Duration),
    speaker: &Sender<Message>,
) -> Result<(), ClientError> {
    let mut done = 0;
    loop {
        let next = Instant::now() + interval;
        let paths = client.ping(peer.as_str(), timeout)?;
        done += 1;
        if speaker.send(Message::Round(paths)).is_err() || count == Some(done) {
            return Ok(());
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// What has come back so far.
struct Tally {
    peer: String,
    rounds: u32,
    paths: Vec<PathTally>,
}

struct PathTally {
    name: String,
    state: PathState,
    sent: u32,
    rtts_ms: Vec<f64>,
}

/// What is known at the end.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    peer: &'a str,
    rounds: u32,
    paths: Vec<PathSummary<'a>>,
}

/// The same of one path. `rtt_mdev_ms` is the standard deviation of the round trips, as iputils' `ping` prints it.
#[derive(Debug, PartialEq, Serialize)]
struct PathSummary<'a> {
    path: &'a str,
    state: PathState,
    sent: u32,
    received: usize,
    loss_pct: f64,
    rtt_min_ms: Option<f64>,
    rtt_mean_ms: Option<f64>,
    rtt_max_ms: Option<f64>,
    rtt_mdev_ms: Option<f64>,
}

impl Tally {
    /// Takes what a round has brought; returns it in words.
    fn take(&mut self, round: &[PathPing], timeout: Duration) -> String {
        self.rounds += 1;
        let rounds = self.rounds;
        let line = |ping: &PathPing| {
            self.path(ping).take(ping);
            let what = match (ping.rtt_ms, ping.sent) {
                (Some(rtt_ms), _) => format!("time={}", duration_ms(rtt_ms)),
                (None, true) => format!("no answer within {} ms ({})", timeout.as_millis(), ping.state),
                (None, false) => format!("not sent ({})", ping.state),
            };
            format!("{}: round={rounds} {what}\n", ping.path)
        };
        round.iter().map(line).collect()
    }

    fn path(&mut self, ping: &PathPing) -> &mut PathTally {
        let at = self.paths.iter().position(|path| path.name == ping.path).unwrap_or_else(|| {
            let (name, state) = (ping.path.clone(), ping.state);
            self.paths.push(PathTally { name, state, sent: 0, rtts_ms: Vec::new() });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }

    fn summary(&self) -> Summary<'_> {
        let paths = self.paths.iter().map(PathTally::summary).collect();
        Summary { peer: &self.peer, rounds: self.rounds, paths }
    }

    fn text(&self) -> String {
        let mut table = Table::new();
        let rows = self.paths.iter().map(|path| path.summary().row());
        table.load_style(NOTHING).set_header(HEADER).add_rows(rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((2, 0));
            if index >= 2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("\n{}, rounds: {}\n{}\n", self.peer, self.rounds, table.trim_fmt())
    }
}

impl PathTally {
    fn take(&mut self, ping: &PathPing) {
        self.state = ping.state;
        self.sent += u32::from(ping.sent);
        self.rtts_ms.extend(ping.rtt_ms);
    }

    fn summary(&self) -> PathSummary<'_> {
        let (rtts, count) = (&self.rtts_ms, self.rtts_ms.len() as f64);
        let mean = (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / count);
        let deviation = |mean: f64| (rtts.iter().map(|rtt| (rtt - mean).powi(2)).sum::<f64>() / count).sqrt();
        let lost = f64::from(self.sent) - count;
        PathSummary {
            path: &self.name,
            state: self.state,
            sent: self.sent,
            received: rtts.len(),
            loss_pct: 100.0 * lost / f64::from(self.sent.max(1)),
            rtt_min_ms: rtts.iter().copied().min_by(f64::total_cmp),
            rtt_mean_ms: mean,
            rtt_max_ms: rtts.iter().copied().max_by(f64::total_cmp),
            rtt_mdev_ms: mean.map(deviation),
        }
    }
}

impl PathSummary<'_> {
    fn row(&self) -> [String; HEADER.len()] {
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), duration_ms);
        [
            self.path.to_owned(),
            self.state.to_string(),
            self.sent.to_string(),
            self.received.to_string(),
            format!("{:.1} %", self.loss_pct),
            time(self.rtt_min_ms),
            time(self.rtt_mean_ms),
            time(self.rtt_max_ms),
            time(self.rtt_mdev_ms),
        ]
    }
}

const HEADER: [&str; 9] = ["PATH", "STATE", "SENT", "RECEIVED", "LOSS", "MIN", "MEAN", "MAX", "MDEV"];

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(path: &str, sent: bool, rtt_ms: Option<f64>) -> PathPing {
        PathPing { path: path.to_owned(), id: 1, state: PathState::Active, sent, rtt_ms }
    }

    #[test]
    fn the_summary_is_that_of_what_was_sent() {
        let mut tally = Tally { peer: "hq".to_owned(), rounds: 0, paths: Vec::new() };
        let timeout = Duration::from_secs(2);
        let text = tally.take(&[ping("dsl", true, Some(20.0)), ping("lte", true, None)], timeout);
        assert_eq!(text, "dsl: round=1 time=20.0 ms\nlte: round=1 no answer within 2000 ms (active)\n");
        tally.take(&[ping("dsl", true, Some(30.0)), ping("lte", true, Some(70.0))], timeout);
        let text = tally.take(&[ping("dsl", true, Some(40.0)), ping("lte", false, None)], timeout);
        assert!(text.ends_with("lte: round=3 not sent (active)\n"), "{text}");
        let [dsl, lte] = [0, 1].map(|index| tally.paths[index].summary());
        assert_eq!((dsl.sent, dsl.received, dsl.loss_pct), (3, 3, 0.0));
        assert_eq!([dsl.rtt_min_ms, dsl.rtt_mean_ms, dsl.rtt_max_ms], [20.0, 30.0, 40.0].map(Some));
        assert!((dsl.rtt_mdev_ms.unwrap() - (200.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!((lte.sent, lte.received, lte.loss_pct), (2, 1, 50.0));
        assert_eq!(lte.rtt_mdev_ms, Some(0.0));
        let nothing =
            PathTally { name: "sat".to_owned(), state: PathState::Dead, sent: 0, rtts_ms: Vec::new() };
        assert_eq!((nothing.summary().loss_pct, nothing.summary().rtt_mean_ms), (0.0, None));
    }
}
