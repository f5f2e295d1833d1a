//! Whether anything that clients see tells where the hidden lines are: what arrives on their links, and all their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use psmc_net::packet::{PacketError, PacketPort};
use psmc_testbed::netns::Namespace;
use serde::Serialize;

use super::files::PORT;
use super::network::{AttackNetwork, CLIENTS, LINES, RELAYS, line_address, relay_address};

/// The interface by which a host is joined to the others.
const INTERFACE: &str = "wan";

/// The largest frame of an interface without offloading.
const LARGEST_FRAME: usize = 2048;

/// How often what came is looked at.
const INTERVAL: Duration = Duration::from_millis(1);

/// Ethernet's header, and where in a frame parts of an IPv4 packet are.
const ETHERNET: usize = 14;
const TTL: usize = ETHERNET + 8;
const PROTOCOL: usize = ETHERNET + 9;
const SOURCE: usize = ETHERNET + 12;
const SOURCE_PORT: usize = ETHERNET + 20;
const DATA: usize = ETHERNET + 28;

/// The Ethernet type of IPv4.
const IPV4: [u8; 2] = [8, 0];

/// The number of UDP.
const UDP: u8 = 17;

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct HidingReport {
    /// Frames that arrived at the clients, with all their bytes.
    pub(super) frames: u64,
    pub(super) bytes: u64,
    /// Frames that came too fast to be looked at.
    pub(super) missed: u32,
    /// Configurations, logs and kept routes of the clients.
    pub(super) files: usize,
    /// Places in which an address of a hidden line was found.
    pub(super) found: usize,
    /// The times to live with which packets of each relay arrive: one, and the same for all, or else what is behind them
    /// shows.
    pub(super) times_to_live: BTreeMap<&'static str, BTreeSet<u8>>,
    /// The control: packets that arrived at relays from the hidden lines.
    pub(super) seen_at_relays: u64,
}

/// Looks until it is asked.
pub(super) struct Hiding {
    ended: Arc<AtomicBool>,
    clients: Vec<Watching<AtClient>>,
    relays: Vec<Watching<AtRelay>>,
}

/// A thread that looks at what arrives at a host; it returns what it has found, and how many frames it has missed.
type Watching<T> = JoinHandle<(T, u32)>;

/// Takes down what is in a frame.
trait Look: Send + 'static {
    fn look(&mut self, frame: &[u8]);
}

/// What has arrived at one client.
struct AtClient {
    traces: Vec<Trace>,
    /// Which bytes a trace begins with.
    begins: [bool; 256],
    frames: u64,
    bytes: u64,
    found: usize,
    /// Short traces in the data of tunnels, by their places: chance does not strike twice at the same.
    places: BTreeMap<(usize, usize), usize>,
    /// The times to live with which packets of each host arrive.
    times_to_live: BTreeMap<Ipv4Addr, BTreeSet<u8>>,
}

/// How many packets from hidden lines have arrived at a relay.
#[derive(Default)]
struct AtRelay(u64);

/// An address in one of the forms in which it can be told.
struct Trace {
    bytes: Vec<u8>,
    /// Whether it is so short that it stands by chance in what is encrypted.
    is_short: bool,
}

impl Hiding {
    /// Begins to look.
    pub(super) fn start(network: &AttackNetwork) -> Result<Self, PacketError> {
        let ended = Arc::new(AtomicBool::new(false));
        let clients = network.clients.iter().map(|client| watch(client, AtClient::new(), &ended));
        let clients = clients.collect::<Result<_, _>>()?;
        let relays = network.relays.iter().map(|relay| watch(relay, AtRelay::default(), &ended));
        Ok(Self { relays: relays.collect::<Result<_, _>>()?, clients, ended })
    }

    /// Ends the looking, reads the clients' files in `directory`, and says what was found.
    pub(super) fn finish(self, directory: &Path) -> io::Result<HidingReport> {
        self.ended.store(true, Ordering::Relaxed);
        let mut report = HidingReport::default();
        for client in self.clients {
            let (client, missed) = client.join().unwrap_or_else(|panic| resume_unwind(panic));
            report.missed += missed;
            report.frames += client.frames;
            report.bytes += client.bytes;
            report.found += client.found + client.places.values().filter(|count| **count > 1).count();
            for (place, name) in RELAYS.into_iter().enumerate() {
                let seen = client.times_to_live.get(&relay_address(place)).into_iter().flatten();
                report.times_to_live.entry(name).or_default().extend(seen);
            }
        }
        for relay in self.relays {
            let (AtRelay(seen), _) = relay.join().unwrap_or_else(|panic| resume_unwind(panic));
            report.seen_at_relays += seen;
        }
        let traces = traces();
        for file in files_of_clients(directory)? {
            let bytes = fs::read(file)?;
            report.files += 1;
            report.found += traces.iter().filter(|trace| trace.is_in(&bytes)).count();
        }
        Ok(report)
    }
}

fn watch<T: Look>(
    host: &Namespace,
    mut what: T,
    ended: &Arc<AtomicBool>,
) -> Result<Watching<T>, PacketError> {
    let mut port = host.run(|| PacketPort::open(INTERFACE, LARGEST_FRAME))?;
    let ended = ended.clone();
    Ok(thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            while let Some(frame) = port.recv() {
                what.look(frame.bytes());
            }
            thread::sleep(INTERVAL);
        }
        (what, port.lost().unwrap_or(u32::MAX))
    }))
}

