//! What "On Monitoring and Controlling QoS Network Domains" (Habib, Fahmy, Bhargava) does, as it stands, to compare with.
//!
//! | there | here | beside it, sound |
//! |---|---|---|
//! | §3.1: EWMA of delay, weight 0.2 | [`Ewma`] | [`delay`](crate::delay) above the minimum, by quantiles: clocks need not agree |
//! | §3.2: loss by stripes | [`stripes`](crate::stripes) | [`counted`](crate::counted), where witnesses count |
//! | eq. 2: loss of a class of three colours | [`class_loss`] | [`weighted_class_loss`] |
//! | eq. 9: what RED accepts | [`Red::accepts`] | |
//! | eq. 10–13: shares that RED accepts of each colour | [`Queue::accepted`] | |
//! | §3.2–3.3: poll only after an anomaly, thresholds | [`Poller`] | [`sla`](crate::sla), [`blame`](crate::blame) |
//!
//! ```
//! use psmc_tomography::seed::{Colours, Samples, class_loss, weighted_class_loss};
//!
//! // 30 % of each colour is lost, so 30 % are. Equation 2 multiplies by weights that add up to less than 1, and gives 21 %.
//! let lost = Samples { count: 100.0, loss: 0.3 };
//! let samples = Colours { green: lost, yellow: lost, red: lost };
//! let accepted = Colours { green: 0.9, yellow: 0.7, red: 0.5 };
//! assert!((class_loss(samples, accepted) - 0.21).abs() < 1e-12);
//! assert!((weighted_class_loss(samples, accepted) - 0.3).abs() < 1e-12);
//! ```

/// An exponentially weighted moving average (§3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ewma(Option<f64>);

impl Ewma {
    /// What a new sample weighs.
    pub const WEIGHT: f64 = 0.2;

    /// Adds a sample, and says what the average is. The first sample is the average.
    pub fn add(&mut self, sample: f64) -> f64 {
        let average = self.0.map_or(sample, |average| average + Self::WEIGHT * (sample - average));
        self.0 = Some(average);
        average
    }

    /// The average; `None` before the first sample.
    #[must_use]
    pub fn get(self) -> Option<f64> {
        self.0
    }
}

/// Something for each drop precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Colours<T> {
    /// Dropped last.
    pub green: T,
    /// Dropped before green.
    pub yellow: T,
    /// Dropped first.
    pub red: T,
}

/// What was inferred from probes of a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Samples {
    /// How many there were.
    pub count: f64,
    /// The share that was lost, 0 to 1.
    pub loss: f64,
}

/// Equation 2, the loss of a class from those of its colours and the shares that queues accept of each, with the exceptions after
/// it: where no green is lost, the average of yellow and red; where no yellow is either, that of red alone.
///
/// It is no average: its weights do not add up to 1. See [`weighted_class_loss`].
#[must_use]
pub fn class_loss(samples: Colours<Samples>, accepted: Colours<f64>) -> f64 {
    let Colours { green, yellow, red } = samples;
    if green.loss == 0.0 && yellow.loss == 0.0 {
        return red.loss;
    }
    if green.loss == 0.0 {
        return f64::midpoint(yellow.loss, red.loss);
    }
    ratio(weighted_sum(samples, accepted), green.count + yellow.count + red.count)
}

/// The average of which equation 2 has the numerator: divided by the sum of its weights, without exceptions.
#[must_use]
pub fn weighted_class_loss(samples: Colours<Samples>, accepted: Colours<f64>) -> f64 {
    let all = |Samples { count, .. }| Samples { count, loss: 1.0 };
    let Colours { green, yellow, red } = samples;
    let weights = weighted_sum(Colours { green: all(green), yellow: all(yellow), red: all(red) }, accepted);
    ratio(weighted_sum(samples, accepted), weights)
}

fn weighted_sum(samples: Colours<Samples>, accepted: Colours<f64>) -> f64 {
    let term = |samples: Samples, accepted: f64| samples.count * accepted * samples.loss;
    term(samples.green, accepted.green)
        + term(samples.yellow, accepted.yellow)
        + term(samples.red, accepted.red)
}

/// 0 of nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// RED for one colour (figure 12): queue lengths in packets, and a chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Below this length nothing is dropped.
    pub min: f64,
    /// Above this length all is.
    pub max: f64,
    /// The chance to be dropped at `max`, 0 to 1.
    pub chance: f64,
}

