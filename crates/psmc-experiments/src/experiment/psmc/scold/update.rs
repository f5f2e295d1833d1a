//! Tables 3.2 and 3.4: routes are published on many name servers, and on some behind a line that is attacked.

use psmc_lab::bench::median;
use psmc_lab::results::Results;

use super::servers::{Servers, timed, times};
use super::{RUNS, output};
use crate::experiment::psmc::relayed::network::{FILES, Network, Route};
use crate::experiment::psmc::{REROUTE, SECURE_UPDATE};
use crate::experiment::{Figure, Row, Setup};

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

pub(super) fn measure_attacked(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, seed) in REROUTE {
        let group = if number == 1 { "1 server".to_owned() } else { format!("{number} servers") };
        if !setup.wants_any(&group, LABELS) {
            continue;
        }
        let servers = Servers { number, host: "target", addresses: &[DIRECT, FILES.target] };
        let mut run = |name: &str, attack, best| {
            let seconds = setup.seconds(best);
            let network = Network { attack, ..Network::by(Route::Relayed) };
            setup.run(name, &attacked_scenario(&network, seconds, servers))
        };
        let calm = run(&format!("reroute-{number}"), None, CALM_SECONDS);
        let attacked = run(&format!("reroute-{number}-attacked"), Some(ATTACK), ATTACKED_SECONDS);
        let plain_attacked = attacked.as_ref().and_then(|results| middle(results, PLAIN, Some(PATIENCE)));
        let figure = |column: usize, ours| {
            Figure::new(format!("{group}, {}", LABELS[column]), "s", ours).seed(seed[column])
        };
        let of = |results: &Option<Results>, label| middle(results.as_ref()?, label, None);
        rows.extend([
            figure(0, of(&calm, PLAIN)).shown(),
            figure(1, of(&calm, REROUTED)).shown(),
            figure(2, plain_attacked).shown(),
            figure(3, of(&attacked, REROUTED)).at_most(plain_attacked),
        ]);
    }
    rows
}

/// The median of all times, one that is missing counting as this many seconds if it may be missing.
fn middle(results: &Results, label: &str, missing: Option<u32>) -> Option<f64> {
    let times = times(output(results, "update"), label);
    median((0..RUNS as usize).map(|run| times.get(run).copied().or(missing.map(f64::from))))
}

fn attacked_scenario(network: &Network, seconds: u32, servers: Servers) -> String {
    let reroute = timed(REROUTED, &servers.publish());
    let plain = timed(PLAIN, &servers.plain_update(PATIENCE));
    let script = servers.wait() + &(reroute + &plain).repeat(RUNS as usize);
    format!(
        "{}{}[[program]]\nname = \"update\"\nhost = \"client\"\nstart = \"{START}s\"\noutput = true\n\
         command = [\"sh\", \"-c\", '''{script}''']\n",
        network.scenario(seconds, &[]),
        servers.programs(),
    )
}

const LABELS: [&str; 4] = ["nsupdate", "reroute", "nsupdate, attacked", "reroute, attacked"];

const PLAIN: &str = "plain";
const REROUTED: &str = "rerouted";

/// The servers' address on the direct way.
const DIRECT: &str = "10.2.0.2";

/// In Mb/s: ten times what the direct way carries.
const ATTACK: u32 = 100;

/// How long `nsupdate` is waited for, in s.
const PATIENCE: u32 = 30;

/// When the updates begin, in s: the attack has begun by then.
const START: u32 = 12;

/// Of each run: under attack every `nsupdate` may take as long as it is waited for.
const CALM_SECONDS: u32 = 30;
const ATTACKED_SECONDS: u32 = 125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_is_missed() {
        assert_eq!(times_of("published 250000000\npublished 500000000\n"), [Some(0.25), Some(0.5), None]);
    }
}
