//! Tables 3.1 and 3.8: from the alert to clients on the indirect route, and what adding and deleting that of one takes.

use psmc_lab::bench::median;
use psmc_lab::results::{LinkResult, Results};
use psmc_net::keys::PrivateKey;
use serde::Deserialize;

use super::{RUNS, output};
use crate::experiment::psmc::relayed::network::{FILES, Network, Route, daemon, program};
use crate::experiment::psmc::{ROUTE_CHANGE, SCOLD_SET_UP};
use crate::experiment::{Figure, Row, Setup};

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let [deleted, added] = ["route delete", "route add"];
    if !setup.wants(deleted) && !setup.wants(added) {
        return Vec::new();
    }
    let results = setup.run("routes", &scenario());
    let rest = |from: fn(u32) -> f64, before, after| {
        let results = results.as_ref()?;
        median((0..RUNS).map(|run| change(results, from(run), before, after)))
    };
    let row = |label, ours, seed| Figure::new(label, "s", ours).seed(seed).at_most(2.0 * ROUND_TRIP);
    let [seed_deleted, seed_added] = ROUTE_CHANGE;
    vec![
        row(deleted, rest(clear_at, INDIRECT, MAIN), seed_deleted),
        row(added, rest(set_at, MAIN, INDIRECT), seed_added),
    ]
}

/// How long after a moment the last data arrive by one link; `None` unless another carries them then.
fn change(results: &Results, from: f64, before: &str, after: &str) -> Option<f64> {
    let carried = |link: &str| carries(results, link, from);
    let last = carried(before)?.reduce(f64::max).unwrap_or(from);
    carried(after)?.any(|at| at > last.max(from + STEP - 1.0)).then_some(last - from)
}

/// The ends of the intervals within a step after a moment in which a link carried data towards the target.
fn carries<'a>(results: &'a Results, link: &str, from: f64) -> Option<impl Iterator<Item = f64> + use<'a>> {
    let towards = |way: &&LinkResult| way.name == link && way.from == "internet";
    let samples = results.links.iter().find(towards)?.rate_series_mbps.iter();
    let within = move |at: f64| at > from && at <= from + STEP;
    Some(samples.filter(move |sample| within(sample.at_s) && sample.value >= CARRIES).map(|it| it.at_s))
}

fn set_at(run: u32) -> f64 {
    FIRST + f64::from(run) * 2.0 * STEP
}

fn clear_at(run: u32) -> f64 {
    set_at(run) + STEP
}

/// The target's registration with a relay, and a client that knows of no relay until it is told.
fn scenario() -> String {
    let network = Network { sample_ms: SAMPLE_MS, ..Network::by(Route::Direct) };
    let [relay, target, client] = [PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate()];
    let files = files(&relay, &target, &client);
    let mut text = network.scenario(SECONDS, &[]);
    text += &program("files", "client", "0s", &format!("[\"sh\", \"-c\", '''{files}''']"));
    for (name, host, start) in
        [("relay", "proxy", "1s"), ("target", "target", "1.5s"), ("client", "client", "2s")]
    {
        let kind = if name == "relay" { "psmc-relay" } else { "psmcd" };
        text += &program(&format!("{name}d"), host, start, &daemon(kind, name));
    }
    let route = format!("10.3.0.2:5115={}", relay.public());
    for run in 0..RUNS {
        let set = format!("\"set\", \"target\", \"--relay\", \"{route}\", \"--for\", \"10m\"");
        for (name, at, command) in
            [("set", set_at(run), &*set), ("clear", clear_at(run), "\"clear\", \"target\"")]
        {
            let command = format!("[\"psmc\", \"--socket\", \"{{dir}}/client.sock\", \"routes\", {command}]");
            text += &program(&format!("{name}{run}"), "client", &format!("{at}s"), &command);
        }
    }
    text + &format!(
        "[[traffic]]\nname = \"data\"\nkind = \"udp\"\nfrom = \"client\"\nto = \"target\"\naddress = \"{}\"\n\
         rate = \"4mbit\"\nstart = \"4s\"\n",
        FILES.target
    )
}

fn files(relay: &PrivateKey, target: &PrivateKey, client: &PrivateKey) -> String {
    let [relay_public, target_public, client_public] = [relay, target, client].map(PrivateKey::public);
    let keys: String = [("relay", relay), ("target", target), ("client", client)]
        .map(|(name, key)| format!("echo {} > {name}.key\n", key.to_base64().as_str()))
        .concat();
    let of = |name: &str| {
        format!(
            "name = \"{name}\"\nprivate_key_file = \"{name}.key\"\ncontrol_socket = \"{{dir}}/{name}.sock\"\n"
        )
    };
    format!(
        "umask 077; cd {{dir}}\n{keys}\
         cat > relay.toml <<END\n[relay]\n{}destinations = [\"10.0.0.0/8\"]\n\
         [[allow]]\nname = \"client\"\npublic_key = \"{client_public}\"\n\
         [[allow]]\nname = \"target\"\npublic_key = \"{target_public}\"\ngateway = true\nEND\n\
         cat > target.toml <<END\n[site]\n{}addresses = [\"10.77.0.1/32\"]\nlisten = 5115\nregister = [\"proxy\"]\n\
         [[peer]]\nname = \"client\"\npublic_key = \"{client_public}\"\n\
         allowed_ips = [\"10.78.0.1/32\", \"{}/32\"]\n\
         [[relay]]\nname = \"proxy\"\naddress = \"10.4.0.1:5115\"\npublic_key = \"{relay_public}\"\nEND\n\
         cat > client.toml <<END\n[site]\n{}addresses = [\"10.78.0.1/32\"]\nlisten = 5115\n\
         [[peer]]\nname = \"target\"\npublic_key = \"{target_public}\"\nroutes = \"prefer-indirect\"\n\
         allowed_ips = [\"10.77.0.1/32\", \"{}/32\"]\n\
         [[peer.path]]\nname = \"direct\"\nendpoint = \"10.2.0.2:5115\"\nEND\n",
        of("relay"),
        of("target"),
        FILES.client,
        of("client"),
        FILES.target,
    )
}

/// The links by which data leave the internet, directly and through the relay.
const MAIN: &str = "main";
const INDIRECT: &str = "proxied";

/// Through the relay, in s.
const ROUND_TRIP: f64 = 0.087;

/// When the first route is set, in s, and how long it stays; the direct way has settled by then.
const FIRST: f64 = 6.0;
const STEP: f64 = 3.0;

const SECONDS: u32 = 25;

/// In Mb/s: two packets of data in an interval, where there are four if all go that way, and more than a way is probed with.
const CARRIES: f64 = 2.0;

const SAMPLE_MS: u32 = 10;

/// What the demonstration prints of itself; a time is absent if what it is about never happened.
#[derive(Debug, Deserialize)]
struct Demo {
    published_ms: Option<f64>,
    route_up_ms: Option<f64>,
}

pub(super) fn measure_set_up(setup: &mut Setup<'_>) -> Vec<Row> {
    if !LABELS.iter().any(|label| setup.wants(label)) {
        return Vec::new();
    }
    let seconds = setup.seconds(SET_UP_SECONDS);
    let demo = |run| {
        let name = format!("set-up-{run}");
        let results = setup.run(&name, &scenario_of_set_up(seconds))?;
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
fn scenario_of_set_up(seconds: u32) -> String {
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
const SET_UP_SECONDS: u32 = 55;

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
