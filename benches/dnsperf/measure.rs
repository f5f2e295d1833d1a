//! What `dnsperf` finds.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use psmc_testbed::netns::Namespace;

use crate::programs;
use crate::zone::Load;

/// Questions on the way at a time at full load: as many as dnsperf's default.
const AT_ONCE: &str = "100";

/// What came of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Answers in a second, with [`AT_ONCE`] questions on the way.
    pub(crate) per_second: f64,
    /// Of the time between question and answer, in microseconds, with one question on the way.
    pub(crate) median_us: f64,
}

/// Asks the server of a namespace.
pub(crate) fn measure(
    namespace: &Namespace,
    directory: &Path,
    load: Load,
    seconds: u32,
) -> Result<Figures, Box<dyn Error>> {
    let questions = directory.join("questions");
    fs::write(&questions, load.questions())?;
    let ask = |more: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "dnsperf", "-s", "127.0.0.1", "-l", &seconds.to_string(), "-d"]);
        command.arg(&questions).args(more);
        programs::output(namespace, &mut command)
    };
    let full = ask(&["-q", AT_ONCE])?;
    let single = ask(&["-q", "1", "-v"])?;
    for text in [&full, &single] {
        all_answered(text)?;
    }
    Ok(Figures { per_second: after(&full, "Queries per second:")?, median_us: median_us(&single)? })
}

/// The number behind a title.
fn after(text: &str, title: &str) -> Result<f64, Box<dyn Error>> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(title));
    let word = line.and_then(|line| line.split_whitespace().next());
    Ok(word.ok_or_else(|| format!("dnsperf says nothing of {title} {text}"))?.parse()?)
}

/// A server that answers with errors is quick.
fn all_answered(text: &str) -> Result<(), Box<dyn Error>> {
    let codes = text.lines().find_map(|line| line.trim().strip_prefix("Response codes:"));
    let codes = codes.unwrap_or_default().trim();
    if codes.starts_with("NOERROR") && !codes.contains(',') && after(text, "Queries lost:")? < 1.0 {
        return Ok(());
    }
    Err(format!("not all questions were answered: {text}").into())
}

/// Each answer has a line of its own: `> NOERROR service1.example.com A 0.000123`.
fn median_us(text: &str) -> Result<f64, Box<dyn Error>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("> NOERROR "));
    let mut times: Vec<f64> = lines.filter_map(|line| line.split_whitespace().nth(2)?.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.get(times.len() / 2).ok_or("dnsperf tells no times")?;
    Ok(middle * 1e6)
}
