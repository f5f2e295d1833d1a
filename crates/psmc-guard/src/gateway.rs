//! The psmcd beside the guard: what it is told and what it tells, and the thread that moves it and looks how it fares.

mod paths;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use psmc_api::{Client, ClientError, RegistrationStatus};

use crate::config::Line;
use crate::defence::Defence;
use crate::detect::Sample;
use crate::duty::{Standing, Wanted};
use paths::{Moved, Silence, Traffic};
use steps::{Applied, Step, spec, steps};

/// What psmcd says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// How registrations fare, by the public keys of their relays.
    pub standing: BTreeMap<String, Standing>,
    /// The share of datagrams lost on direct paths; `None` if too few were sent to tell.
    pub direct_loss: Option<f64>,
    /// What arrives through relays.
    pub through_relays: Sample,
    /// Why psmcd cannot be asked, or does not do what it is told.
    pub trouble: Option<String>,
}

/// How often registrations are looked at while one is under way.
const SOON: Duration = Duration::from_millis(20);

/// How often they are looked at otherwise, where there are any.
const OFTEN: Duration = Duration::from_millis(100);

/// How often all of psmcd's status is looked at, and what was refused is asked for again.
const LOOK: Duration = Duration::from_millis(500);

/// Looks that wait to be seen.
const QUEUE: usize = 16;

/// Brings psmcd, and the filter of the hidden lines, into the wanted state. When it is dropped, psmcd stays as it is, and the
/// filter goes.
#[derive(Debug)]
pub struct Hand {
    orders: Option<mpsc::Sender<Wanted>>,
    seen: tokio::sync::mpsc::Receiver<Seen>,
    thread: Option<JoinHandle<Option<Defence>>>,
}

impl Hand {
    /// Starts it, for the psmcd whose control socket is at `socket`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        socket: Option<PathBuf>,
        lines: Vec<Line>,
        defence: Option<Defence>,
        wanted: Wanted,
    ) -> io::Result<Self> {
        let (orders, to_do) = mpsc::channel();
        let (looks, seen) = tokio::sync::mpsc::channel(QUEUE);
        let worker = Worker { gateway: socket.map(Gateway::new), lines, defence, wanted, looks };
        let thread = thread::Builder::new().name("hand".to_owned()).spawn(move || worker.run(&to_do))?;
        Ok(Self { orders: Some(orders), seen, thread: Some(thread) })
    }

    /// Says what is wanted from here on.
    pub fn order(&self, wanted: Wanted) {
        if let Some(orders) = &self.orders {
            // The thread ends only with this.
            let _ = orders.send(wanted);
        }
    }

    /// Ends it; the filter stays, for whoever comes next.
    #[must_use]
    pub fn hand_over(mut self) -> Option<Defence> {
        self.orders = None;
        self.thread.take()?.join().ok()?
    }

    /// What psmcd says next. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Seen> {
        self.seen.recv().await
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}

struct Worker {
    gateway: Option<Gateway>,
    lines: Vec<Line>,
    defence: Option<Defence>,
    wanted: Wanted,
    looks: tokio::sync::mpsc::Sender<Seen>,
}

