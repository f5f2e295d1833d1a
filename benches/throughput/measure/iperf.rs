//! iperf3.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::hosts::Hosts;
use crate::kit::programs::Program;

/// The first rate that is offered when the largest without loss is looked for, bits per second.
const FIRST_RATE: f64 = 100e6;

/// By how much each rate exceeds the one before.
const STEP: f64 = 1.25;

/// More steps lead beyond what any machine offers.
const MAX_STEPS: usize = 24;

/// The share of datagrams that counts as none.
const NO_LOSS: f64 = 0.001;

/// From the client to the server, for so many seconds.
pub(super) struct Iperf<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) server: IpAddr,
    pub(super) seconds: u32,
}

/// What has arrived.
pub(super) struct Received {
    /// Of payload.
    pub(super) bytes: f64,
    /// Bits of payload per second.
    pub(super) rate: f64,
    /// Datagrams; zero for TCP.
    pub(super) datagrams: f64,
    /// The share of datagrams that was lost.
    lost: f64,
}

impl Iperf<'_> {
    /// TCP flows (CUBIC), each as fast as it can or at `rate`.
    pub(super) fn tcp(&self, flows: u32, rate: Option<u64>) -> Result<Received, Box<dyn Error>> {
        let mut command = self.client(self.seconds);
        command.args(["--congestion", "cubic", "--parallel", &flows.to_string()]);
        if let Some(rate) = rate {
            command.args(["--bitrate", &rate.to_string()]);
        }
        self.run(&mut command)
    }

    /// Datagrams with `payload` bytes, at `rate` bits per second; 0 is as many as possible.
    pub(super) fn udp(&self, payload: u32, rate: u64) -> Result<Received, Box<dyn Error>> {
        self.udp_for(self.seconds, payload, rate)
    }

    /// The largest rate, in steps, at which nothing is lost, in bits per second.
    pub(super) fn lossless_udp(&self, payload: u32) -> Result<f64, Box<dyn Error>> {
        let mut best = 0.0;
        let rates = std::iter::successors(Some(FIRST_RATE), |rate| Some(rate * STEP)).take(MAX_STEPS);
        for rate in rates {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate in bits")]
            let received = self.udp_for(1, payload, rate as u64)?;
            // A sender that can't keep up loses nothing either.
            if received.lost > NO_LOSS || received.rate < best {
                break;
            }
            best = received.rate;
        }
        Ok(best)
    }

    fn udp_for(&self, seconds: u32, payload: u32, rate: u64) -> Result<Received, Box<dyn Error>> {
        let mut command = self.client(seconds);
        command.args(["--udp", "--length", &payload.to_string(), "--bitrate", &rate.to_string()]);
        self.run(&mut command)
    }

    fn client(&self, seconds: u32) -> Command {
        let mut command = Command::new("iperf3");
        command.args(["--json", "--time", &seconds.to_string(), "--client", &self.server.to_string()]);
        command
    }

    fn run(&self, client: &mut Command) -> Result<Received, Box<dyn Error>> {
        let _listener = listener(self.hosts, self.server)?;
        let json: Value = serde_json::from_str(&self.hosts.client.output(client)?)?;
        received(&json).ok_or_else(|| format!("iperf3 reports no rate: {json}").into())
    }
}

fn received(json: &Value) -> Option<Received> {
    let sum = &json["end"]["sum_received"];
    // Of UDP: how many were sent, and how many of these are missing.
    let sent = sum["packets"].as_f64().unwrap_or(0.0);
    let missing = sum["lost_packets"].as_f64().unwrap_or(0.0);
    Some(Received {
        bytes: sum["bytes"].as_f64()?,
        rate: sum["bits_per_second"].as_f64()?,
        datagrams: sent - missing,
        lost: if sent > 0.0 { missing / sent } else { 0.0 },
    })
}

/// An iperf3 server that listens already, and its standard output, which has to stay open as long as it runs.
fn listener(hosts: &Hosts, address: IpAddr) -> Result<(Program, BufReader<ChildStdout>), Box<dyn Error>> {
    let mut command = Command::new("iperf3");
    command.args(["--server", "--one-off", "--forceflush", "--bind", &address.to_string()]);
    let mut program = hosts.server.start(command.stdout(Stdio::piped()))?;
    let mut stdout = BufReader::new(program.0.stdout.take().ok_or("iperf3 has no standard output")?);
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        if stdout.read_line(&mut line)? == 0 {
            return Err("iperf3 ended before it listened".into());
        }
    }
    Ok((program, stdout))
}
