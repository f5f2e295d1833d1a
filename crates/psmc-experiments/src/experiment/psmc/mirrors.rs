//! One file from several mirrors at once.

use crate::experiment::{Experiment, Figure, Row, Setup};
use psmc_lab::results::{Results, Sample};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-mirrors",
    what: "a file from four mirrors at once, and one of them killed midway",
    seed: "PSMC ch. V, section 7, which prints no figures",
    how: "real time; psmc fetch from nginx on four hosts, over links of 40, 20, 10 and 5 Mb/s with 10, 20, 30 and 40 ms of \
          round trip; 100 MB, whose SHA-256 must be right, or there is no figure. From the first packet to the last, looked \
          at every 20 ms. The sum is that of the links without the headers of TCP (1448 bytes of 1500). What a mirror costs \
          that is killed (SIGKILL, in the middle) is the time beyond what the others need for its share at the rates of the \
          run before",
    criterion: "95 % of the sum of the mirrors; 2 % beyond the share of the one that is killed",
    runs: 3,
    measure: mirrors,
}];

fn mirrors(setup: &mut Setup<'_>) -> Vec<Row> {
    let wants = |label: &str| setup.wants(label);
    let (calm_wanted, killed_wanted) = (wants(CALM), wants(KILLED));
    if !calm_wanted && !killed_wanted {
        return Vec::new();
    }
    let calm = time(setup, "mirrors", "");
    let mut rows = Vec::new();
    if calm_wanted {
        let rate = calm.map(|seconds| BITS / 1e6 / seconds);
        rows.push(Figure::new(CALM, "Mb/s", rate).at_least(SHARE * sum()));
    }
    if killed_wanted {
        let event = format!("[[event]]\nat = \"{KILL}s\"\nkill = \"nginx2\"\n");
        let killed = time(setup, "mirrors-killed", &event);
        let cost = calm.zip(killed).map(|(calm, killed)| (killed / expected(calm) - 1.0) * 100.0);
        rows.push(Figure::new(KILLED, "%", cost).at_most(COST));
    }
    rows
}

/// How long the file takes, in s; `None` if it did not arrive or has the wrong hash.
fn time(setup: &mut Setup<'_>, name: &str, events: &str) -> Option<f64> {
    let results = setup.run(name, &scenario(events))?;
    let fetch = results.programs.iter().find(|program| program.name == "fetch")?;
    (fetch.exit_status == Some(0)).then(|| busy(&results))?
}

/// From the first interval in which the links carried data to the last, in s.
fn busy(results: &Results) -> Option<f64> {
    let ways = || results.links.iter().filter(|link| link.to == "client");
    let with_data = |sample: &&Sample| sample.value >= DATA;
    let ends = || ways().flat_map(|link| link.rate_series_mbps.iter().filter(with_data)).map(|it| it.at_s);
    let (first, last) = (ends().reduce(f64::min)?, ends().reduce(f64::max)?);
    Some(last - first + f64::from(SAMPLE_MS) / 1e3)
}

/// How long the file should take if the second mirror is killed, in s, and the rest goes on as it did in a run that took
/// so long.
fn expected(calm: f64) -> f64 {
    let before = KILL - START;
    let all: u32 = LINKS.iter().map(|link| link.mbits).sum();
    let rest = all - LINKS[1].mbits;
    before + (calm - before) * f64::from(all) / f64::from(rest)
}

/// Of the payload that the links carry, in Mb/s.
fn sum() -> f64 {
    LINKS.iter().map(|link| f64::from(link.mbits) * 1448.0 / 1500.0).sum()
}

fn scenario(events: &str) -> String {
    let mut text = format!(
        "duration = \"{SECONDS}s\"\nsample = \"{SAMPLE_MS}ms\"\n\n\
         [[program]]\nname = \"files\"\nhost = \"client\"\ncommand = [\"sh\", \"-c\", '''{FILES}''']\n\n"
    );
    let mut urls = String::new();
    for (number, Link { mbits, delay_ms }) in (1..).zip(LINKS) {
        text += &format!(
            "[[link]]\nname = \"path{number}\"\nbetween = [\"mirror{number}\", \"client\"]\n\
             addresses = [\"10.{number}.0.1/24\", \"10.{number}.0.2/24\"]\n\
             rate = \"{mbits}mbit\"\ndelay = \"{delay_ms}ms\"\n\n\
             [[program]]\nname = \"nginx{number}\"\nhost = \"mirror{number}\"\nstart = \"1s\"\n\
             command = [\"nginx\", \"-e\", \"stderr\", \"-p\", \"{{dir}}\", \"-c\", \"{{dir}}/nginx.conf\", \
             \"-g\", \"pid {{dir}}/nginx{number}.pid;\"]\n\n"
        );
        urls += &format!("\"http://10.{number}.0.1/file\", ");
    }
    text + &format!(
        "[[program]]\nname = \"fetch\"\nhost = \"client\"\nstart = \"{START}s\"\n\
         command = [\"psmc\", \"fetch\", {urls}\"--output\", \"{{dir}}/fetched\", \"--sha256\", \"{SHA256}\"]\n\n{events}"
    )
}

/// Between a mirror and the client.
struct Link {
    mbits: u32,
    /// In each direction.
    delay_ms: u32,
}

const LINKS: [Link; 4] = [
    Link { mbits: 40, delay_ms: 5 },
    Link { mbits: 20, delay_ms: 10 },
    Link { mbits: 10, delay_ms: 15 },
    Link { mbits: 5, delay_ms: 20 },
];

/// Makes what the mirrors serve, and how: all hosts see the same files.
const FILES: &str = "
cd {dir} && mkdir www temp && cat > nginx.conf <<END
daemon off; master_process off; error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
    server { listen 80; root {dir}/www; }
}
END
seq 20000000 | head -c 100000000 > www/file
";

/// Of that file, no two stretches of which are alike.
const SHA256: &str = "71622a777204002b46164a438a5eef5e1a128e42430e25f336eb555e46a38385";

const BITS: f64 = 800_000_000.0;

const CALM: &str = "four mirrors";
const KILLED: &str = "one killed, beyond its share";

/// When it begins, in s: the file has been made by then.
const START: f64 = 3.0;

/// When a mirror is killed, in s: about the middle.
const KILL: f64 = 8.5;

/// Of each run: it takes 11 s for the whole file, and 13 if a mirror is killed.
const SECONDS: u32 = 19;

/// What must be reached of the sum.
const SHARE: f64 = 0.95;

/// What the end of a mirror may cost beyond its share, in percent.
const COST: f64 = 2.0;

const SAMPLE_MS: u32 = 20;

/// In Mb/s: a full-size packet in an interval, and more than connections take that carry no data.
const DATA: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_carries_the_share_of_a_mirror_that_is_killed() {
        // 55 of 75 Mb/s are left for what would have taken 5.5 s more.
        assert!((expected(11.0) - (5.5 + 5.5 * 75.0 / 55.0)).abs() < 1e-9);
    }
}