impl Worker {
    fn run(mut self, orders: &mpsc::Receiver<Wanted>) -> Option<Defence> {
        let mut pause = Duration::ZERO;
        loop {
            match orders.recv_timeout(pause) {
                Ok(first) => self.take(orders.try_iter().last().unwrap_or(first)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.defence,
            }
            let trouble = self.defend();
            let mut seen = match &mut self.gateway {
                Some(gateway) => gateway.tend(&self.wanted, &self.lines),
                None => Seen::default(),
            };
            seen.trouble = trouble.or(seen.trouble);
            pause = self.pause(&seen);
            // Whoever does not look now sees the next one.
            let _ = self.looks.try_send(seen);
        }
    }

    /// What was refused before may be right by now.
    fn take(&mut self, wanted: Wanted) {
        self.wanted = wanted;
        if let Some(gateway) = &mut self.gateway {
            gateway.refused = None;
        }
    }

    /// Relays must be let in before they are asked to lead anybody here.
    fn defend(&mut self) -> Option<String> {
        let relays = self.wanted.registrations.iter().map(|registration| registration.relay.address.ip());
        let error = self.defence.as_mut()?.admit(relays.collect()).err()?;
        Some(crate::error_chain(&error))
    }

    fn pause(&self, seen: &Seen) -> Duration {
        let is_there = |key: &String| seen.standing.get(key).is_some_and(|standing| standing.is_registered);
        let mut registrations = self.wanted.registrations.iter();
        let is_deaf = seen.trouble.is_some() && seen.standing.is_empty();
        if self.wanted.registrations.is_empty() || self.gateway.is_none() || is_deaf {
            LOOK
        } else if registrations.all(|registration| is_there(&registration.relay.public_key)) {
            OFTEN
        } else {
            SOON
        }
    }
}

/// A psmcd.
struct Gateway {
    socket: PathBuf,
    client: Option<Client>,
    applied: Applied,
    uptime_s: f64,
    traffic: Traffic,
    moved: Moved,
    silence: Silence,
    /// The keys of relays that answer, and through which nothing comes.
    silent: BTreeSet<String>,
    looked: Instant,
    /// What it refused, and when.
    refused: Option<(String, Instant)>,
    logged: Option<String>,
}

impl Gateway {
    fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            client: None,
            applied: Applied::default(),
            uptime_s: 0.0,
            traffic: Traffic::default(),
            moved: Moved::default(),
            silence: Silence::default(),
            silent: BTreeSet::new(),
            looked: Instant::now(),
            refused: None,
            logged: None,
        }
    }

    /// Does what is missing, and looks.
    fn tend(&mut self, wanted: &Wanted, lines: &[Line]) -> Seen {
        let outcome = self.work(wanted, lines);
        let (standing, trouble) = match outcome {
            Ok(standing) => (standing, self.refused.as_ref().map(|(why, _)| why.clone())),
            Err(error) => {
                self.client = None;
                (BTreeMap::new(), Some(crate::error_chain(&error)))
            }
        };
        self.log(trouble.as_ref());
        let Moved { direct_loss, through_relays } = self.moved.clone();
        Seen { standing, direct_loss, through_relays, trouble }
    }

    fn work(&mut self, wanted: &Wanted, lines: &[Line]) -> Result<BTreeMap<String, Standing>, ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.meet(wanted)?,
        };
        if self.looked.elapsed() >= LOOK {
            self.look(&mut client, wanted)?;
        }
        self.carry_out(&mut client, wanted, lines)?;
        let standing = if wanted.registrations.is_empty() { Vec::new() } else { client.registrations()? };
        self.client = Some(client);
        Ok(by_key(&standing, &self.silent, wanted))
    }

    /// Meets a psmcd that knows nothing of what is wanted, or knows it from before.
    fn meet(&mut self, wanted: &Wanted) -> Result<Client, ClientError> {
        let mut client = Client::connect(&self.socket)?;
        let status = client.status()?;
        self.applied = Applied::found(&status, wanted);
        self.uptime_s = status.site.uptime_s;
        self.refused = None;
        Ok(client)
    }

    fn look(&mut self, client: &mut Client, wanted: &Wanted) -> Result<(), ClientError> {
        let status = client.status()?;
        if status.site.uptime_s < self.uptime_s {
            self.applied = Applied::found(&status, wanted);
        }
        self.uptime_s = status.site.uptime_s;
        self.moved = self.traffic.look(&status, self.looked.elapsed());
        self.silent = self.silence.look(&status);
        self.looked = Instant::now();
        Ok(())
    }

    /// What is refused once is asked for again after a while, and keeps nothing else from being done.
    fn carry_out(&mut self, client: &mut Client, wanted: &Wanted, lines: &[Line]) -> Result<(), ClientError> {
        let todo = steps(&self.applied, wanted);
        if todo.is_empty() {
            self.refused = None;
        }
        if self.refused.as_ref().is_some_and(|(_, when)| when.elapsed() < LOOK) {
            return Ok(());
        }
        self.refused = None;
        for step in todo {
            match order(client, &step, lines) {
                Ok(()) => self.applied.done(step),
                Err(ClientError::Refused(why)) => self.refused = Some((why, Instant::now())),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Trouble is told once, however long it lasts.
    fn log(&mut self, trouble: Option<&String>) {
        match (&self.logged, trouble) {
            (None, Some(error)) => tracing::warn!(%error, "cannot configure psmcd"),
            (Some(_), None) => tracing::info!("psmcd configured"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.logged = trouble.cloned();
    }
}

fn order(client: &mut Client, step: &Step, lines: &[Line]) -> Result<(), ClientError> {
    match step {
        Step::Register(registrations) => {
            let relays: Vec<_> = registrations.iter().map(|registration| spec(registration, lines)).collect();
            let grants = registrations.iter().filter_map(|registration| registration.relay.grant.clone());
            client.set_registrations(&relays, &grants.collect::<Vec<_>>())
        }
        Step::Remove(name) => client.remove_peer(name),
        Step::Add(peer) => client.add_peer(&peer.name, &peer.public_key, &peer.allowed_ips, None),
    }
}

/// How it stands with the relays that are wanted, whatever psmcd calls them.
fn by_key(
    standing: &[RegistrationStatus],
    silent: &BTreeSet<String>,
    wanted: &Wanted,
) -> BTreeMap<String, Standing> {
    let keys = wanted.registrations.iter().map(|registration| &registration.relay.public_key);
    let found = keys.filter_map(|key| standing.iter().find(|standing| standing.public_key == *key));
    let standing = |found: &RegistrationStatus| Standing {
        is_registered: found.registered,
        is_silent: silent.contains(&found.public_key),
        error: found.error.clone(),
    };
    found.map(|found| (found.public_key.clone(), standing(found))).collect()
}
