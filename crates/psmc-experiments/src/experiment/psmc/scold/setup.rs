//! Table 3.1: from the alert to clients on the indirect route.

use serde::Deserialize;

use super::super::figures::SCOLD_SET_UP;
use super::{RUNS, output};
use crate::experiment::{Figure, Row, Setup};
use psmc_lab::bench::median;

/// What the demonstration prints of itself; a time is absent if what it is about never happened.
#[derive(Debug, Deserialize)]
struct Demo {
    published_ms: Option<f64>,
    route_up_ms: Option<f64>,
}

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    if !LABELS.iter().any(|label| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(SECONDS);
    let demo = |run| {
        let name = format!("set-up-{run}");
        let results = setup.run(&name, &scenario(seconds))?;
        report(output(&results, "demo"))
    };
    let demos: Vec<_> = (0..RUNS).map(demo).collect();
    let middle = |time: fn(&Demo) -> Option<f64>| {
        median(demos.iter().map(|demo| demo.as_ref().and_then(time))).map(|ms| ms / 1e3)
    };
    let published = middle(|demo| demo.published_ms);
    let around = middle(|demo| Some((demo.route_up_ms? - demo.published_ms?).max(0.0)));
    let total = middle(|demo| demo.route_up_ms);
    let [first, second, third] = SCOLD_SET_UP;
    vec![
        Figure::new(LABELS[0], "s", published).seed(first + second).shown(),
        Figure::new(LABELS[1], "s", around).seed(third).shown(),
        Figure::new(LABELS[2], "s", total).seed(first + second + third).at_most(TOTAL),
    ]
}

/// What stands behind the lines that tell how the demonstration goes on.
fn report(output: &str) -> Option<Demo> {
    let start = output.match_indices('{').find(|(at, _)| output[..*at].ends_with('\n') || *at == 0)?.0;
    serde_json::from_str(&output[start..]).ok()
}

/// A host for the demonstration, which makes all others itself.
fn scenario(seconds: u32) -> String {
    format!(
        "duration = \"{seconds}s\"\n\n\
         [[link]]\nname = \"line\"\nbetween = [\"stage\", \"elsewhere\"]\n\n\
         [[program]]\nname = \"demo\"\nhost = \"stage\"\noutput = true\n\
         command = [\"psmc\", \"demo\", \"--attack\", \"--json\"]\n"
    )
}

/// The seed has the first in two steps: the coordinator tells the proxies, and they update DNS.
const LABELS: [&str; 3] = ["steps 1 and 2: relays published", "step 3: clients around", "total"];

/// Of each run: the demonstration takes 40 s.
const SECONDS: u32 = 55;

/// In s.
const TOTAL: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "  0.21 s  {www} is flooded\n{\n  \"published_ms\": 210.5,\n  \"route_up_ms\": null,\n  \"hash_ok\": true\n}\n";
        let demo = report(text).unwrap();
        assert_eq!((demo.published_ms, demo.route_up_ms), (Some(210.5), None));
        assert!(report("cannot make a namespace\n").is_none());
    }
}
