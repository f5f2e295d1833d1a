//! The same scenario in real time and simulated: on five networks the goodput agrees. Needs root, like every lab.

use std::path::Path;

use psmc_lab::results::{Results, StallResult};
use psmc_lab::run::{RunOptions, run};
use psmc_lab::scenario::Scenario;
use psmc_lab::sim::simulate;
use psmc_testbed::steadily::{Measured, steadily};

/// How far the simulated goodput may be from the real one.
const TOLERANCE: f64 = 0.10;

/// How many real runs there are, most of which must agree: a machine may be busy with something else during one.
const RUNS: usize = 3;

/// So many are most of them.
const MOST: usize = RUNS / 2 + 1;

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
    steadily(Measured::Rate, || {
        let programs = psmc_testbed::programs::program("psmcd").parent().map(Path::to_owned);
        let options = RunOptions { quiet: true, programs, ..RunOptions::default() };
        let mut apart = Vec::new();
        for (name, network, traffic) in PROFILES {
            let scenario = scenario(network, traffic);
            let simulated = goodput(&simulate(&scenario).unwrap_or_else(|error| panic!("{name}: {error:?}")));
            let agrees = |_: &usize| {
                let real = run(&scenario, &options).unwrap_or_else(|error| panic!("{name}: {error:?}"));
                let stalls = real.stalls.unwrap();
                println!(
                    "{name}: real {:.2} Mbit/s, simulated {simulated:.2} Mbit/s, {stalls:?}",
                    goodput(&real)
                );
                agree(goodput(&real), simulated, stalls)
            };
            // There is nothing to learn from further ones when most have agreed.
            let agreeing = (0..RUNS).filter(agrees).take(MOST).count();
            if agreeing < MOST {
                apart.push(name);
            }
        }
        assert!(apart.is_empty(), "these disagree by more than {TOLERANCE}: {apart:?}");
    });
}

/// Nothing more than what is simulated, and nothing less while both processors run that it takes.
fn agree(real: f64, simulated: f64, stalls: StallResult) -> bool {
    let runs = 1.0 - stalls.share_percent / 100.0;
    ((1.0 - TOLERANCE) * runs * runs..=1.0 + TOLERANCE).contains(&(real / simulated))
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
