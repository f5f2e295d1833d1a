//! Tunnels that share a link with each other, and with TCP.

use super::{FAIRNESS, FRIENDLINESS};
use crate::experiment::bed::mean;
use crate::experiment::{Experiment, Figure, Row, Setup};
use psmc_lab::results::Results;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-4.2",
        what: "fairness: two tunnels of two paths each, one of which goes over a link they share",
        seed: "PSMC table 4.2: the test bed of figure 4.8, links of 5 Mb/s",
        how: LINKS,
        criterion: "within 10 % of the seed's, which are the fair shares",
        runs: 5,
        measure: |setup| shares(setup, &FAIR, FAIRNESS),
    },
    Experiment {
        name: "psmc-table-4.3",
        what: "friendliness: a tunnel of two paths, one of which shares a link with two flows of TCP",
        seed: "PSMC table 4.3: the test bed of figure 4.9, links of 6 Mb/s with 30 ms, TCP with Reno",
        how: LINKS,
        criterion: "within 10 % of the seed's, which are the fair shares",
        runs: 5,
        measure: |setup| shares(setup, &FRIENDLY, FRIENDLINESS),
    },
];

const LINKS: &str = "\
real time; one TCP flow with Reno in each tunnel and on each plain way for 30 s, of which the last 20 s count; paths \
with 30 ms of round trip and drop-tail queues of 64 packets; with the tunnels' usual congestion control, and with CUBIC. \
Who shares a link divides it by chance for seconds at a time. Rates are of all packets on the link from the sender to the proxy";

/// Who sends by which proxies.
struct Sharing {
    megabits: u32,
    /// Each sender, by its number, and its proxies; one proxy is TCP without a tunnel.
    senders: &'static [(u32, &'static [u32])],
}

const FAIR: Sharing = Sharing { megabits: 5, senders: &[(1, &[1, 2]), (2, &[2, 3])] };

const FRIENDLY: Sharing = Sharing { megabits: 6, senders: &[(1, &[1, 2]), (2, &[2]), (3, &[2])] };

fn shares(setup: &mut Setup<'_>, sharing: &Sharing, seeds: [f64; 4]) -> Vec<Row> {
    let mut rows = Vec::new();
    for congestion in ["model", "cubic"] {
        let ways = sharing.ways().map(|(sender, proxy)| {
            (format!("{congestion}, sender {sender} by proxy {proxy}"), format!("s{sender}p{proxy}"))
        });
        let ways: Vec<_> = ways.zip(seeds).collect();
        if !ways.iter().any(|((label, _), _)| setup.wants(label)) {
            continue;
        }
        let seconds = setup.seconds(30);
        let results = setup.run(congestion, &sharing.scenario(congestion, seconds));
        for ((label, link), seed) in ways {
            let ours = results.as_ref().and_then(|results| rate(results, &link, f64::from(seconds) / 3.0));
            rows.push(Figure::new(label, "Mb/s", ours).seed(seed).near(seed, TOLERANCE));
        }
    }
    rows
}

/// What a sender's link carried towards the proxy after a time, in Mb/s.
fn rate(results: &Results, link: &str, after: f64) -> Option<f64> {
    let link =
        results.links.iter().find(|result| result.name == link && result.from.starts_with("sender"))?;
    let settled = link.rate_series_mbps.iter().filter(|sample| sample.at_s > after);
    mean(&settled.map(|sample| sample.value).collect::<Vec<_>>())
}

impl Sharing {
    /// Each sender with each of its proxies.
    fn ways(&self) -> impl Iterator<Item = (u32, u32)> {
        self.senders.iter().flat_map(|(sender, proxies)| proxies.iter().map(|proxy| (*sender, *proxy)))
    }

    /// As [`Setup::run`] takes it.
    fn scenario(&self, congestion: &str, seconds: u32) -> String {
        let head = format!("duration = \"{seconds}s\"\n\n");
        let near: String = self.ways().map(|way| self.near(way)).collect();
        let far: String =
            (1..=PROXIES).filter(|proxy| self.uses(*proxy)).map(|proxy| self.far(proxy)).collect();
        let senders: String =
            self.senders.iter().map(|(sender, proxies)| stream(*sender, proxies, congestion)).collect();
        head + &near + &far + &senders
    }

    fn uses(&self, proxy: u32) -> bool {
        self.ways().any(|(_, used)| used == proxy)
    }

    fn near(&self, (sender, proxy): (u32, u32)) -> String {
        format!(
            "[[link]]\nname = \"s{sender}p{proxy}\"\nbetween = [\"sender{sender}\", \"proxy{proxy}\"]\n\
             rate = \"{}mbit\"\ndelay = \"10ms\"\n\n",
            self.megabits
        )
    }

    fn far(&self, proxy: u32) -> String {
        format!(
            "[[link]]\nname = \"p{proxy}r\"\nbetween = [\"proxy{proxy}\", \"receiver\"]\n\
             addresses = [\"10.99.{proxy}.1/24\", \"10.99.{proxy}.2/24\"]\nrate = \"{}mbit\"\ndelay = \"5ms\"\n\n",
            self.megabits
        )
    }
}

/// A sender's flow, and the tunnel in which it goes if there is more than one proxy.
fn stream(sender: u32, proxies: &[u32], congestion: &str) -> String {
    let flow = format!(
        "[[traffic]]\nname = \"flow{sender}\"\nkind = \"tcp\"\ncongestion_control = \"reno\"\n\
         from = \"sender{sender}\"\nto = \"receiver\"\n"
    );
    if let [proxy] = proxies {
        return flow + &format!("address = \"10.99.{proxy}.2\"\n\n");
    }
    let path = |proxy| {
        format!(
            "[[tunnel.path]]\nlink = \"s{sender}p{proxy}\"\nendpoint = \"10.99.{proxy}.2\"\n\
             congestion = \"{congestion}\"\n\n"
        )
    };
    let paths: String = proxies.iter().map(path).collect();
    let tunnel = format!(
        "[[tunnel]]\nname = \"tunnel{sender}\"\nbetween = [\"sender{sender}\", \"receiver\"]\n\n{paths}"
    );
    tunnel + &flow + &format!("via = \"tunnel{sender}\"\n\n")
}

const PROXIES: u32 = 3;

const TOLERANCE: f64 = 0.1;
