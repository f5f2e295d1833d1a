//! Files that people write, and those that other programs do.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use psmc_lab::device::DeviceProfile;
use psmc_lab::device::replay::replay_readers;
use psmc_lab::scenario::Scenario;
use psmc_sim::link::Trace;
use psmcd::config::{Complaint, Config, ConfigError};

/// A configuration file. One that keeps its key in another file is passed over: a fuzzer must not open what it names.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("private_key_file") {
        return;
    }
    if let Err(error) = Config::parse(text, Path::new("site.toml")) {
        can_be_shown(&error, text);
    }
}

/// A scenario of the lab. One that names files of rates or delays is passed over: a fuzzer must not open them.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("trace") || text.contains("file") {
        return;
    }
    match Scenario::parse(text, Path::new("scenario.toml")) {
        Ok(scenario) => assert!(!scenario.summary().to_string().is_empty()),
        Err(error) => can_be_shown(&error, text),
    }
}

/// A recorded link, in the format of Mahimahi.
pub fn trace(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Trace::parse(text) {
        Ok(trace) => assert!(trace.mean_rate() > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Captures of two ports of a device, pcap or pcapng: the second begins at the byte that the first two bytes name.
pub fn capture(bytes: &[u8]) {
    let Some((at, captures)) = bytes.split_first_chunk::<2>() else { return };
    let (one, other) = captures.split_at(usize::from(u16::from_be_bytes(*at)).min(captures.len()));
    let profile = DeviceProfile::parse(PROFILE, Path::new("device.toml")).expect("the profile is good");
    let captures = [one, other].map(|bytes| (PathBuf::from("capture"), Cursor::new(bytes.to_vec())));
    match replay_readers(&profile, captures.into()) {
        Ok(replayed) => {
            assert!((0.0..=1.0).contains(&replayed.all.distance), "{replayed:?}");
            assert!((0.0..=1.0).contains(&replayed.all.observed.loss), "{replayed:?}");
            assert!(!replayed.table().is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A device with one server and two ports.
const PROFILE: &str = "version = 1\nname = \"device\"\n[provenance]\nconfidence = \"estimated\"\nsource = \"nothing\"\n[[port]]\ncount = 2\nrate = \"100mbit\"\n\
    [[size]]\nbytes = 40\ndelay = \"20us\"\nserved = 1\nqueued = 100\n\
    [[size]]\nbytes = 1500\ndelay = \"40us\"\nserved = 1\nqueued = 50\n";

/// Asserts that an error says something, about places that are in the text.
fn can_be_shown(error: &ConfigError, text: &str) {
    assert!(!error.complaints().is_empty(), "refused without a complaint");
    for place in error.complaints().iter().filter_map(Complaint::span) {
        assert!(text.get(place.clone()).is_some(), "{place:?} is not in the text");
    }
    assert!(!error.render(false).is_empty());
}
