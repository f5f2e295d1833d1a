//! `flow`: a flow stays on a path.

use std::time::Instant;

use super::{Choice, Scheduler, Waiting};
use crate::roster::{Places, Roster};

/// Weighted rendezvous hashing (Thaler and Ravishankar 1998): when a path comes or goes, only the flows move
/// that have to.
#[derive(Debug)]
pub(super) struct Flow;

impl Scheduler for Flow {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        _now: Instant,
    ) -> Choice {
        let score = |&index: &usize| {
            let path = &paths[index];
            let draw = mix(u64::from(packet.queued.bucket.number()) << 16 | u64::from(path.id.0));
            // Uniform in (0, 1), from the 53 bits that a double can hold.
            let uniform = ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -uniform.ln() / f64::from(path.config.weight)
        };
        let best = candidates.iter().min_by(|a, b| score(a).total_cmp(&score(b)));
        best.map_or(Choice::Wait, Choice::Path)
    }
}

/// The finaliser of SplitMix64: every bit of the input decides every bit of the output.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
