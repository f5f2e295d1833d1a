//! UDP, from the client to the server.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines};
use std::net::{IpAddr, SocketAddr};
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;

use super::FIXED_RATE;
use crate::hosts::Hosts;
use crate::kit::programs::Program;
use crate::load::{LISTENING, Load};

/// The port on which the sink listens.
const PORT: u16 = 5201;

/// The first rate that is offered when the largest without loss is looked for, datagrams per second: slower than any tunnel.
const FIRST_RATE: f64 = 4000.0;

/// Doublings of that lead beyond what any machine offers.
const DOUBLINGS: usize = 12;

/// So often the distance between what holds and what does not is halved, to less than a twentieth.
const HALVINGS: usize = 4;

/// How long each rate is offered.
const STEP_SECONDS: f64 = 1.0;

/// The share of datagrams whose loss counts as none.
const NO_LOSS: f64 = 0.001;

/// A rate fails if it fails so often: any machine has a bad moment.
const ATTEMPTS: usize = 2;

/// Such a load through a tunnel.
pub(super) struct Udp<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) server: IpAddr,
    pub(super) load: Load,
}

/// What became of what was offered.
pub(super) struct Outcome {
    /// Datagrams per second that arrived, over the time in which they were sent or in which they arrived, the longer one.
    pub(super) arrived: f64,
    /// The share of datagrams that was lost.
    lost: f64,
}

impl Udp<'_> {
    /// Offers so many datagrams per second, or as many as can be.
    pub(super) fn offer(&self, rate: Option<f64>, seconds: f64) -> Result<Outcome, Box<dyn Error>> {
        let address = SocketAddr::new(self.server, PORT);
        let mut sink = Sink::start(self.hosts, self.part("udp-sink", address, seconds)?)?;
        let mut source = self.part("udp-source", address, seconds)?;
        source.args(rate.map(|rate| format!("--rate={rate}")));
        let sent = Count::of(&self.hosts.client.output(&mut source)?)?;
        let arrived = Count::of(&sink.line()?)?;
        Ok(Outcome {
            arrived: arrived.datagrams / arrived.seconds.max(sent.seconds),
            lost: 1.0 - arrived.datagrams / sent.datagrams,
        })
    }

    /// Gigabits of payload per second that arrive of [`FIXED_RATE`].
    pub(super) fn of_fixed_rate(&self, seconds: u32) -> Result<f64, Box<dyn Error>> {
        let rate = FIXED_RATE as f64 / self.bits();
        Ok(self.offer(Some(rate), seconds.into())?.arrived * self.bits() / 1e9)
    }

    /// The largest rate at which nothing is lost, in gigabits of payload per second.
    pub(super) fn lossless_gigabits(&self) -> Result<f64, Box<dyn Error>> {
        Ok(self.lossless()? * self.bits() / 1e9)
    }

    /// Of payload, in each datagram.
    fn bits(&self) -> f64 {
        8.0 * self.load.payload as f64
    }

    /// The largest rate at which nothing is lost, datagrams per second: as found by doubling, then by halving the distance.
    pub(super) fn lossless(&self) -> Result<f64, Box<dyn Error>> {
        let (mut held, mut best) = (FIRST_RATE / 2.0, 0.0);
        for _ in 0..DOUBLINGS {
            let Some(arrived) = self.beyond(best, 2.0 * held)? else { break };
            (held, best) = (2.0 * held, arrived);
        }
        let mut failed = 2.0 * held;
        for _ in 0..HALVINGS {
            let middle = (held * failed).sqrt();
            match self.beyond(best, middle)? {
                Some(arrived) => (held, best) = (middle, arrived),
                None => failed = middle,
            }
        }
        Ok(best)
    }

    /// What arrives of that rate, if nothing of it is lost, and it is more than `best`: from a source that can't keep up
    /// nothing is lost either.
    fn beyond(&self, best: f64, rate: f64) -> Result<Option<f64>, Box<dyn Error>> {
        for _ in 0..ATTEMPTS {
            let Outcome { arrived, lost } = self.offer(Some(rate), STEP_SECONDS)?;
            if lost <= NO_LOSS && arrived > best {
                return Ok(Some(arrived));
            }
        }
        Ok(None)
    }

    /// This program as one of the measuring programs.
    fn part(&self, name: &str, address: SocketAddr, seconds: f64) -> Result<Command, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name).arg(address.to_string()).args(self.load.arguments());
        command.args(["--seconds", &seconds.to_string()]);
        Ok(command)
    }
}

/// What one of the programs has counted.
struct Count {
    datagrams: f64,
    seconds: f64,
}

impl Count {
    fn of(text: &str) -> Result<Self, Box<dyn Error>> {
        let json: Value = serde_json::from_str(text)?;
        let number = |name: &str| json[name].as_f64().ok_or_else(|| format!("no {name} in {text}"));
        Ok(Self { datagrams: number("datagrams")?, seconds: number("seconds")? })
    }
}

/// A running sink.
struct Sink {
    lines: Lines<BufReader<ChildStdout>>,
    _program: Program,
}

impl Sink {
    /// Starts one, and waits until it listens.
    fn start(hosts: &Hosts, mut command: Command) -> Result<Self, Box<dyn Error>> {
        let mut program = hosts.server.start(command.stdout(Stdio::piped()))?;
        let stdout = program.0.stdout.take().ok_or("the sink has no standard output")?;
        let mut sink = Self { lines: BufReader::new(stdout).lines(), _program: program };
        let said = sink.line()?;
        if said != LISTENING { Err(format!("the sink says {said:?}").into()) } else { Ok(sink) }
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.lines.next().ok_or("the sink has ended")??)
    }
}
