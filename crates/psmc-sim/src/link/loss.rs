//! Which packets get lost on the wire.

use super::chance::Dice;
use super::config::Loss;

/// The state of the chain of Gilbert and Elliott; it begins in the good one.
#[derive(Debug, Default)]
pub(super) struct LossChain {
    bad: bool,
}

impl LossChain {
    /// Whether the next packet is lost: as the present state has it. Then the chain moves on.
    pub(super) fn loses(&mut self, loss: Loss, dice: &mut Dice) -> bool {
        match loss {
            Loss::None => false,
            Loss::Random(chance) => dice.happens(chance),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let (lost, flip) = if self.bad { (loss_bad, to_good) } else { (loss_good, to_bad) };
                let lost = dice.happens(lost);
                self.bad ^= dice.happens(flip);
                lost
            }
        }
    }
}
