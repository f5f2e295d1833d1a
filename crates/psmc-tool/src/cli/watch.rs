//! `psmc watch`: what a running daemon does, as it happens.
//!
//! One thread asks the daemon, one waits for keys, one for signals; the fourth has the [`Model`], and draws it whenever one of them has said something.

mod keys;
mod model;
#[cfg(test)]
pub(super) mod testing;
mod view;

use std::io::{self, IsTerminal};
use std::panic;
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Zoned;
use psmc_api::{Client, ClientError, Request, Status};
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::args::{Life, Target};
use super::{CliError, connect};
use model::{Model, Wish};

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// How often to ask the daemon
    #[arg(long, default_value = "1s", value_name = "TIME")]
    interval: Life,
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error("psmc watch needs a terminal; `psmc status` prints once")]
    NoTerminal,
    #[error("the terminal has failed: {0}")]
    Terminal(#[from] io::Error),
}

/// What the model is told.
enum Message {
    Answer(Box<Status>),
    Away(ClientError),
    Refused(ClientError),
    Key(KeyEvent),
    Resized,
    NoKeys(io::Error),
    Signal(i32),
}

/// The signals that end a program and let it tidy up: from the keyboard of another terminal, from `kill`, and from a terminal that is
/// gone.
const ENDING: [i32; 4] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// Why nothing is watched any more.
enum End {
    /// The user has seen enough.
    Quit,
    /// A signal has come.
    Signal(i32),
}

pub(super) fn run(args: &WatchArgs, target: Target) -> Result<(), CliError> {
    if !io::stdout().is_terminal() {
        return Err(WatchError::NoTerminal.into());
    }
    let Life(interval) = args.interval;
    let client = connect(&target)?;
    // From here on no signal ends the program before the terminal is restored.
    let signals = Signals::new(ENDING).map_err(WatchError::from)?;
    let mut terminal = ratatui::try_init().map_err(WatchError::from)?;
    end_on_panic();
    let outcome = watch(&mut terminal, Daemon { target, client: Some(client) }, signals, interval);
    let restored = ratatui::try_restore();
    // It shows the cursor again.
    drop(terminal);
    match outcome? {
        End::Quit => Ok(restored.map_err(WatchError::from)?),
        // Whoever waits for this program sees what ended it. The terminal may be gone.
        End::Signal(signal) => Ok(emulate_default_handler(signal).map_err(WatchError::from)?),
    }
}

/// A panic of any thread ends the program, as soon as the terminal is restored: the others would wait for that thread.
fn end_on_panic() {
    let restore_and_report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore_and_report(panic);
        // Nothing can be done about a terminal that is gone.
        drop(execute!(io::stdout(), Show));
        process::exit(PANICKED);
    }));
}

/// With what Rust's programs end that panic.
const PANICKED: i32 = 101;

fn watch(
    terminal: &mut DefaultTerminal,
    daemon: Daemon,
    signals: Signals,
    interval: Duration,
) -> Result<End, WatchError> {
    let (speaker, messages) = mpsc::channel();
    let (orders, ordered) = mpsc::channel();
    let (keys, listener) = (speaker.clone(), speaker.clone());
    thread::spawn(move || daemon.ask_forever(interval, &ordered, &speaker));
    thread::spawn(move || read_keys(&keys));
    thread::spawn(move || await_signals(signals, &listener));
    let mut model = Model::new(interval);
    loop {
        terminal.draw(|frame| view::draw(&model, frame))?;
        // It fails when all threads have ended, which they do only with this one.
        let Ok(message) = messages.recv() else { return Ok(End::Quit) };
        match message {
            Message::Answer(status) => model.answered(*status, Instant::now(), Zoned::now().time()),
            Message::Away(error) => model.away(error.to_string(), Zoned::now().time()),
            Message::Refused(error) => model.refused(error.to_string()),
            Message::Resized => {}
            Message::NoKeys(error) => return Err(error.into()),
            Message::Signal(signal) => return Ok(End::Signal(signal)),
            Message::Key(key) => match model.press(key.into()) {
                Some(Wish::Quit) => return Ok(End::Quit),
                // A thread that has ended by a panic has ended the program.
                Some(Wish::Ask(request)) => drop(orders.send(*request)),
                None => {}
            },
        }
    }
}

