//! What was measured so far: a file with a line for what is measured, and one for each trial. Whoever was interrupted goes on where
//! that ends, for the same outcomes lead to the same trials.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use psmc_sim::profiler::{Stream, Trial};
use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use super::trial::Sighting;
use super::{ProbeError, ProbeOptions};

/// What is measured: a journal of anything else is not gone on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    ports: Vec<String>,
    rate: u64,
    framing: usize,
    sizes: Vec<usize>,
    calibrated_with: String,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Of each stream: input, output, length and packets.
    streams: Vec<[usize; 4]>,
    packets: Vec<Vec<[Option<u64>; 2]>>,
    odd: [usize; 4],
}

/// A journal, which is written and may have been read.
#[derive(Debug)]
pub(super) struct Journal {
    file: Option<(PathBuf, File)>,
    earlier: std::vec::IntoIter<Line>,
}

impl Header {
    pub(super) fn of(options: &ProbeOptions, rate: u64, calibration: &Calibration) -> Self {
        Self {
            ports: options.ports.clone(),
            rate,
            framing: options.framing,
            sizes: options.sizes.clone(),
            calibrated_with: calibration.with.clone(),
        }
    }
}

impl Journal {
    /// Goes on with a journal of the same measurement, or begins one; without a path nothing is kept.
    pub(super) fn open(path: Option<&Path>, header: &Header) -> Result<Self, ProbeError> {
        let Some(path) = path else { return Ok(Self { file: None, earlier: Vec::new().into_iter() }) };
        let failed = |source| ProbeError::Journal { path: path.to_owned(), source };
        let earlier = read(path, header).unwrap_or_default();
        // Written anew, without a line that was not finished.
        let mut file = File::create(path).map_err(failed)?;
        let first = serde_json::to_string(header).map_err(|error| failed(error.into()))?;
        writeln!(file, "{first}").map_err(failed)?;
        let mut journal = Self { file: Some((path.to_owned(), file)), earlier: Vec::new().into_iter() };
        for line in &earlier {
            journal.write(line)?;
        }
        journal.earlier = earlier.into_iter();
        Ok(journal)
    }

    /// What was seen of a trial in an earlier run.
    pub(super) fn next(&mut self, trial: &Trial) -> Option<Sighting> {
        let Line { streams, packets, odd } = self.earlier.next()?;
        if streams != key(trial) {
            // From here on it is of something else.
            self.earlier = Vec::new().into_iter();
            return None;
        }
        let [duplicates, loops, strays, reordered] = odd;
        Some(Sighting { packets, duplicates, loops, strays, reordered })
    }

    /// Keeps what was seen of a trial.
    pub(super) fn keep(&mut self, trial: &Trial, seen: Sighting) -> Result<Sighting, ProbeError> {
        if self.file.is_none() {
            return Ok(seen);
        }
        let Sighting { packets, duplicates, loops, strays, reordered } = seen;
        let line = Line { streams: key(trial), packets, odd: [duplicates, loops, strays, reordered] };
        self.write(&line)?;
        Ok(Sighting { packets: line.packets, duplicates, loops, strays, reordered })
    }

    /// Removes the file: all is measured.
    pub(super) fn remove(self) {
        if let Some((path, _)) = self.file {
            // Whoever has removed it before did the same.
            let _ = fs::remove_file(path);
        }
    }

    fn write(&mut self, line: &Line) -> Result<(), ProbeError> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let text = serde_json::to_string(line).map_err(io::Error::from);
        let written = text.and_then(|text| writeln!(file, "{text}"));
        written.map_err(|source| ProbeError::Journal { path: path.clone(), source })
    }
}

fn key(trial: &Trial) -> Vec<[usize; 4]> {
    let key = |stream: &Stream| [stream.input, stream.output, stream.len, stream.packets as usize];
    trial.streams.iter().map(key).collect()
}

/// The lines of a journal of this measurement, as far as they were written.
fn read(path: &Path, header: &Header) -> Option<Vec<Line>> {
    let mut lines = BufReader::new(OpenOptions::new().read(true).open(path).ok()?).lines();
    let first: Header = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    if first != *header {
        return None;
    }
    Some(lines.map_while(|line| serde_json::from_str(&line.ok()?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_journal_is_gone_on_with_up_to_what_was_written() {
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("box.toml.part");
        let header = Header {
            ports: vec!["a".to_owned(), "b".to_owned()],
            rate: 1,
            framing: 18,
            sizes: vec![46],
            calibrated_with: "cables".to_owned(),
        };
        let stream = |len| {
            let gap = Duration::from_millis(1);
            Trial {
                streams: vec![Stream { input: 0, output: 1, len, offset: Duration::ZERO, gap, packets: 2 }],
            }
        };
        let seen = Sighting {
            packets: vec![vec![[Some(1), Some(5)], [Some(2), None]]],
            reordered: 1,
            ..Sighting::default()
        };
        let mut journal = Journal::open(Some(&path), &header).expect("it is new");
        assert!(journal.next(&stream(46)).is_none());
        journal.keep(&stream(46), seen.clone()).expect("there is room");
        journal.keep(&stream(100), seen.clone()).expect("there is room");
        drop(journal);
        let text = fs::read_to_string(&path).expect("it is there");
        fs::write(&path, &text[..text.len() - 9]).expect("it was interrupted");
        let mut journal = Journal::open(Some(&path), &header).expect("it is read");
        let again = journal.next(&stream(46)).expect("it was kept");
        assert_eq!((again.packets, again.reordered), (seen.packets, 1));
        assert!(journal.next(&stream(100)).is_none(), "this line was not finished");
        drop(journal);
        let other = Header { rate: 2, ..header };
        assert!(Journal::open(Some(&path), &other).expect("it is another").next(&stream(46)).is_none());
    }
}
