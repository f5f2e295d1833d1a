//! TCP, by iperf3.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::hosts::Hosts;
use crate::kit::programs::Program;

/// From the client to the server, for so many seconds.
pub(super) struct Iperf<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) server: IpAddr,
    pub(super) seconds: u32,
}

/// So many seconds more than it measures iperf3 may take. If the tunnel dies meanwhile, it would wait for ever.
const PATIENCE: u32 = 30;

/// What has arrived.
pub(super) struct Received {
    /// Of payload.
    pub(super) bytes: f64,
    /// Bits of payload per second.
    pub(super) rate: f64,
}

impl Iperf<'_> {
    /// TCP flows (CUBIC), each as fast as it can or at `rate`.
    pub(super) fn tcp(&self, flows: u32, rate: Option<u64>) -> Result<Received, Box<dyn Error>> {
        let mut command = self.client();
        command.args(["--congestion", "cubic", "--parallel", &flows.to_string()]);
        if let Some(rate) = rate {
            command.args(["--bitrate", &rate.to_string()]);
        }
        self.run(&mut command)
    }

    fn client(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--verbose", &(self.seconds + PATIENCE).to_string(), "iperf3"]);
        command.args(["--json", "--time", &self.seconds.to_string(), "--client", &self.server.to_string()]);
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
    Some(Received { bytes: sum["bytes"].as_f64()?, rate: sum["bits_per_second"].as_f64()? })
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