impl Red {
    /// Equation 9: the chance that a packet is accepted, with so many in the queue.
    #[must_use]
    pub fn accepts(&self, queued: f64) -> f64 {
        if queued < self.min {
            return 1.0;
        }
        if queued > self.max {
            return 0.0;
        }
        1.0 - self.chance * ratio(queued - self.min, self.max - self.min)
    }

    /// The first terms of equations 10 to 12.
    fn drops(&self) -> f64 {
        ratio(self.max - self.min, self.max) * self.chance
    }
}

/// A queue with RED for three colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// RED of each colour.
    pub red: Colours<Red>,
    /// The packets that it holds.
    pub buffer: f64,
}

impl Queue {
    /// Equations 10 to 12: the share of each colour that is dropped. (There in percent, of which equation 13 makes shares.)
    #[must_use]
    pub fn dropped(&self) -> Colours<f64> {
        let Colours { green, yellow, red } = self.red;
        let above = |colour: Red| ratio(green.max - colour.max, self.buffer);
        Colours {
            green: green.drops(),
            yellow: yellow.drops() + above(yellow),
            red: red.drops() + above(red),
        }
    }

    /// Equation 13: the share of each colour that is accepted.
    #[must_use]
    pub fn accepted(&self) -> Colours<f64> {
        let Colours { green, yellow, red } = self.dropped();
        Colours { green: 1.0 - green, yellow: 1.0 - yellow, red: 1.0 - red }
    }
}

/// Beyond what something is an anomaly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Average delay in microseconds.
    pub delay: f64,
    /// Loss, 0 to 1.
    pub loss: f64,
    /// Bandwidth of a user or an aggregate in bit/s.
    pub bandwidth: f64,
}

/// What to measure next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Delay, which is always measured.
    #[default]
    Delay,
    /// Loss, by stripes, where delay is high.
    Loss,
    /// Throughput at egress routers, where loss is too.
    Throughput,
}

/// What is concluded (§3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Nothing.
    Calm,
    /// Delay is high: conditions are abnormal.
    Abnormal,
    /// Loss is high as well: an agreement may be violated.
    Violation,
    /// Bandwidth is too: it may be an attack, or a flash crowd.
    AttackOrCrowd,
}

/// Which of several things is measured: the next one only where the one before is excessive.
///
/// ```text
///   delay ──high──▶ loss ──high──▶ throughput
///     ▲               │                │
///     └───────────────┴── delay low ───┘        loss low: throughput ──▶ loss
/// ```
///
/// Tell it of measurements of what [`stage`](Self::stage) asks for, and of delay at all times. Others change nothing.
#[derive(Clone, Copy, Debug)]
pub struct Poller {
    thresholds: Thresholds,
    delay: Ewma,
    stage: Stage,
    finding: Finding,
}

