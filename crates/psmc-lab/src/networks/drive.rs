//! Recorded networks: the rates that several of them had each second, at the same time and place.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tempfile::TempDir;

use super::Flow;
use super::case::{Case, Traffic, Trial, Way, scenario};
use super::network::rounded;

/// Windows of a record, and the networks of it over which a tunnel goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drive {
    /// The name of the file.
    pub(super) name: String,
    /// The networks.
    pub(super) links: Vec<String>,
    /// For each window the rates of each of these networks in each second, in Mb/s.
    windows: BTreeMap<u32, Vec<Vec<f64>>>,
}

/// Why a record is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has no column {column:?}; its first line has {header:?}", path.display())]
    Column { path: PathBuf, column: String, header: String },
    #[error("line {line} of {}: {text:?} is no number", path.display())]
    Number { path: PathBuf, line: usize, text: String },
    #[error("{} has no window of {seconds} s; choose fewer --seconds", path.display())]
    Short { path: PathBuf, seconds: u32 },
}

/// What is assumed of a network, for only its rates are recorded.
struct Assumed {
    round_trip_ms: f64,
    /// The standard deviation of the delay; packets keep their order.
    jitter_ms: u32,
    queue_ms: u32,
}

impl Drive {
    /// Reads a table with commas: a column `window` with its number, and one for each network.
    pub(crate) fn load(path: &Path, links: &[String], seconds: u32) -> Result<Self, DriveError> {
        let text =
            fs::read_to_string(path).map_err(|source| DriveError::Read { path: path.to_owned(), source })?;
        let header = text.lines().next().unwrap_or_default();
        let column = |name: &str| {
            header.split(',').position(|column| column.trim() == name).ok_or_else(|| DriveError::Column {
                path: path.to_owned(),
                column: name.to_owned(),
                header: header.to_owned(),
            })
        };
        let window = column("window")?;
        let columns = links.iter().map(|link| column(link)).collect::<Result<Vec<_>, _>>()?;
        let mut windows = BTreeMap::new();
        for (line, text) in text.lines().enumerate().skip(1).filter(|(_, text)| !text.trim().is_empty()) {
            let cells: Vec<_> = text.split(',').map(str::trim).collect();
            let error = |text| DriveError::Number { path: path.to_owned(), line: line + 1, text };
            let rates = columns.iter().map(|&column| number(&cells, column, is_rate));
            let rates = rates.collect::<Result<Vec<_>, _>>().map_err(error)?;
            let window = number(&cells, window, |_| true).map_err(error)?;
            let series = windows.entry(window).or_insert_with(|| vec![Vec::new(); links.len()]);
            series.iter_mut().zip(rates).for_each(|(series, rate)| series.push(rate));
        }
        // A window ends early where a network was out of reach of the one who recorded.
        windows.retain(|_, series: &mut Vec<Vec<f64>>| {
            series.iter().all(|rates| rates.len() >= seconds as usize)
        });
        if windows.is_empty() {
            return Err(DriveError::Short { path: path.to_owned(), seconds });
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, links: links.to_vec(), windows })
    }

    /// The numbers of all windows.
    pub(crate) fn windows(&self) -> Vec<u32> {
        self.windows.keys().copied().collect()
    }

    /// What is run for a window, with its traces in a directory of its own, or in a temporary one.
    pub(super) fn case(
        &self,
        window: u32,
        flow: Flow,
        seconds: u32,
        keep: Option<&Path>,
    ) -> io::Result<Case> {
        let traces = Traces::new(keep.map(|keep| keep.join(format!("window-{window}-traces"))))?;
        let networks: Vec<_> = self
            .links
            .iter()
            .zip(&self.windows[&window])
            .map(|(link, rates)| Recorded { name: link.clone(), rates: rates[..seconds as usize].to_vec() })
            .collect();
        let sum_mbps = networks.iter().map(Recorded::mean_mbps).sum();
        let traffic = Traffic { flow, seconds, flood_mbps: rounded(sum_mbps, 1) };
        let mut trials = vec![(Way::Tunnel, networks.iter().collect::<Vec<_>>(), "tunnel".to_owned())];
        let together = Recorded::together(&networks);
        if flow != Flow::Flood {
            trials.extend(networks.iter().map(|network| (Way::Alone, vec![network], network.name.clone())));
            trials.push((Way::One, vec![&together], together.name.clone()));
        }
        if flow.is_split() {
            trials.push((Way::Flood, networks.iter().collect(), "flood".to_owned()));
        }
        let trials = trials.into_iter().map(|(way, links, what)| {
            let sections =
                links.iter().map(|link| link.section(traces.path())).collect::<io::Result<String>>()?;
            let name = format!("window-{window}");
            let scenario = scenario(&name, window, &sections, way, traffic);
            Ok(Trial { way, name: format!("{name}-{what}"), scenario })
        });
        Ok(Case {
            number: window,
            spec: networks.iter().map(Recorded::words).collect::<Vec<_>>().join("; "),
            sum_mbps,
            nearest_ms: networks
                .iter()
                .map(|link| assumed(&link.name).round_trip_ms)
                .fold(f64::INFINITY, f64::min),
            trials: trials.collect::<io::Result<_>>()?,
            _traces: Some(traces),
        })
    }
}

