//! Classes with a profile: what is marked, and what networks see of it.

use std::process::Command;
use std::time::Duration;

use psmc_testbed::poll::wait_for;
use psmc_testbed::programs::program;

use crate::harness::{Family, Plan, Site, Tunnel};

const PATIENCE: Duration = Duration::from_secs(10);

const CLASSES: &str = "
[[class]]
name = \"customer\"
from = [\"10.77.0.2/32\"]
profile = { rate = \"500kbit\", burst = \"16kB\" }
mark = \"AF1\"
";

/// What leaves the far site, by code point, and whether ECN's bits are as they were sent.
const INNER: &str = "table inet marks {
    counter af11 {}
    counter af12 {}
    counter af13 {}
    counter others {}
    counter ect0 {}
    counter other_ecn {}
    chain input {
        type filter hook input priority 0;
        ip saddr != 10.77.0.2 accept
        meta l4proto icmp ip ecn ect0 counter name ect0
        meta l4proto icmp ip ecn != ect0 counter name other_ecn
        ip dscp af11 counter name af11 accept
        ip dscp af12 counter name af12 accept
        ip dscp af13 counter name af13 accept
        counter name others
    }
}";

/// Whether queues of the host could tell the tunnel's datagrams apart. The kernel gives what it says of multicast groups
/// (MLD, RFC 3810) a priority.
const OUTER: &str = "table inet outer {
    counter datagrams {}
    counter told_apart {}
    chain output {
        type filter hook postrouting priority 0;
        meta l4proto != udp accept
        udp dport != 5115 accept
        counter name datagrams
        ip dscp != 0 counter name told_apart
        meta priority != 0:0 counter name told_apart
    }
}";

fn counted(site: &Site, table: &str, counter: &str) -> u64 {
    let text = site.run(&["nft", "list", "counter", "inet", table, counter]);
    let words: Vec<_> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "packets").unwrap();
    words[at + 1].parse().unwrap()
}

fn marked(site: &Site) -> [u64; 3] {
    let status = site.status().conditioners.remove(0);
    assert_eq!((status.class.as_str(), status.mode.as_str()), ("customer", "adaptive"));
    ["dp0", "dp1", "dp2"].map(|precedence| status.marked[precedence].packets)
}

#[test]
fn what_leaves_the_far_site_has_the_marks_that_were_counted_and_its_own_ecn_bits() {
    let tunnel = Tunnel::start(Plan { classes: CLASSES, ..Plan::default() });
    tunnel.hq.run(&["nft", INNER]);
    tunnel.van.run(&["nft", OUTER]);
    let before = marked(&tunnel.van);
    // ECT(0) is what is sent, many times the profile; and no packets that the kernel takes as one.
    let hq = tunnel.hq.inner(Family::V4).to_string();
    tunnel.van.run(&["ping", "-f", "-q", "-c", "1500", "-s", "1200", "-Q", "2", &hq]);
    let (sent, arrived) = wait_for("all that was marked to leave", PATIENCE, || {
        let sent = marked(&tunnel.van);
        let sent: [u64; 3] = std::array::from_fn(|dp| sent[dp] - before[dp]);
        let arrived = ["af11", "af12", "af13"].map(|name| counted(&tunnel.hq, "marks", name));
        (sent == arrived).then_some((sent, arrived))
    });
    println!("marked {sent:?}, left {arrived:?}");
    assert_eq!(sent.iter().sum::<u64>(), 1500, "{sent:?}");
    assert!(sent.iter().all(|&packets| packets >= 10), "{sent:?}");
    assert_eq!(counted(&tunnel.hq, "marks", "others"), 0);
    assert_eq!(counted(&tunnel.hq, "marks", "other_ecn"), 0);
    assert_eq!(counted(&tunnel.hq, "marks", "ect0"), 1500);
    assert!(counted(&tunnel.van, "outer", "datagrams") > 1000);
    assert_eq!(counted(&tunnel.van, "outer", "told_apart"), 0, "a queue of the host may reorder them");
}

#[test]
fn the_profiles_can_be_said_to_nftables() {
    let more = "
[[class]]
name = \"calls\"
dscp = [\"EF\", \"NQB\"]
protocol = [\"udp\"]
ports = [5060, \"10000-20000\"]

[[class]]
name = \"branch\"
from = [\"10.1.0.0/16\", \"fd01::/48\"]
to = [\"10.2.0.0/16\"]
profile = { rate = \"5mbit\" }
mark = \"AF4\"
conditioner = \"standard\"
";
    let classes: &'static str = format!("{CLASSES}{more}").leak();
    let tunnel = Tunnel::prepare(Plan { classes, ..Plan::default() });
    let summary = tunnel.van.check();
    assert!(
        summary.contains("branch: 5mbit, bursts of 64000 bytes, conditioner standard, marked AF4x"),
        "{summary}"
    );
    let file = tunnel.van.file("toml");
    let exported =
        Command::new(program("psmc")).args(["conditioner", "export", "--nft"]).arg(&file).output().unwrap();
    assert!(exported.status.success(), "{exported:?}");
    let text = String::from_utf8(exported.stdout).unwrap();
    println!("{text}");
    let rules = file.with_extension("nft");
    std::fs::write(&rules, &text).unwrap();
    let rules = rules.to_str().unwrap();
    tunnel.van.run(&["nft", "-c", "-f", rules]);
    tunnel.van.run(&["nft", "-f", rules]);
    let listed = tunnel.van.run(&["nft", "list", "table", "inet", "psmc_conditioner"]);
    for expected in ["ip dscp set af41", "ip6 dscp set af43", "goto profile_1", "ip daddr 10.2.0.0/16"] {
        assert!(listed.contains(expected), "{expected}: {listed}");
    }
}
