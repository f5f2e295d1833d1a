//! The same scenario in real time and simulated: on each of seven networks the goodput agrees. Needs root, like every lab.

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

/// Seven networks: the name, each link, whether there is a tunnel over them, and the traffic from `hq` to `van`.
const PROFILES: [(&str, &[&str], bool, &str); 7] = [
    ("one link", &["rate = '20mbit'\ndelay = '10ms'"], false, "kind = 'tcp'"),
    (
        "one long link, Reno",
        &["rate = '10mbit'\ndelay = '40ms'"],
        false,
        "kind = 'tcp'\ncongestion_control = 'reno'",
    ),
    (
        "one long link with a short queue, BBR",
        &["rate = '10mbit'\ndelay = '25ms'\nqueue = '20 packets'"],
        false,
        "kind = 'tcp'\ncongestion_control = 'bbr'",
    ),
    (
        "lossy link, BBR",
        &["rate = '10mbit'\ndelay = '25ms'\nloss = '2%'"],
        false,
        "kind = 'tcp'\ncongestion_control = 'bbr'",
    ),
    (
        "lossy link, UDP",
        &["rate = '20mbit'\ndelay = '10ms'\nloss = '3%'"],
        false,
        "kind = 'udp'\nrate = '8mbit'\npayload = 1200",
    ),
    ("tunnel over two equal links", &["rate = '15mbit'\ndelay = '10ms'"; 2], true, "kind = 'tcp'"),
    (
        "tunnel over uneven links",
        &["rate = '20mbit'\ndelay = '10ms'", "rate = '5mbit'\ndelay = '20ms'"],
        true,
        "kind = 'tcp'",
    ),
];

#[test]
fn real_time_and_virtual_time_agree_in_goodput() {
    steadily(Measured::Rate, || {
        let programs = psmc_testbed::programs::program("psmcd").parent().map(Path::to_owned);
        let options = RunOptions { quiet: true, programs, ..RunOptions::default() };
        let scenario = scenario();
        let simulated = goodputs(&simulate(&scenario).unwrap());
        let mut agreeing = [0; PROFILES.len()];
        for run_number in 1..=RUNS {
            let results = run(&scenario, &options).unwrap();
            let stalls = results.stalls.unwrap();
            println!("run {run_number}: {stalls:?}");
            for (profile, real) in goodputs(&results).into_iter().enumerate() {
                let (name, simulated) = (PROFILES[profile].0, simulated[profile]);
                println!("{name}: real {real:.2} Mbit/s, simulated {simulated:.2} Mbit/s");
                agreeing[profile] += usize::from(agree(real, simulated, stalls));
            }
            // There is nothing to learn from further ones when most have agreed.
            if agreeing.iter().all(|count| *count >= MOST) {
                return;
            }
        }
        panic!("of {RUNS} runs so many agree by {TOLERANCE}: {agreeing:?}");
    });
}

/// Nothing more than what is simulated, and nothing less while both processors run that it takes.
fn agree(real: f64, simulated: f64, stalls: StallResult) -> bool {
    let runs = 1.0 - stalls.share_percent / 100.0;
    ((1.0 - TOLERANCE) * runs * runs..=1.0 + TOLERANCE).contains(&(real / simulated))
}

/// All networks side by side, each with hosts of its own: what takes one the time of a run takes all of them no more.
fn scenario() -> Scenario {
    let mut text = "[scenario]\nname = 'agreement'\nduration = '6s'\n".to_owned();
    for (number, (_, links, has_tunnel, traffic)) in PROFILES.iter().enumerate() {
        let between = format!("between = ['van{number}', 'hq{number}']");
        for (link, settings) in links.iter().enumerate() {
            text += &format!("[[link]]\nname = 'link{number}-{link}'\n{between}\n{settings}\n");
        }
        text += &format!(
            "[[traffic]]\nname = 'stream{number}'\nfrom = 'hq{number}'\nto = 'van{number}'\n{traffic}\n"
        );
        if *has_tunnel {
            text += &format!("via = 'vpn{number}'\n[[tunnel]]\nname = 'vpn{number}'\n{between}\n");
        }
    }
    let parsed = Scenario::parse(&text, Path::new("agreement.toml"));
    parsed.unwrap_or_else(|error| panic!("{}", error.render(false)))
}

fn goodputs(results: &Results) -> Vec<f64> {
    results.traffic.iter().map(|stream| stream.goodput_mbps).collect()
}
