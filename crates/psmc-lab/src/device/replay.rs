//! Captured packets once more, through the profile of the device that they have passed.
//!
//! A capture is of what a port received and sent, as tcpdump takes it at whoever is at the other end of the port's line. A packet
//! that is seen at a port and then at another has passed the device; one that is seen at one port only was lost there, if others
//! for the same address have left by another port.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use psmc_sim::profiler::ProfileConfigError;
use psmc_sim::replay::{Comparison, Entry, replay};

use super::DeviceProfile;
use crate::report::grid::{Cell, Grid};

/// Why nothing can be compared.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is no capture.
    #[error("{} is no capture of Ethernet in the format pcap or pcapng: {reason}", path.display())]
    Format {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There are no packets that have passed.
    #[error(
        "no packet is in one capture and then in another: give those of ports of the same device, taken at the same time by one clock"
    )]
    NothingPasses,
    /// Packets are further apart than any test lasts.
    #[error(
        "the first packet is {days} days before the last: give captures that were taken at the same time, by one clock"
    )]
    Apart {
        /// Days between them.
        days: u64,
    },
    /// The profile fits no router with as many ports.
    #[error("the profile fits no device with {ports} ports")]
    Profile {
        /// Captures.
        ports: usize,
        /// What is wrong.
        source: ProfileConfigError,
    },
}

/// What came of a replay: for each port that packets left by, and for all together.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The port, from 0, and what left or should have left by it.
    pub ports: Vec<(usize, Comparison)>,
    /// All ports together.
    pub all: Comparison,
}

/// From the first packet to the last.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A packet in a capture.
struct Captured {
    at: Duration,
    port: usize,
    /// What is the same before and behind the device.
    identity: u64,
    to: IpAddr,
    len: usize,
}

/// Replays what captures of the ports of a device say, in the order of the ports.
///
/// # Errors
/// [`ReplayError`].
pub fn replay_captures(profile: &DeviceProfile, captures: &[PathBuf]) -> Result<Replayed, ReplayError> {
    let open = |path: &PathBuf| match File::open(path) {
        Ok(file) => Ok((path.clone(), file)),
        Err(source) => Err(ReplayError::Read { path: path.clone(), source }),
    };
    replay_readers(profile, captures.iter().map(open).collect::<Result<_, _>>()?)
}

/// Replays what captures say that are read from anything; their paths are for errors.
///
/// # Errors
/// [`ReplayError`].
pub fn replay_readers(
    profile: &DeviceProfile,
    captures: Vec<(PathBuf, impl Read + Send + 'static)>,
) -> Result<Replayed, ReplayError> {
    let count = captures.len();
    let mut packets = Vec::new();
    for (port, (path, capture)) in captures.into_iter().enumerate() {
        read((&path, capture), port, &mut packets)?;
    }
    packets.sort_by_key(|packet| packet.at);
    if let [first, .., last] = &packets[..] {
        let (begin, span) = (first.at, last.at - first.at);
        if span > LONGEST {
            return Err(ReplayError::Apart { days: span.as_secs() / (24 * 3600) });
        }
        packets.iter_mut().for_each(|packet| packet.at -= begin);
    }
    let entries = entries(&packets);
    if entries.iter().all(|entry| entry.delay.is_none()) {
        return Err(ReplayError::NothingPasses);
    }
    let config = profile.config(count);
    let config = config.map_err(|source| ReplayError::Profile { ports: count, source })?;
    let modelled = replay(&config, &entries, Instant::now());
    let by = |port: Option<usize>| {
        let both =
            entries.iter().zip(&modelled).filter(|(entry, _)| port.is_none_or(|port| entry.output == port));
        let (observed, modelled): (Vec<_>, Vec<_>) = both.map(|(entry, delay)| (entry.delay, *delay)).unzip();
        Comparison::of(&observed, &modelled)
    };
    let ports = (0..count).map(|port| (port, by(Some(port))));
    Ok(Replayed { ports: ports.filter(|(_, comparison)| comparison.packets > 0).collect(), all: by(None) })
}

/// What has passed, and what was lost on the way.
fn entries(packets: &[Captured]) -> Vec<Entry> {
    let mut inside: HashMap<u64, VecDeque<usize>> = HashMap::new();
    let mut outputs: HashMap<IpAddr, usize> = HashMap::new();
    let mut left: Vec<Option<(usize, Duration)>> = vec![None; packets.len()];
    let mut is_departure = vec![false; packets.len()];
    for (number, packet) in packets.iter().enumerate() {
        let same = inside.entry(packet.identity).or_default();
        match same.front().copied().filter(|entered| packets[*entered].port != packet.port) {
            Some(entered) => {
                same.pop_front();
                left[entered] = Some((packet.port, packet.at));
                is_departure[number] = true;
                outputs.insert(packet.to, packet.port);
            }
            None => same.push_back(number),
        }
    }
    let entered = packets.iter().enumerate().filter(|(number, _)| !is_departure[*number]);
    let entry = |(number, packet): (usize, &Captured)| {
        let output = left[number].map(|(port, _)| port).or_else(|| outputs.get(&packet.to).copied())?;
        let delay = left[number].map(|(_, at)| at.saturating_sub(packet.at));
        let Captured { at, port, len, .. } = *packet;
        (output != port).then_some(Entry { at, input: port, output, len, delay })
    };
    entered.filter_map(entry).collect()
}

/// Reads all IP packets of a capture.
fn read(
    (path, capture): (&Path, impl Read + Send + 'static),
    port: usize,
    packets: &mut Vec<Captured>,
) -> Result<(), ReplayError> {
    const BUFFER: usize = 1 << 20;
    let wrong = |reason: String| ReplayError::Format { path: path.to_owned(), reason };
    let mut reader = create_reader(BUFFER, capture).map_err(|error| wrong(error.to_string()))?;
    let mut clock = Clock::default();
    loop {
        match reader.next() {
            Ok((length, block)) => {
                if let Some((at, frame, frame_len)) = clock.packet(&block).map_err(wrong)? {
                    packets.extend(captured(at, port, frame, frame_len));
                }
                reader.consume(length);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|_| wrong("a record is larger than a packet can be".to_owned()))?;
            }
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
}

/// A time, the bytes that were kept of a packet, and how many it had.
type Record<'a> = (Duration, &'a [u8], usize);

/// How a capture writes times.
#[derive(Debug, Default)]
struct Clock {
    /// Ticks a second of a pcap.
    ticks: u64,
    /// The same for each interface of a pcapng, and its offset in seconds.
    interfaces: Vec<(u64, i64)>,
}

impl Clock {
    /// The packet in a block, if it has one.
    fn packet<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Result<Option<Record<'a>>, String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.ticks = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                is_ethernet(header.network)?;
                Ok(None)
            }
            PcapBlockOwned::Legacy(record) => {
                let at = time(record.ts_sec.into(), record.ts_usec.into(), self.ticks);
                Ok(Some((at, record.data, record.origlen as usize)))
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                is_ethernet(interface.linktype)?;
                let ticks = interface.ts_resolution().unwrap_or(1_000_000);
                self.interfaces.push((ticks, interface.if_tsoffset));
                Ok(None)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(None)
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(packet.if_id as usize);
                let (ticks, offset) =
                    interface.ok_or("a packet is of an interface that it does not describe")?;
                let count = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let seconds = (count / ticks).saturating_add_signed(*offset);
                let length = (packet.caplen as usize).min(packet.data.len());
                Ok(Some((
                    time(seconds, count % ticks, *ticks),
                    &packet.data[..length],
                    packet.origlen as usize,
                )))
            }
            PcapBlockOwned::NG(_) => Ok(None),
        }
    }
}

