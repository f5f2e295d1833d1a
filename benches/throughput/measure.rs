//! What is measured once a tunnel stands.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::hosts::Hosts;
use crate::kit::programs::Program;

/// How long a tunnel may take until it carries a packet; none needs a tenth of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls `attempt` until it succeeds, or [`PATIENCE`] is over; then its last error is the result.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Box<dyn Error>>) -> Result<T, Box<dyn Error>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(value) => return Ok(value),
        }
    }
}

/// Waits until `server` answers the client's ping.
pub(crate) fn wait_for_echo(hosts: &Hosts, server: IpAddr) -> Result<(), Box<dyn Error>> {
    retry(|| {
        // With -w, ping goes on until it is answered or the time is up.
        let mut ping = Command::new("ping");
        ping.args(["-n", "-c", "1", "-i", "0.05", "-w", "2"]).arg(server.to_string());
        hosts.client.output(&mut ping).map(drop)
    })
}

/// Goodput of one TCP flow (CUBIC) from the client to `server`, in bits per second, as the receiver counts it.
pub(crate) fn tcp_goodput(hosts: &Hosts, server: IpAddr, seconds: u32) -> Result<f64, Box<dyn Error>> {
    let _listener = listener(hosts, server)?;
    let mut client = Command::new("iperf3");
    client.args(["--congestion", "cubic", "--json", "--time", &seconds.to_string()]);
    client.args(["--client", &server.to_string()]);
    let json: serde_json::Value = serde_json::from_str(&hosts.client.output(&mut client)?)?;
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.ok_or_else(|| format!("iperf3 reports no rate: {json}").into())
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