impl Poller {
    /// One that has measured nothing.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, delay: Ewma::default(), stage: Stage::Delay, finding: Finding::Calm }
    }

    /// A packet took so long, in microseconds.
    pub fn delay(&mut self, delay: f64) {
        let is_high = self.delay.add(delay) > self.thresholds.delay;
        (self.stage, self.finding) = match (is_high, self.stage) {
            (false, _) => (Stage::Delay, Finding::Calm),
            (true, Stage::Delay) => (Stage::Loss, Finding::Abnormal),
            (true, stage @ (Stage::Loss | Stage::Throughput)) => (stage, self.finding),
        };
    }

    /// Stripes say that so much is lost, 0 to 1.
    pub fn loss(&mut self, loss: f64) {
        let is_high = loss > self.thresholds.loss;
        (self.stage, self.finding) = match (is_high, self.stage) {
            (_, Stage::Delay) => return,
            (false, Stage::Loss | Stage::Throughput) => (Stage::Loss, Finding::Abnormal),
            (true, Stage::Loss) => (Stage::Throughput, Finding::Violation),
            (true, Stage::Throughput) => (Stage::Throughput, self.finding),
        };
    }

    /// Egress routers say that a user or an aggregate has so much, in bit/s.
    pub fn bandwidth(&mut self, bandwidth: f64) {
        if self.stage == Stage::Throughput {
            let is_high = bandwidth > self.thresholds.bandwidth;
            self.finding = if is_high { Finding::AttackOrCrowd } else { Finding::Violation };
        }
    }

    /// What to measure next.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What is concluded.
    #[must_use]
    pub fn finding(&self) -> Finding {
        self.finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    #[test]
    fn a_step_of_delay_passes_the_middle_with_the_fourth_sample() {
        let mut average = Ewma::default();
        assert_eq!(average.get(), None);
        assert_eq!(average.add(100.0), 100.0);
        let steps: Vec<_> = (0..4).map(|_| average.add(180.0)).collect();
        // 1 − 0.8³ = 48.8 %, 1 − 0.8⁴ = 59.0 %.
        assert!(steps[2] < 140.0 && steps[3] > 140.0, "{steps:?}");
    }

    #[test]
    fn equation_2_has_its_exceptions() {
        let samples = |green, yellow, red| {
            let of = |loss| Samples { count: 10.0, loss };
            Colours { green: of(green), yellow: of(yellow), red: of(red) }
        };
        let accepted = Colours { green: 0.9, yellow: 0.8, red: 0.7 };
        assert!(close(class_loss(samples(0.0, 0.1, 0.3), accepted), 0.2));
        assert!(close(class_loss(samples(0.0, 0.0, 0.3), accepted), 0.3));
        assert!(close(class_loss(samples(0.1, 0.2, 0.3), accepted), (0.09 + 0.16 + 0.21) / 3.0));
        assert!(close(weighted_class_loss(samples(0.1, 0.2, 0.3), accepted), (0.09 + 0.16 + 0.21) / 2.4));
        let none = Colours::<Samples>::default();
        assert_eq!((class_loss(none, accepted), weighted_class_loss(none, accepted)), (0.0, 0.0));
    }

    #[test]
    fn red_accepts_less_the_longer_the_queue() {
        let red = Red { min: 20.0, max: 60.0, chance: 0.1 };
        let accepted = [19.9, 20.0, 40.0, 60.0, 60.1].map(|queued| red.accepts(queued));
        assert!(
            accepted.iter().zip([1.0, 1.0, 0.95, 0.9, 0.0]).all(|(&found, expected)| close(found, expected))
        );
    }

    /// By hand: red 40/60 × 0.5 + 40/100; yellow 40/80 × 0.2 + 20/100; green 40/100 × 0.1.
    #[test]
    fn equations_10_to_13_by_hand() {
        let red = |min, max, chance| Red { min, max, chance };
        let colours =
            Colours { green: red(60.0, 100.0, 0.1), yellow: red(40.0, 80.0, 0.2), red: red(20.0, 60.0, 0.5) };
        let accepted = Queue { red: colours, buffer: 100.0 }.accepted();
        assert!(close(accepted.green, 0.96) && close(accepted.yellow, 0.7), "{accepted:?}");
        assert!(close(accepted.red, 1.0 - 1.0 / 3.0 - 0.4), "{accepted:?}");
    }

    /// All stages by all measurements.
    #[test]
    fn it_polls_for_more_only_after_an_anomaly() {
        let at = |stage| {
            let mut poller = Poller::new(Thresholds { delay: 100.0, loss: 0.01, bandwidth: 1e6 });
            if stage >= Stage::Loss {
                poller.delay(200.0);
            }
            if stage >= Stage::Throughput {
                poller.loss(0.1);
            }
            assert_eq!(poller.stage(), stage);
            poller
        };
        type Measure = fn(&mut Poller);
        let measures: [Measure; 6] = [
            |poller| poller.delay(-1e9),
            |poller| poller.delay(1e9),
            |poller| poller.loss(0.0),
            |poller| poller.loss(0.1),
            |poller| poller.bandwidth(0.0),
            |poller| poller.bandwidth(1e9),
        ];
        use Finding::{Abnormal, AttackOrCrowd, Calm, Violation};
        use Stage::{Delay, Loss, Throughput};
        let expected = [
            (
                Delay,
                [(Delay, Calm), (Loss, Abnormal), (Delay, Calm), (Delay, Calm), (Delay, Calm), (Delay, Calm)],
            ),
            (
                Loss,
                [
                    (Delay, Calm),
                    (Loss, Abnormal),
                    (Loss, Abnormal),
                    (Throughput, Violation),
                    (Loss, Abnormal),
                    (Loss, Abnormal),
                ],
            ),
            (
                Throughput,
                [
                    (Delay, Calm),
                    (Throughput, Violation),
                    (Loss, Abnormal),
                    (Throughput, Violation),
                    (Throughput, Violation),
                    (Throughput, AttackOrCrowd),
                ],
            ),
        ];
        for (stage, ends) in expected {
            for (measure, end) in measures.iter().zip(ends) {
                let mut poller = at(stage);
                measure(&mut poller);
                assert_eq!((poller.stage(), poller.finding()), end, "from {stage:?}");
            }
        }
    }
}
