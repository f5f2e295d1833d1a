//! What this machine adds to the delays that it sees.

use std::time::Duration;

use psmc_net::packet::Card;
use psmc_sim::profiler::{Outcome, Passage, Stream, Trial};
use psmc_testbed::netns::{Namespace, link_pair};
use serde::{Deserialize, Serialize};

use super::lane::{Lane, Lanes};
use super::trial::{self, Sighting};
use super::{ProbeError, micros};

/// How many packets of each length are sent, and how many a second.
const PACKETS: u32 = 200;
const RATE: u32 = 500;

/// The noise of a machine that is quiet enough: what the publication has seen on hardware (tables 5.1 and 5.2).
pub const NOISE: Duration = Duration::from_micros(14);

/// What a machine adds to delays, by length, between what kind of ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// With what in the place of the device.
    pub with: String,
    /// For each length, growing.
    pub sizes: Vec<Noise>,
}

/// What a machine adds to packets of one length, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noise {
    /// The length in bytes, from the IP header on.
    pub bytes: usize,
    /// The least: what is subtracted.
    pub least: u64,
    /// The median.
    pub median: u64,
    /// The 95th percentile.
    pub high: u64,
}

impl Calibration {
    /// What is subtracted from delays of packets of this length.
    pub(super) fn least(&self, bytes: usize) -> Duration {
        let above = self.sizes.partition_point(|noise| noise.bytes < bytes);
        let (below, above) =
            (self.sizes.get(above.saturating_sub(1)), self.sizes.get(above).or(self.sizes.last()));
        let (Some(below), Some(above)) = (below, above) else { return Duration::ZERO };
        if above.bytes <= below.bytes || bytes <= below.bytes {
            return Duration::from_nanos(below.least);
        }
        let share = (bytes.min(above.bytes) - below.bytes) as f64 / (above.bytes - below.bytes) as f64;
        let [from, to] = [below.least, above.least].map(Duration::from_nanos);
        from.mul_f64(1.0 - share) + to.mul_f64(share)
    }

    /// The most that packets take longer than that, 95 of 100 of each length.
    #[must_use]
    pub fn noise(&self) -> Duration {
        Duration::from_nanos(
            self.sizes.iter().map(|noise| noise.high - noise.least.min(noise.high)).max().unwrap_or(0),
        )
    }

    /// What is subtracted at most.
    #[must_use]
    pub fn subtracted(&self) -> Duration {
        Duration::from_nanos(self.sizes.iter().map(|noise| noise.least).max().unwrap_or(0))
    }

    /// Whether the machine is quiet enough.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.noise() <= NOISE
    }

    /// A line for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let (least, noise) = (micros(self.subtracted()), micros(self.noise()));
        let verdict = if self.is_quiet() {
            String::new()
        } else {
            let most = micros(NOISE);
            format!(
                ": this machine is too noisy (more than {most:.0} µs), and short delays are not to be trusted"
            )
        };
        format!(
            "with {} this machine adds up to {least:.1} µs, which is subtracted, and {noise:.1} µs of noise (95th percentile){verdict}",
            self.with
        )
    }

    /// What has become of the packets of a trial, without what this machine adds.
    pub(super) fn corrected(&self, trial: &Trial, seen: &Sighting) -> Outcome {
        let stream = |(stream, packets): (&Stream, &Vec<[Option<u64>; 2]>)| {
            let machine = self.least(stream.len);
            let passage = |(number, [sent, arrived]): (u32, &[Option<u64>; 2])| {
                let planned = stream.offset + stream.gap * number;
                let entered = sent.map_or(planned, Duration::from_nanos);
                let delay = sent.zip(*arrived).map(|(sent, arrived)| {
                    Duration::from_nanos(arrived.saturating_sub(sent)).saturating_sub(machine)
                });
                Passage { entered, delay }
            };
            (0..).zip(packets).map(passage).collect()
        };
        Outcome { streams: trial.streams.iter().zip(&seen.packets).map(stream).collect() }
    }
}

/// Measures with a pair of virtual interfaces in namespaces of their own.
pub(super) fn on_virtual_ethernet(sizes: &[usize]) -> Result<Calibration, ProbeError> {
    let ends = [Namespace::new()?, Namespace::new()?];
    for end in &ends {
        end.disable_ipv6()?;
    }
    link_pair(&ends[0], "left", &ends[1], "right")?;
    let open = |end: &Namespace, name: &str| {
        let longest = sizes.last().copied().unwrap_or(0);
        end.set_mtu(name, u32::try_from(longest.max(1500)).unwrap_or(u32::MAX))?;
        end.run(|| Lane::beside_cable(&Card::named(name)?))
    };
    let lanes = vec![open(&ends[0], "left")?, open(&ends[1], "right")?];
    between(&mut Lanes::of(lanes), sizes, "virtual Ethernet")
}

/// Measures from the first port to the second.
pub(super) fn between(lanes: &mut Lanes, sizes: &[usize], with: &str) -> Result<Calibration, ProbeError> {
    lanes.warm_up()?;
    let sizes = sizes.iter().map(|len| {
        let gap = Duration::from_secs(1) / RATE;
        let stream = Stream { input: 0, output: 1, len: *len, offset: Duration::ZERO, gap, packets: PACKETS };
        let trial = Trial { streams: vec![stream] };
        let seen = trial::run(&trial, lanes)?;
        seen.check(&trial)?;
        let delays = seen.packets.iter().flatten().filter_map(|[sent, arrived]| arrived.zip(*sent));
        let mut delays: Vec<u64> = delays.map(|(arrived, sent)| arrived.saturating_sub(sent)).collect();
        delays.sort_unstable();
        let of = |percent: usize| delays.get((delays.len().saturating_sub(1)) * percent / 100).copied();
        let nothing = psmc_sim::profiler::ProfilerError::NothingPasses { len: *len, input: 0, output: 1 };
        let least = of(0).ok_or(nothing)?;
        Ok(Noise { bytes: *len, least, median: of(50).unwrap_or(least), high: of(95).unwrap_or(least) })
    });
    Ok(Calibration { with: with.to_owned(), sizes: sizes.collect::<Result<_, ProbeError>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_subtracted_is_interpolated() {
        let noise = |bytes, least| Noise { bytes, least, median: least, high: least + 20_000 };
        let calibration =
            Calibration { with: "cables".to_owned(), sizes: vec![noise(100, 1000), noise(200, 2000)] };
        let least = [50, 100, 150, 200, 1500].map(|bytes| calibration.least(bytes).as_nanos());
        assert_eq!(least, [1000, 1000, 1500, 2000, 2000]);
        assert!(!calibration.is_quiet() && calibration.summary().contains("too noisy"));
    }
}