impl AtClient {
    fn new() -> Self {
        let traces = traces();
        let mut begins = [false; 256];
        traces.iter().for_each(|trace| begins[usize::from(trace.bytes[0])] = true);
        Self {
            traces,
            begins,
            frames: 0,
            bytes: 0,
            found: 0,
            places: BTreeMap::new(),
            times_to_live: BTreeMap::new(),
        }
    }
}

impl Look for AtClient {
    fn look(&mut self, frame: &[u8]) {
        self.frames += 1;
        self.bytes += frame.len() as u64;
        if let (Some(source), Some(ttl)) = (address_at(frame, SOURCE), frame.get(TTL)) {
            self.times_to_live.entry(source).or_default().insert(*ttl);
        }
        let is_data = is_data(frame);
        // Most bytes begin none of them.
        for place in (0..frame.len()).filter(|place| self.begins[usize::from(frame[*place])]) {
            for (number, trace) in self.traces.iter().enumerate() {
                if !frame[place..].starts_with(&trace.bytes) {
                    continue;
                }
                if trace.is_short && is_data && place > DATA {
                    *self.places.entry((number, place)).or_default() += 1;
                } else {
                    self.found += 1;
                }
            }
        }
    }
}

impl Look for AtRelay {
    fn look(&mut self, frame: &[u8]) {
        self.0 += u64::from(address_at(frame, SOURCE).is_some_and(|source| hidden().contains(&source)));
    }
}

impl Trace {
    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(self.bytes.len()).any(|window| window == self.bytes)
    }
}

/// The addresses of the lines that nobody knows.
fn hidden() -> Vec<Ipv4Addr> {
    (1..LINES.len()).map(line_address).collect()
}

/// All that tells where the hidden lines are: as bytes in either order, as text, and in hexadecimal digits.
fn traces() -> Vec<Trace> {
    let of_one = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        let number = u32::from(address);
        let short = [vec![a, b, c, d], vec![d, c, b, a]].map(|bytes| Trace { bytes, is_short: true });
        let texts =
            [address.to_string(), number.to_string(), format!("{number:08x}"), format!("{number:08X}")];
        let long = texts.map(|text| Trace { bytes: text.into_bytes(), is_short: false });
        short.into_iter().chain(long)
    };
    hidden().into_iter().flat_map(of_one).collect()
}

/// Whether a frame has encrypted data of a tunnel.
fn is_data(frame: &[u8]) -> bool {
    let ports = frame.get(SOURCE_PORT..SOURCE_PORT + 4).unwrap_or_default();
    frame.get(PROTOCOL) == Some(&UDP) && ports.chunks(2).any(|port| port == PORT.to_be_bytes())
}

fn address_at(frame: &[u8], place: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = frame.get(place..place + 4)?.try_into().ok()?;
    (frame.get(ETHERNET - 2..ETHERNET)? == IPV4).then_some(octets.into())
}

/// What the clients' programs have been told and have written: configurations, logs, routes.
fn files_of_clients(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_clients = CLIENTS.iter().any(|client| entry.file_name().to_string_lossy().starts_with(client));
        let kind = entry.file_type()?;
        if is_clients && kind.is_dir() {
            for inner in fs::read_dir(entry.path())? {
                files.push(inner?.path());
            }
        } else if is_clients && kind.is_file() {
            files.push(entry.path());
        }
    }
    files.retain(|file| file.is_file());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; DATA];
        frame[ETHERNET - 2..ETHERNET].copy_from_slice(&IPV4);
        (frame[TTL], frame[PROTOCOL]) = (63, protocol);
        frame[SOURCE..SOURCE + 4].copy_from_slice(&relay_address(0).octets());
        frame[SOURCE_PORT..SOURCE_PORT + 2].copy_from_slice(&PORT.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    fn found(frames: &[Vec<u8>]) -> usize {
        let mut client = AtClient::new();
        frames.iter().for_each(|frame| client.look(frame));
        assert_eq!(client.times_to_live, BTreeMap::from([(relay_address(0), BTreeSet::from([63]))]));
        client.found + client.places.values().filter(|count| **count > 1).count()
    }

    #[test]
    fn every_form_of_an_address_is_found() {
        for trace in traces() {
            let padded = [b"...", &trace.bytes[..], b"..."].concat();
            assert_eq!(found(&[frame(6, &padded)]), 1, "{:?}", trace.bytes);
        }
        assert_eq!(
            found(&[frame(6, b"198.19.1.2"), frame(UDP, &[0; 100])]),
            0,
            "the line that everybody knows"
        );
    }

    #[test]
    fn four_bytes_in_encrypted_data_are_chance_unless_they_come_again_at_the_same_place() {
        let hidden = line_address(1).octets();
        let at = |place: usize| frame(UDP, &[vec![0; place], hidden.to_vec()].concat());
        assert_eq!(found(&[at(20), at(30)]), 0);
        assert_eq!(found(&[at(20), at(30), at(20)]), 1);
        let mut from_it = frame(UDP, &[0; 40]);
        from_it[SOURCE + 4..SOURCE + 8].copy_from_slice(&hidden);
        assert_eq!(found(&[from_it]), 1, "an address in a header is none by chance");
    }
}
