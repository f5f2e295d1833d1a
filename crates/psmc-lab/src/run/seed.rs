//! Independent chance for everything in a run.

/// What the chance of a thing is drawn from: another seed for each number (SplitMix64: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
pub(super) const fn derive(seed: u64, number: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number.wrapping_add(1)));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
