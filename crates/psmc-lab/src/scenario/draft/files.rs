//! Files that a scenario names: traces of rates, and samples of delays.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmc_sim::link::Trace;
use psmc_toml::{Complaint, describe, remedy_for};
use toml::Spanned;

use crate::scenario::value::TIME;

/// Largest file that is read. A trace of a day at 10 Mbit/s has 72 million lines, and nobody records one.
const MAX_SIZE: u64 = 64 << 20;

/// A trace of delivery opportunities, in the format of Mahimahi.
pub(super) fn trace(
    path: &Spanned<PathBuf>,
    directory: &Path,
    out: &mut Vec<Complaint>,
) -> Option<Arc<Trace>> {
    let text = text(path, directory, out)?;
    let trace = Trace::parse(&text).map_err(|error| {
        let reason = format!("{} is no trace: {error}", path.get_ref().display());
        let remedy =
            "it takes a line for each packet that can leave: milliseconds from the start, not decreasing";
        out.push(Complaint::new(reason, remedy).at(path.span()));
    });
    trace.ok().map(Arc::new)
}

/// Delays, a line each.
pub(super) fn delays(
    path: &Spanned<PathBuf>,
    directory: &Path,
    out: &mut Vec<Complaint>,
) -> Option<Arc<[Duration]>> {
    let text = text(path, directory, out)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let shown = path.get_ref().display();
    let mut delays = Vec::new();
    for (index, line) in lines {
        let Some(delay) = delay(line.trim()) else {
            let reason = format!("line {} of {shown} is not a delay: {line:?}", index + 1);
            out.push(Complaint::new(reason, DELAYS_REMEDY).at(path.span()));
            return None;
        };
        delays.push(delay);
    }
    if delays.is_empty() {
        out.push(Complaint::new(format!("{shown} has no delays in it"), DELAYS_REMEDY).at(path.span()));
        return None;
    }
    Some(delays.into())
}

const DELAYS_REMEDY: &str =
    "write a delay in each line, in milliseconds or with a unit, such as 1.25 or 800us";

fn delay(line: &str) -> Option<Duration> {
    let with_unit =
        if line.ends_with(|c: char| c.is_ascii_digit()) { format!("{line}ms") } else { line.to_owned() };
    TIME.read(&with_unit).ok()
}

/// The text of a file. Relative paths start at the scenario's directory.
fn text(path: &Spanned<PathBuf>, directory: &Path, out: &mut Vec<Complaint>) -> Option<String> {
    let shown = path.get_ref().display();
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::InvalidData {
            let remedy = "check the path: it should have a number in each line";
            return Complaint::new(format!("{shown} is not a text"), remedy);
        }
        Complaint::new(format!("cannot read {shown}: {}", describe(&error)), remedy_for(&error))
    };
    let text = read(&directory.join(path.get_ref()))
        .map_err(|error| out.push(failed(error).at(path.span())))
        .ok()?;
    if text.len() as u64 > MAX_SIZE {
        let reason = format!("{shown} is larger than {} MiB", MAX_SIZE >> 20);
        out.push(Complaint::new(reason, "check the path, or shorten the file").at(path.span()));
        return None;
    }
    Some(text)
}

/// At most one byte more than is allowed, so that the caller can tell.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SIZE + 1).read_to_string(&mut text)?;
    Ok(text)
}
