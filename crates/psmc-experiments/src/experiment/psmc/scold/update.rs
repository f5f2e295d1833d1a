//! Table 3.2: routes are published on many name servers.

use super::super::figures::SECURE_UPDATE;
use super::servers::Servers;
use super::stopwatch::{timed, times};
use super::{RUNS, output};
use crate::experiment::{Figure, Row, Setup};
use psmc_lab::bench::median;

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, seed) in SECURE_UPDATE {
        let label = if number == 1 { "1 server".to_owned() } else { format!("{number} servers") };
        if !setup.wants(&label) {
            continue;
        }
        let name = format!("update-{number}");
        let seconds = setup.seconds(SECONDS + number / 2);
        let times = setup.run(&name, &scenario(seconds, number));
        let times = times.map(|results| times_of(output(&results, "publish"))).unwrap_or_default();
        rows.push(Figure::new(label, "s", median(times)).seed(seed).at_most(LIMIT));
    }
    rows
}

/// One for each run; none for one that failed.
fn times_of(output: &str) -> Vec<Option<f64>> {
    let times = times(output, LABEL);
    (0..RUNS as usize).map(|run| times.get(run).copied()).collect()
}

fn scenario(seconds: u32, number: u32) -> String {
    let servers = Servers { number, host: "servers", addresses: &["10.1.0.2"] };
    let script = servers.wait() + &timed(LABEL, &servers.publish()).repeat(RUNS as usize);
    format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"coordinator\", \"servers\"]\n\
         addresses = [\"10.1.0.1/24\", \"10.1.0.2/24\"]\ndelay = \"24.5ms\"\n\n{}\
         [[program]]\nname = \"publish\"\nhost = \"coordinator\"\nstart = \"2s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''{script}''']\n",
        servers.programs()
    )
}

const LABEL: &str = "published";

/// In s.
const LIMIT: f64 = 1.0;

/// Of each run, beside what many servers take to start.
const SECONDS: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_is_missed() {
        assert_eq!(times_of("published 250000000\npublished 500000000\n"), [Some(0.25), Some(0.5), None]);
    }
}