/// Reads keys until nobody wants them any more.
fn read_keys(speaker: &Sender<Message>) {
    loop {
        let message = match event::read() {
            Ok(Event::Key(key)) if key.is_press() => Message::Key(key),
            Ok(Event::Resize(..)) => Message::Resized,
            Ok(_) => continue,
            Err(error) => Message::NoKeys(error),
        };
        let failed = matches!(message, Message::NoKeys(_));
        if speaker.send(message).is_err() || failed {
            return;
        }
    }
}

/// Hands on the first signal. The second one ends the program at once: the terminal takes nothing any more.
fn await_signals(mut signals: Signals, speaker: &Sender<Message>) {
    let mut signals = signals.forever();
    let Some(first) = signals.next() else { return };
    if speaker.send(Message::Signal(first)).is_ok()
        && let Some(second) = signals.next()
    {
        // It fails for signals only that end nothing.
        drop(emulate_default_handler(second));
    }
}

/// The daemon that is watched. A connection that has failed is made anew for the next request.
struct Daemon {
    target: Target,
    client: Option<Client>,
}

impl Daemon {
    /// Asks for the status once in `interval`, and for what is ordered at once, until nobody wants to know any more.
    fn ask_forever(mut self, interval: Duration, ordered: &Receiver<Request>, speaker: &Sender<Message>) {
        loop {
            let due = Instant::now() + interval;
            let message = match self.ask(Client::status) {
                Ok(status) => Message::Answer(Box::new(status)),
                Err(error) => Message::Away(error),
            };
            if speaker.send(message).is_err() || !self.obey_until(due, ordered, speaker) {
                return;
            }
        }
    }

    /// Returns whether there will be more orders.
    fn obey_until(&mut self, due: Instant, ordered: &Receiver<Request>, speaker: &Sender<Message>) -> bool {
        loop {
            let request = match ordered.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            };
            if let Err(error) = self.ask(|client| client.order(&request))
                && speaker.send(Message::Refused(error)).is_err()
            {
                return false;
            }
        }
    }

    fn ask<T>(&mut self, ask: impl Fn(&mut Client) -> Result<T, ClientError>) -> Result<T, ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => connect(&self.target)?,
        };
        let answer = ask(&mut client);
        if matches!(answer, Ok(_) | Err(ClientError::Refused(_))) {
            self.client = Some(client);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use psmc_api::{Response, Server};
    use tokio::task::spawn_blocking;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn the_daemon_is_asked_once_in_an_interval_whatever_is_ordered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("van.sock");
        let mut server = Server::bind(&path).unwrap();
        let (speaker, messages) = mpsc::channel();
        let (orders, ordered) = mpsc::channel();
        let daemon = Daemon { target: Target { socket: Some(path), site: None }, client: None };
        let asking = spawn_blocking(move || daemon.ask_forever(INTERVAL, &ordered, &speaker));

        let mut asked = Vec::new();
        while asked.len() < 5 {
            let call = server.next_call().await.unwrap();
            if *call.request() == Request::Status {
                asked.push(Instant::now());
                call.respond(Response::Status(Box::new(testing::status(Vec::new()))));
                if asked.len() < 5 {
                    orders.send(Request::PeerRemove { name: "hq".to_owned() }).unwrap();
                    orders.send(Request::PeerRemove { name: "depot".to_owned() }).unwrap();
                }
            } else {
                call.respond(Response::error("not this one"));
            }
        }
        // The first of them may have come late.
        assert!(asked[4] - asked[0] > INTERVAL * 3, "{asked:?}");

        drop(orders);
        asking.await.unwrap();
        let (answers, refusals): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| matches!(message, Message::Answer(_)));
        assert_eq!((answers.len(), refusals.len()), (5, 8));
        assert!(refusals.iter().all(|message| matches!(message, Message::Refused(ClientError::Refused(_)))));
    }
}