fn is_ethernet(kind: Linktype) -> Result<(), String> {
    if kind == Linktype::ETHERNET { Ok(()) } else { Err(format!("its packets are of kind {}", kind.0)) }
}

fn time(seconds: u64, ticks: u64, per_second: u64) -> Duration {
    let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

const ETHERNET: usize = 14;

/// An IP packet; others never pass a router.
fn captured(at: Duration, port: usize, frame: &[u8], frame_len: usize) -> Option<Captured> {
    let (kind, packet) = (frame.get(12..ETHERNET)?, frame.get(ETHERNET..)?);
    let mut header = [0; 40];
    let (header_len, len, to) = match kind {
        [0x08, 0x00] => {
            header[..20].copy_from_slice(packet.get(..20)?);
            let octets: [u8; 4] = header[16..20].try_into().ok()?;
            // What routers change: ECN, hops, and the checksum of both.
            [1, 8, 10, 11].into_iter().for_each(|at| header[at] = 0);
            (20, usize::from(u16::from_be_bytes([header[2], header[3]])), IpAddr::from(octets))
        }
        [0x86, 0xdd] => {
            header.copy_from_slice(packet.get(..40)?);
            let octets: [u8; 16] = header[24..40].try_into().ok()?;
            [0, 1, 7].into_iter().for_each(|at| header[at] = 0);
            (40, 40 + usize::from(u16::from_be_bytes([header[4], header[5]])), IpAddr::from(octets))
        }
        _ => return None,
    };
    let len = len.min(frame_len.saturating_sub(ETHERNET));
    let mut hasher = DefaultHasher::new();
    header[..header_len].hash(&mut hasher);
    packet[header_len..packet.len().min(len.max(header_len))].hash(&mut hasher);
    Some(Captured { at, port, identity: hasher.finish(), to, len })
}

impl Replayed {
    /// As a table: of each port, and of all.
    #[must_use]
    pub fn table(&self) -> String {
        let header = [
            "port",
            "packets",
            "lost (%)",
            "model's (%)",
            "mean (µs)",
            "model's (µs)",
            "p99 (µs)",
            "model's p99 (µs)",
            "COV",
            "model's",
            "K-S",
        ];
        let ports = self.ports.iter().map(|(port, comparison)| ((port + 1).to_string(), comparison));
        let rows = ports.chain([("all".to_owned(), &self.all)]).map(|(name, comparison)| {
            let Comparison { packets, observed, modelled, distance } = comparison;
            let both = |of: fn(&psmc_sim::replay::Summary) -> f64, scale: f64, decimals| {
                [observed, modelled].map(|summary| Cell::fixed(of(summary) * scale, decimals))
            };
            let mut row = vec![Cell::text(name), Cell::count(packets)];
            row.extend(both(|summary| summary.loss, 100.0, 2));
            row.extend(both(|summary| summary.mean, 1e6, 1));
            row.extend(both(|summary| summary.high, 1e6, 1));
            row.extend(both(|summary| summary.variation, 1.0, 3));
            row.push(Cell::fixed(*distance, 3));
            row
        });
        Grid::new(&header).with_rows(rows).text()
    }
}
