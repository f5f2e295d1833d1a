//! Any network, not some that were chosen: one flow over networks drawn by chance, or recorded, beside what it gets without a tunnel.
//!
//! | module | what it has |
//! |---|---|
//! | `network`, `wider` | networks drawn by chance, as Python draws it, for the networks of a seed are public |
//! | `drive` | networks whose rates were recorded |
//! | `case` | the scenarios of a network, and what is read of their results |
//! | `record` | the figures of all networks, as a file keeps them |
//! | `report` | what people get to see of them |

mod case;
mod drive;
mod network;
mod record;
mod report;
mod wider;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use clap::ValueEnum;

use crate::bench::{Bench, BenchArgs, Runner, Simulation, say};
use crate::error_chain;
use case::{Case, Traffic, Trial, Way};
use network::Network;
use record::Entry;

pub(crate) use drive::Drive;
pub(crate) use record::Record;
pub(crate) use report::Report;

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) flow: Flow,
    /// How long the flow lasts.
    pub(crate) seconds: u32,
}

/// Where networks come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// They are drawn by chance, one for each seed.
    Drawn { seeds: Vec<u32>, wider: bool },
    /// They were recorded.
    Driven { drive: Drive, windows: Vec<u32> },
}

/// What flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// As much as one connection of TCP carries.
    Tcp(Inner),
    /// The same, of a connection that the sites end.
    Split(Inner),
    /// UDP as fast as all links together.
    Flood,
}

/// The congestion control of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inner {
    /// CUBIC
    Cubic,
    /// Reno
    Reno,
    /// BBR
    Bbr,
}

impl Plan {
    /// How many scenarios it has.
    pub(crate) fn scenarios(&self) -> usize {
        let each = match (&self.source, self.flow) {
            (_, Flow::Flood) => 1,
            (Source::Drawn { .. }, _) => 2,
            (Source::Driven { drive, .. }, _) => 2 + drive.links.len(),
        };
        // A connection that is ended has a flood beside it.
        let each = each + usize::from(self.flow.is_split());
        each * self.numbers().len()
    }

    /// The seeds or windows.
    pub(crate) fn numbers(&self) -> &[u32] {
        match &self.source {
            Source::Drawn { seeds, .. } => seeds,
            Source::Driven { windows, .. } => windows,
        }
    }

    /// Runs one scenario after the other.
    pub(crate) fn run(&self, bench: &mut Bench, args: &BenchArgs) -> Record {
        let networks =
            self.numbers().iter().filter_map(|&number| self.measure(number, bench, args.directory()));
        self.record(networks.collect(), true)
    }

    /// Simulates as many scenarios at once as there are processors.
    pub(crate) fn simulate(&self, args: &BenchArgs) -> Record {
        let (done, all) = (AtomicUsize::new(0), self.numbers().len());
        let networks = map(self.numbers(), |&number| {
            let entry = self.measure(number, &mut Simulation::new(args), args.directory());
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            if done.is_multiple_of(all.div_ceil(NOTES)) {
                say(&format!("{done} of {all} networks simulated"));
            }
            entry
        });
        self.record(networks.into_iter().flatten().collect(), false)
    }

    /// A record of these runs.
    pub(crate) fn record(&self, networks: Vec<Entry>, real: bool) -> Record {
        let source = match &self.source {
            Source::Drawn { wider: false, .. } => "random networks".to_owned(),
            Source::Drawn { wider: true, .. } => "random networks, wider".to_owned(),
            Source::Driven { drive, .. } => {
                format!("windows of {} over {}", drive.name, drive.links.join(", "))
            }
        };
        Record {
            source,
            flow: self.flow.name().to_owned(),
            split: self.flow.is_split(),
            seconds: self.seconds,
            real,
            networks,
        }
    }

    fn measure(&self, number: u32, runner: &mut dyn Runner, keep: Option<&Path>) -> Option<Entry> {
        let case = self.case(number, keep).inspect_err(|error| {
            say(&format!("window {number}: cannot write its traces: {}", error_chain(error)));
        });
        case.ok()?.measure(self.flow, runner)
    }

    fn case(&self, number: u32, keep: Option<&Path>) -> io::Result<Case> {
        match &self.source {
            Source::Drawn { wider: false, .. } => Ok(self.drawn(number, &Network::draw(number))),
            Source::Drawn { wider: true, .. } => Ok(self.drawn(number, &Network::draw_wider(number))),
            Source::Driven { drive, .. } => drive.case(number, self.flow, self.seconds, keep),
        }
    }

    fn drawn(&self, seed: u32, network: &Network) -> Case {
        let traffic = Traffic { flow: self.flow, seconds: self.seconds, flood_mbps: network.rate_mbps() };
        let trial = |way, network: &Network, what: &str| {
            let name = format!("random-{seed}");
            let scenario = case::scenario(&name, seed, &network.sections(self.seconds), way, traffic);
            Trial { way, name: format!("{name}-{what}"), scenario }
        };
        let mut trials = vec![trial(Way::Tunnel, network, "tunnel")];
        if self.flow != Flow::Flood {
            trials.push(trial(Way::Alone, &network.best_alone(self.seconds), "alone"));
        }
        if self.flow.is_split() {
            trials.push(trial(Way::Flood, network, "flood"));
        }
        Case {
            number: seed,
            spec: network.to_string(),
            sum_mbps: network.sum_mbps(self.seconds),
            nearest_ms: network.nearest_ms(),
            trials,
            _traces: None,
        }
    }
}

/// How often it is said how far a simulation is.
const NOTES: usize = 10;

/// What comes of each item, in their order. Whoever is free takes the next one.
fn map<Item: Sync, Outcome: Send>(items: &[Item], act: impl Fn(&Item) -> Outcome + Sync) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((number, item)) = take(items, &next) {
            done.push((number, act(item)));
        }
        done
    };
    let mut outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors().min(items.len())).map(|_| scope.spawn(work)).collect();
        let outcomes =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes.flatten().collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'a, Item>(items: &'a [Item], next: &AtomicUsize) -> Option<(usize, &'a Item)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    items.get(number).map(|item| (number, item))
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
