//! How long packets are on the wire.

use std::time::Duration;

use super::chance::Dice;
use super::clock::Nanos;
use super::config::{Jitter, LinkConfig};

/// The delay of a packet, its jitter included.
pub(super) fn draw(config: &LinkConfig, dice: &mut Dice) -> Nanos {
    let delay = Nanos::from(config.delay);
    match &config.jitter {
        Jitter::None => delay,
        Jitter::Normal(deviation) => {
            Nanos::from_float(delay.to_float() + dice.normal() * Nanos::from(*deviation).to_float())
        }
        Jitter::Uniform(spread) => {
            let spread = Nanos::from(*spread);
            let width = spread.after(spread).after(Nanos(1));
            delay.after(Nanos(dice.below(width.0))).since(spread)
        }
        Jitter::Samples(samples) => delay.after(one_of(samples, dice)),
    }
}

/// No packet has less delay than this.
pub(super) fn least(config: &LinkConfig) -> Nanos {
    let delay = Nanos::from(config.delay);
    match &config.jitter {
        Jitter::None | Jitter::Samples(_) => delay,
        Jitter::Normal(_) => Nanos(0),
        Jitter::Uniform(spread) => delay.since(Nanos::from(*spread)),
    }
}

fn one_of(samples: &[Duration], dice: &mut Dice) -> Nanos {
    let index = usize::try_from(dice.below(samples.len() as u64)).unwrap_or(0);
    samples.get(index).copied().unwrap_or_default().into()
}
