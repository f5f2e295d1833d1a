//! Random loss.

use crate::experiment::bed::{Bed, Link, Span, Stream, throughput};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-fig-4.7",
    what: "TCP over 5 paths of 2 Mb/s with random loss",
    seed: "PSMC figure 4.7, whose points are not printed: after a loss, a window of (n − 1)/n of what it was is better \
           than a half, the more so the more is lost",
    how: "real time; one TCP flow with Reno for 9 s, of which the last 6 s count, with and without repair; links with \
          50 ms of round trip. What the seed's rule gives is what its law of throughput says, for a decrease to \
          4/5: 1348 bytes a round trip times the root of 4.5/loss, and no more than there is",
    criterion: "with repair no less than the seed's rule (1 % for chance), and at least 90 % of the capacity to 3 % loss",
    runs: 1,
    measure: sweep,
}];

fn sweep(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for loss in LOSSES {
        let label = format!("{loss} %");
        if !setup.wants_any(&label, ["no repair", "repair"]) {
            continue;
        }
        let rule = rule(loss / 100.0).min(CAPACITY);
        let least = if loss <= REPAIRED { rule.max(CAPACITY * SHARE) } else { rule };
        let figure = |what: &str, ours| Figure::new(format!("{label}, {what}"), "Mb/s", ours);
        rows.push(figure("no repair", run(setup, loss, "off")).shown());
        rows.push(figure("repair", run(setup, loss, "auto")).at_least(least * SAME));
    }
    rows
}

fn run(setup: &mut Setup<'_>, loss: f64, repair: &str) -> Option<f64> {
    let seconds = setup.seconds(9);
    let link = Link { loss_percent: loss, ..Link::new(KILOBITS, DELAY_MS) };
    let results = Bed::tunnel([link; PATHS])
        .set("repair", repair)
        .stream("flow", Stream::Reno { bytes: None }, Span(0.0, f64::from(seconds)))
        .run(setup, &format!("loss-{loss}-{repair}"), seconds)?;
    throughput(&results, "flow", Span::settled(seconds))
}

/// What additive increase by a packet a round trip and a decrease by b = 1/5 gives at a chance of loss, in Mb/s of full-size
/// packets: the root of (2 − b)/(2 b p) packets a round trip (Yang and Lam 2000, eq. 2 without time-outs).
fn rule(chance: f64) -> f64 {
    let decrease = 0.2;
    let window = ((2.0 - decrease) / (2.0 * decrease * chance)).sqrt();
    let round_trip_s = f64::from(2 * DELAY_MS) / 1e3;
    window * PACKET_BITS / round_trip_s / 1e6
}

/// In percent of the packets.
const LOSSES: [f64; 6] = [0.01, 0.1, 0.3, 1.0, 3.0, 5.0];

/// Up to this loss, in percent, it must not matter much.
const REPAIRED: f64 = 3.0;

const PATHS: usize = 5;

const KILOBITS: u32 = 2000;

/// Of all paths, in Mb/s.
const CAPACITY: f64 = 10.0;

/// Half of the round trip.
const DELAY_MS: u32 = 25;

/// Of a full-size packet in the tunnel.
const PACKET_BITS: f64 = 11_200.0;

const SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_falls_with_the_root_of_the_loss() {
        // 4.5/0.045 is 100, so ten packets in 50 ms.
        assert!((rule(0.045) - 2.24).abs() < 1e-9);
        assert!((rule(0.01) / rule(0.04) - 2.0).abs() < 1e-9);
    }
}
