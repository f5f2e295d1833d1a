//! ICMP echo.

use std::error::Error;
use std::net::IpAddr;
use std::process::Command;

use super::retry;
use crate::hosts::Hosts;
use crate::kit::spread::Spread;

/// How many echoes make a median.
const COUNT: u32 = 500;

/// Waits until `server` answers the client's ping.
pub(crate) fn wait_for_echo(hosts: &Hosts, server: IpAddr) -> Result<(), Box<dyn Error>> {
    retry(|| {
        // With -w, ping goes on until it is answered or the time is up.
        let mut ping = Command::new("ping");
        ping.args(["-n", "-c", "1", "-i", "0.05", "-w", "2"]).arg(server.to_string());
        hosts.client.output(&mut ping).map(drop)
    })
}

/// The median round trip of one ping at a time, in microseconds.
pub(super) fn median_us(hosts: &Hosts, server: IpAddr) -> Result<f64, Box<dyn Error>> {
    let mut ping = Command::new("ping");
    ping.args(["-n", "-i", "0.002", "-c", &COUNT.to_string()]).arg(server.to_string());
    let text = hosts.client.output(&mut ping)?;
    let times = text.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse().ok());
    let times = times.map(|ms: f64| ms * 1e3).collect::<Vec<_>>();
    if times.is_empty() {
        return Err(format!("ping reports no times: {text}").into());
    }
    Ok(Spread::of(&times).median)
}