/// The number in a column of a line, if it is one that can be.
fn number<T: FromStr>(cells: &[&str], column: usize, can_be: fn(&T) -> bool) -> Result<T, String> {
    let text = cells.get(column).copied().unwrap_or_default();
    text.parse().ok().filter(can_be).ok_or_else(|| text.to_owned())
}

fn is_rate(number: &f64) -> bool {
    number.is_finite() && *number >= 0.0
}

/// Where the traces of a case are.
pub(super) enum Traces {
    Kept(PathBuf),
    /// Until this is dropped.
    Temporary(TempDir),
}

impl Traces {
    fn new(keep: Option<PathBuf>) -> io::Result<Self> {
        let Some(keep) = keep else { return Ok(Self::Temporary(TempDir::new()?)) };
        fs::create_dir_all(&keep)?;
        std::path::absolute(keep).map(Self::Kept)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// The rates of a network in each second of a window.
struct Recorded {
    name: String,
    rates: Vec<f64>,
}

impl Recorded {
    /// One with the rates of all of them.
    fn together(all: &[Self]) -> Self {
        let seconds = all.iter().map(|network| network.rates.len()).min().unwrap_or(0);
        let rates = (0..seconds).map(|second| all.iter().map(|network| network.rates[second]).sum());
        Self { name: TOGETHER.to_owned(), rates: rates.collect() }
    }

    fn mean_mbps(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    fn most_mbps(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The mean, the least and the most.
    fn words(&self) -> String {
        let least = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{} {:.1} ({least}–{}) Mb/s", self.name, self.mean_mbps(), self.most_mbps())
    }

    /// The link as a scenario has it, with its trace in a file.
    fn section(&self, directory: &Path) -> io::Result<String> {
        let file = directory.join(format!("{}.trace", self.name));
        fs::write(&file, self.trace())?;
        let Assumed { round_trip_ms, jitter_ms, queue_ms } = assumed(&self.name);
        let packets = self.most_mbps() * 1e6 / 8.0 * f64::from(queue_ms) / 1000.0 / 1500.0;
        Ok(format!(
            "[[link]]\nname = \"{}\"\nbetween = [\"van\", \"hq\"]\ndelay = \"{}ms\"\n\
             [link.forward]\nrate = \"{:.1}mbit\"\nqueue = \"{queue_ms}ms\"\n\
             [link.back]\ntrace = {:?}\njitter = \"{jitter_ms}ms\"\nqueue = \"{} packets\"\n\n",
            self.name,
            round_trip_ms / 2.0,
            (self.mean_mbps() * UPLINK).max(LEAST_UPLINK_MBPS),
            file.display().to_string(),
            packets.round_ties_even().max(LEAST_QUEUE),
        ))
    }

    /// In Mahimahi's form. There is a second before those that are recorded, in which tunnels come up whatever the record says, and
    /// one after them; then it is repeated.
    fn trace(&self) -> String {
        let first = self.rates.first().map(|rate| rate.max(LEAST_AT_FIRST_MBPS));
        let seconds = first.iter().chain(&self.rates).chain(self.rates.last());
        let mut trace = String::new();
        let mut last = None;
        for (start, rate) in (0..).step_by(1000).zip(seconds) {
            #[expect(clippy::cast_possible_truncation, reason = "packets of a second")]
            let packets = (rate * 1e6 / PACKET_BITS).round_ties_even() as u64;
            for number in 1..=packets {
                let at = start + number * 1000 / packets;
                last = Some(at);
                // Nothing can go wrong with a text.
                let _ = writeln!(trace, "{at}");
            }
        }
        let end = (self.rates.len() as u64 + 2) * 1000;
        if last.is_none_or(|last| last < end - 1000) {
            trace += &format!("{end}\n");
        }
        trace
    }
}

fn assumed(network: &str) -> Assumed {
    let (round_trip_ms, jitter_ms, queue_ms) = match network {
        "starlink" => (50.0, 8, 200),
        "att" => (60.0, 8, 300),
        "tmobile" => (50.0, 8, 300),
        "wifi" => (15.0, 3, 150),
        TOGETHER => (50.0, 8, 250),
        // Like "verizon" and "cellular", whatever else it may be.
        _ => (55.0, 8, 300),
    };
    Assumed { round_trip_ms, jitter_ms, queue_ms }
}

/// The link that has the rates of all.
const TOGETHER: &str = "together";

/// An opportunity to send of a trace is for so much.
const PACKET_BITS: f64 = 12_000.0;

/// Of the mean of the downlink.
const UPLINK: f64 = 0.1;
const LEAST_UPLINK_MBPS: f64 = 1.0;

/// Before the record begins.
const LEAST_AT_FIRST_MBPS: f64 = 5.0;

/// Packets that any queue holds.
const LEAST_QUEUE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::super::Inner;
    use super::*;

    const RECORD: &str = "window,second,starlink,att\n1,0,1.2,0.024\n1,1,0.012,0\n1,2,0,9\n2,0,3,4\n";

    fn load(text: &str, links: &[&str], seconds: u32) -> Result<Drive, DriveError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive.csv");
        fs::write(&path, text).unwrap();
        Drive::load(&path, &links.iter().map(|&link| link.to_owned()).collect::<Vec<_>>(), seconds)
    }

    #[test]
    fn windows_that_are_too_short_are_left_out() {
        let windows = |seconds| load(RECORD, &["att"], seconds).map(|drive| drive.windows()).ok();
        assert_eq!([windows(1), windows(2), windows(4)], [Some(vec![1, 2]), Some(vec![1]), None]);
    }

    #[test]
    fn a_record_that_cannot_be_read_says_why() {
        let error = |text, link| load(text, &[link], 1).unwrap_err().to_string();
        assert!(error(RECORD, "verizon").contains("no column \"verizon\""));
        assert!(error("window,att\n1,fast\n", "att").contains("line 2"));
        assert!(error("window,att\n1\n", "att").contains("line 2"));
    }

    /// 1.2 Mb/s are a hundred packets of 1500 bytes in a second, 12 kb/s are one.
    #[test]
    fn a_trace_has_a_line_for_each_packet() {
        let trace = |rates: &[f64]| Recorded { name: "att".to_owned(), rates: rates.to_vec() }.trace();
        let lines: Vec<u64> = trace(&[1.2, 0.012, 0.024]).lines().map(|line| line.parse().unwrap()).collect();
        // 5 Mb/s before the record begins, so that the tunnel comes up.
        assert_eq!(lines.iter().filter(|&&at| at < 1000).count(), 416);
        let recorded: Vec<_> = lines.iter().copied().skip_while(|&at| at <= 1000).collect();
        assert_eq!(recorded[..3], [1010, 1020, 1030]);
        assert_eq!(recorded[98..], [1990, 2000, 3000, 3500, 4000, 4500, 5000]);
        // One that carries nothing at the end lasts as long.
        assert_eq!(trace(&[0.012, 0.0]).lines().last(), Some("4000"));
    }

    #[test]
    fn each_network_is_tried_alone_and_all_of_them_as_one() {
        let drive = load(RECORD, &["starlink", "att"], 3).unwrap();
        let keep = tempfile::tempdir().unwrap();
        let case = |flow| drive.case(1, flow, 3, Some(keep.path())).unwrap();
        let names = |case: &Case| case.trials.iter().map(|trial| trial.name.clone()).collect::<Vec<_>>();
        let flow = case(Flow::Tcp(Inner::Cubic));
        assert_eq!(
            names(&flow),
            ["window-1-tunnel", "window-1-starlink", "window-1-att", "window-1-together"]
        );
        assert_eq!(names(&case(Flow::Flood)), ["window-1-tunnel"]);
        assert_eq!(flow.spec, "starlink 0.4 (0–1.2) Mb/s; att 3.0 (0–9) Mb/s");
        assert_eq!(flow.nearest_ms, 50.0);
        for trial in &flow.trials {
            let scenario = crate::scenario::Scenario::parse(&trial.scenario, Path::new("drive"));
            scenario.unwrap_or_else(|error| panic!("{error}\n{}", trial.scenario));
        }
        let shown = flow.trials[0].scenario.replace(&keep.path().display().to_string(), "DIR");
        insta::assert_snapshot!(shown);
    }
}
