//! TCP of short round trips takes more than TCP of long ones. By how much less a flow must be marked to be even.

/// Round trip and retransmission timeout of a flow, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) rtt: f64,
    pub(super) rto: f64,
}

/// How flows of different round trips and timeouts are made even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttRule {
    /// Not at all.
    Off,
    /// By the seed's equation 5 as it is printed: the ratio of drops is the product of that of round trips and the root of that
    /// of timeouts. That follows from no simplification of equation 4, in which the two are added.
    Product,
    /// By equation 4 itself (Padhye, Firoiu, Towsley and Kurose 1998): the loss at which this flow would be as fast as the mean
    /// flow is.
    #[default]
    Throughput,
}

impl RttRule {
    /// How many times as often as the mean flow's a flow's packets shall exceed, if the share `excess` does on the whole.
    pub(super) fn factor(self, flow: Times, mean: Times, excess: f64) -> f64 {
        let factor = match self {
            Self::Off => return 1.0,
            Self::Product => (mean.rtt / flow.rtt) * (mean.rto / flow.rto).sqrt(),
            Self::Throughput => even_loss(flow, mean, excess * LOSS_OF_EXCESS) / (excess * LOSS_OF_EXCESS),
        };
        if factor.is_finite() { factor.clamp(1.0 / MAX_FACTOR, MAX_FACTOR) } else { 1.0 }
    }
}

/// The share of what exceeds that is lost: that which RED drops of DP2 before it drops all (seed QoS §6).
const LOSS_OF_EXCESS: f64 = 0.1;

/// Ten times the round trip is the range within which TCP is used; beyond, an estimate is more likely wrong than right.
const MAX_FACTOR: f64 = 10.0;

/// Packets that an acknowledgement stands for: delayed acknowledgements (RFC 5681 §4.2).
const PACKETS_PER_ACK: f64 = 2.0;

/// The inverse of TCP's rate in segments at this loss: seconds per segment. Equation 4's denominator.
fn seconds_per_segment(times: Times, loss: f64) -> f64 {
    let fast = times.rtt * (2.0 * PACKETS_PER_ACK * loss / 3.0).sqrt();
    let often = (3.0 * (3.0 * PACKETS_PER_ACK * loss / 8.0).sqrt()).min(1.0);
    fast + times.rto * often * loss * (1.0 + 32.0 * loss * loss)
}

/// The loss at which a flow with these times is as fast as one with the mean ones at `loss`: it grows with the loss, so halving finds it.
fn even_loss(flow: Times, mean: Times, loss: f64) -> f64 {
    let wanted = seconds_per_segment(mean, loss);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if seconds_per_segment(flow, middle) < wanted { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// To a millionth, finer than a loss of one packet in the life of most flows.
const HALVINGS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Times = Times { rtt: 0.1, rto: 0.3 };

    #[test]
    fn the_mean_flow_is_marked_as_the_rule_of_the_class_says() {
        for rule in [RttRule::Off, RttRule::Product, RttRule::Throughput] {
            assert!((rule.factor(MEAN, MEAN, 0.5) - 1.0).abs() < 1e-3, "{rule:?}");
        }
    }

    #[test]
    fn equation_5_multiplies_where_equation_4_adds() {
        let long = Times { rtt: 0.1, rto: 1.2 };
        let printed = RttRule::Product.factor(long, MEAN, 0.5);
        assert!((printed - 0.5).abs() < 1e-9, "{printed}");
        let sound = RttRule::Throughput.factor(long, MEAN, 0.5);
        let loss = 0.5 * LOSS_OF_EXCESS;
        let ratio = seconds_per_segment(long, sound * loss) / seconds_per_segment(MEAN, loss);
        assert!((ratio - 1.0).abs() < 1e-3, "as fast as the mean: {ratio}");
        assert!((sound - printed).abs() > 0.05, "the two differ: {sound}, {printed}");
    }

    #[test]
    fn no_times_no_factor() {
        let nothing = Times { rtt: 0.0, rto: 0.0 };
        for rule in [RttRule::Product, RttRule::Throughput] {
            for (flow, mean) in [(nothing, MEAN), (MEAN, nothing), (nothing, nothing)] {
                let factor = rule.factor(flow, mean, 0.0);
                assert!((1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&factor), "{rule:?} {factor}");
            }
        }
    }
}
