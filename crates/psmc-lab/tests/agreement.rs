//! The same scenario in real time and simulated: on five networks the goodput agrees. Needs root, like every lab.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::path::Path;

use psmc_lab::results::Results;
use psmc_lab::run::{RunOptions, run};
use psmc_lab::scenario::Scenario;
use psmc_lab::sim::simulate;

/// How far the simulated goodput may be from the real one.
const TOLERANCE: f64 = 0.10;

/// How many real runs the median is taken of: a machine may be busy with something else during one.
const RUNS: usize = 3;

/// Five networks: the name, the links and tunnels, and the traffic from `hq` to `van`.
const PROFILES: [(&str, &str, &str); 5] = [
    ("one link", LINK_20, "kind = \"tcp\""),
    ("one long link, Reno", LINK_LONG, "kind = \"tcp\"\ncongestion_control = \"reno\""),
    ("lossy link, UDP", LINK_LOSSY, "kind = \"udp\"\nrate = \"8mbit\"\npayload = 1200"),
    ("tunnel over two equal links", TWO_EQUAL, "kind = \"tcp\"\nvia = \"vpn\""),
    ("tunnel over uneven links", UNEVEN, "kind = \"tcp\"\nvia = \"vpn\""),
];

const LINK_20: &str =
    "[[link]]\nname = \"dsl\"\nbetween = [\"van\", \"hq\"]\nrate = \"20mbit\"\ndelay = \"10ms\"\n";

const LINK_LONG: &str =
    "[[link]]\nname = \"sat\"\nbetween = [\"van\", \"hq\"]\nrate = \"10mbit\"\ndelay = \"40ms\"\n";

const LINK_LOSSY: &str = "[[link]]\nname = \"air\"\nbetween = [\"van\", \"hq\"]\nrate = \"20mbit\"\ndelay = \"10ms\"\nloss = \"3%\"\n";

const TWO_EQUAL: &str = "\
[[link]]\nname = \"dsl\"\nbetween = [\"van\", \"hq\"]\nrate = \"15mbit\"\ndelay = \"10ms\"\n\
[[link]]\nname = \"lte\"\nbetween = [\"van\", \"hq\"]\nrate = \"15mbit\"\ndelay = \"10ms\"\n\
[[tunnel]]\nname = \"vpn\"\nbetween = [\"van\", \"hq\"]\n";

const UNEVEN: &str = "\
[[link]]\nname = \"dsl\"\nbetween = [\"van\", \"hq\"]\nrate = \"20mbit\"\ndelay = \"10ms\"\n\
[[link]]\nname = \"lte\"\nbetween = [\"van\", \"hq\"]\nrate = \"5mbit\"\ndelay = \"20ms\"\n\
[[tunnel]]\nname = \"vpn\"\nbetween = [\"van\", \"hq\"]\n";

#[test]
fn real_time_and_virtual_time_agree_in_goodput() {
    let programs = common::program("psmcd").parent().map(Path::to_owned);
    let options = RunOptions { quiet: true, programs, ..RunOptions::default() };
    let mut apart = Vec::new();
    for (name, network, traffic) in PROFILES {
        let scenario = scenario(network, traffic);
        let mut real: Vec<f64> = (0..RUNS)
            .map(|_| goodput(&run(&scenario, &options).unwrap_or_else(|error| panic!("{name}: {error:?}"))))
            .collect();
        real.sort_by(f64::total_cmp);
        let real = real[RUNS / 2];
        let simulated = goodput(&simulate(&scenario).unwrap_or_else(|error| panic!("{name}: {error:?}")));
        println!("{name}: real {real:.2} Mbit/s, simulated {simulated:.2} Mbit/s");
        if (simulated / real - 1.0).abs() > TOLERANCE {
            apart.push(name);
        }
    }
    assert!(apart.is_empty(), "these disagree by more than {TOLERANCE}: {apart:?}");
}

fn scenario(network: &str, traffic: &str) -> Scenario {
    let text = format!(
        "[scenario]\nname = \"agreement\"\nduration = \"6s\"\n{network}\
         [[traffic]]\nname = \"stream\"\nfrom = \"hq\"\nto = \"van\"\n{traffic}\n"
    );
    let parsed = Scenario::parse(&text, Path::new("agreement.toml"));
    parsed.unwrap_or_else(|error| panic!("{}", error.render(false)))
}

fn goodput(results: &Results) -> f64 {
    results.traffic[0].goodput_mbps
}
