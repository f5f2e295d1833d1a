//! iperf3 from one site to the other.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::Site;

/// Its usual port.
const PORT: u16 = 5201;

/// What iperf3 has measured.
#[derive(Debug)]
pub(crate) struct Report(Value);

/// A server, which ends on drop.
struct Server(Child);

/// Runs iperf3 with the client's `args`, from `client` to `address` on `server`.
pub(crate) fn iperf(client: &Site, server: &Site, address: IpAddr, args: &[&str]) -> Report {
    iperf_on(PORT, client, server, address, args)
}

/// The same at a port of its own, beside others.
pub(crate) fn iperf_on(port: u16, client: &Site, server: &Site, address: IpAddr, args: &[&str]) -> Report {
    let (address, port) = (address.to_string(), port.to_string());
    let _server = Server::start(server, &port);
    let mut command = vec!["iperf3", "--json", "--port", &port, "--client", &address];
    command.extend(args);
    let text = client.run(&command);
    Report(serde_json::from_str(&text).unwrap())
}

/// The same, if it is done within so many seconds.
pub(crate) fn iperf_within(
    seconds: u32,
    client: &Site,
    server: &Site,
    address: IpAddr,
    args: &[&str],
) -> Option<Report> {
    let _server = Server::start(server, &PORT.to_string());
    let (address, seconds) = (address.to_string(), seconds.to_string());
    let mut command = vec!["timeout", &seconds, "iperf3", "--json", "--client", &address];
    command.extend(args);
    let output = client.try_run(&command);
    output.status.success().then(|| Report(serde_json::from_slice(&output.stdout).unwrap()))
}

impl Server {
    fn start(site: &Site, port: &str) -> Self {
        let mut command = Command::new("iperf3");
        command
            .args(["--server", "--forceflush", "--port", port])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = site.namespace.spawn(&mut command).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("listening"));
        assert!(ready, "iperf3 serves");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Report {
    /// Bytes that arrived over TCP.
    pub(crate) fn bytes(&self) -> u64 {
        self.0["end"]["sum_received"]["bytes"].as_u64().unwrap()
    }

    /// Bytes that arrived in each TCP connection.
    pub(crate) fn bytes_by_flow(&self) -> Vec<u64> {
        let flows = self.0["end"]["streams"].as_array().unwrap();
        let bytes = flows.iter().map(|flow| flow["receiver"]["bytes"].as_u64().unwrap());
        bytes.collect()
    }

    /// What arrived over TCP, in Mbit/s.
    pub(crate) fn mbps(&self) -> f64 {
        self.0["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
    }

    /// Datagrams sent over UDP.
    pub(crate) fn datagrams(&self) -> u64 {
        self.0["end"]["sum"]["packets"].as_u64().unwrap()
    }

    /// Datagrams lost, of 100.
    pub(crate) fn loss_percent(&self) -> f64 {
        self.0["end"]["sum"]["lost_percent"].as_f64().unwrap()
    }
}
