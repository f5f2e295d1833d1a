//! What is measured once a tunnel stands.

mod echo;
mod iperf;
mod udp;

use std::error::Error;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::hosts::Hosts;
use crate::kit::usage::Used;
use crate::load::Load;
use crate::tunnels::Raised;
use iperf::Iperf;
use udp::Udp;

pub(crate) use echo::wait_for_echo;

/// How long a tunnel may take until it carries a packet; none needs a tenth of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bits per second at which costs are compared.
const FIXED_RATE: u64 = 1_000_000_000;

/// One figure of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Measure {
    /// Goodput of one TCP flow, Gb/s.
    Tcp,
    /// Goodput of eight TCP flows together, Gb/s.
    Tcp8,
    /// What arrives of UDP with payloads of 1200 bytes offered at 1 Gb/s, Gb/s.
    Udp1200,
    /// The same with payloads of 1400 bytes, which are two packets where the tunnel's MTU is less than 1428.
    Udp1400,
    /// The largest rate at which UDP with payloads of 1200 bytes loses no more than one in a thousand, Gb/s.
    Udp1200Max,
    /// The same with payloads of 1400 bytes.
    Udp1400Max,
    /// Datagrams with payloads of 64 bytes that arrive of as many as can be sent, thousands per second.
    Udp64,
    /// The largest rate at which no more than one in a thousand of these is lost, thousands per second.
    Udp64Max,
    /// As `udp1200-max`, but sender and receiver leave the cutting and joining of datagrams to the kernel, and it to the tunnel.
    Uso1200,
    /// The same with payloads of 1372 bytes: packets of 1400, the largest that every tunnel here takes whole.
    Uso1400,
    /// Round trip of a ping that is answered before the next one, the median, microseconds.
    Echo,
    /// CPU time of the tunnel's programs for a gigabyte of one TCP flow at 1 Gb/s, seconds.
    TunnelCpu,
    /// CPU time of the whole machine for the same.
    MachineCpu,
}

impl Measure {
    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Tcp => "one TCP flow, Gb/s",
            Self::Tcp8 => "eight TCP flows, Gb/s",
            Self::Udp1200 => "UDP 1200 of 1 Gb/s, Gb/s",
            Self::Udp1400 => "UDP 1400 of 1 Gb/s, Gb/s",
            Self::Udp1200Max => "UDP 1200 without loss, Gb/s",
            Self::Udp1400Max => "UDP 1400 without loss, Gb/s",
            Self::Udp64 => "UDP 64, thousand/s",
            Self::Udp64Max => "UDP 64 without loss, thousand/s",
            Self::Uso1200 => "UDP 1200 with offload, without loss, Gb/s",
            Self::Uso1400 => "UDP 1372 with offload, without loss, Gb/s",
            Self::Echo => "round trip, µs",
            Self::TunnelCpu => "tunnel's CPU s/GB at 1 Gb/s",
            Self::MachineCpu => "machine's CPU s/GB at 1 Gb/s",
        }
    }

    /// Measures it; `None` if the tunnel has no such figure.
    pub(crate) fn of(
        self,
        hosts: &Hosts,
        raised: &Raised,
        seconds: u32,
    ) -> Result<Option<f64>, Box<dyn Error>> {
        let iperf = Iperf { hosts, server: raised.server, seconds };
        let udp = |payload| Udp { hosts, server: raised.server, load: Load { payload, offload: false } };
        let uso = |payload| Udp { hosts, server: raised.server, load: Load { payload, offload: true } };
        let figure = match self {
            Self::Tcp => iperf.tcp(1, None)?.rate / 1e9,
            Self::Tcp8 => iperf.tcp(8, None)?.rate / 1e9,
            Self::Udp1200 => udp(1200).of_fixed_rate(seconds)?,
            Self::Udp1400 => udp(1400).of_fixed_rate(seconds)?,
            Self::Udp1200Max => udp(1200).lossless_gigabits()?,
            Self::Udp1400Max => udp(1400).lossless_gigabits()?,
            Self::Udp64 => udp(64).offer(None, seconds.into())?.arrived / 1e3,
            Self::Udp64Max => udp(64).lossless()? / 1e3,
            Self::Uso1200 => uso(1200).lossless_gigabits()?,
            Self::Uso1400 => uso(1372).lossless_gigabits()?,
            Self::Echo => echo::median_us(hosts, raised.server)?,
            Self::TunnelCpu if raised.processes.is_empty() => return Ok(None),
            Self::TunnelCpu => cpu_per_gigabyte(&iperf, || Used::by(&raised.processes))?,
            Self::MachineCpu => cpu_per_gigabyte(&iperf, Used::by_machine)?,
        };
        Ok(Some(figure))
    }
}

fn cpu_per_gigabyte(
    iperf: &Iperf<'_>,
    used: impl Fn() -> Result<Used, Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let before = used()?;
    let bytes = iperf.tcp(1, Some(FIXED_RATE))?.bytes;
    Ok(used()?.since(before) / (bytes / 1e9))
}

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
