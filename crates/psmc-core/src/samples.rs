//! Samples of the inner packets that pass: where from, where to, and on which path. For whoever looks for what fills a segment.

use std::net::IpAddr;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::classify::addresses;
use crate::tap::Passage;

/// Samples that wait for whoever takes them, four times a second: 4,000 in a second tell a share of a hundredth to within a tenth of
/// it, and what is done with them takes some percent of a processor.
const MAX_SAMPLES: usize = 1024;

/// One packet of so many at the least is looked at: beyond a million packets between two takings it would be none.
const MAX_EVERY: u32 = 1 << 20;

/// An inner packet that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How.
    pub passage: Passage,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// Its length in bytes.
    pub bytes: u32,
}

/// The samples since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// In the order in which they have passed.
    pub packets: Vec<Sample>,
    /// Each stands for so many packets. (Chosen at random, so that what comes at a pace of its own is neither missed nor seen alone.)
    pub every: u32,
}

/// Chooses packets at random, as many as there is room for.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Has room for all that it will ever hold.
    packets: Vec<Sample>,
    every: u32,
    /// Packets until the next one that is looked at.
    left: u32,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self { packets: Vec::with_capacity(MAX_SAMPLES), every: 1, left: 1 }
    }

    /// A packet passes.
    pub(crate) fn note(&mut self, passage: Passage, packet: &[u8], rng: &mut Pcg64Mcg) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.next(rng);
        // What is no packet was refused before it came here.
        let Ok((source, destination)) = addresses(packet) else { return };
        if self.packets.len() == MAX_SAMPLES {
            self.thin_out();
        }
        let bytes = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        self.packets.push(Sample { passage, source, destination, bytes });
    }

    /// What was chosen since this was last asked.
    pub(crate) fn take(&mut self) -> Samples {
        let every = self.every;
        // Too few tell little: more of them the next time.
        if self.packets.len() < MAX_SAMPLES / 4 {
            self.every = (every / 2).max(1);
            self.left = self.left.min(self.every);
        }
        let packets = std::mem::replace(&mut self.packets, Vec::with_capacity(MAX_SAMPLES));
        Samples { packets, every }
    }

    /// Keeps every other one, and looks at half as many from here on: so all that are kept stand for as many.
    fn thin_out(&mut self) {
        let mut keeps = false;
        self.packets.retain(|_| {
            keeps = !keeps;
            keeps
        });
        self.every = (self.every * 2).min(MAX_EVERY);
    }

    /// From 1 to twice `every` less 1, which is `every` on average.
    fn next(&self, rng: &mut Pcg64Mcg) -> u32 {
        if self.every == 1 { 1 } else { 1 + rng.next_u32() % (2 * self.every - 1) }
    }
}

#[cfg(test)]
mod tests {
    use psmc_wire::PathId;
    use rand_core::SeedableRng;

    use super::*;
    use crate::ids::PeerId;

    fn packet(number: u32) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[12..16].copy_from_slice(&number.to_be_bytes());
        packet[16..20].copy_from_slice(&[10, 0, 0, 1]);
        packet
    }

    fn pass(sampler: &mut Sampler, packets: u32) {
        let passage = Passage { peer: PeerId(1), path: PathId(2), is_sent: true };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        (0..packets).for_each(|number| sampler.note(passage, &packet(number), &mut rng));
    }

    #[test]
    fn few_packets_are_all_seen() {
        let mut sampler = Sampler::new();
        pass(&mut sampler, 1000);
        let Samples { packets, every } = sampler.take();
        assert_eq!((packets.len(), every), (1000, 1));
        assert!(packets.iter().zip(0..).all(|(sample, number)| sample.source == IpAddr::V4(number.into())));
        assert!(
            packets.iter().all(|sample| sample.destination.to_string() == "10.0.0.1" && sample.bytes == 40)
        );
        assert_eq!(sampler.take().packets, []);
    }

    /// Whatever their number, samples stand for it, and there are never too many.
    #[test]
    fn many_packets_are_told_by_samples_without_more_room() {
        for total in [2_000, 30_000, 1_000_000] {
            let mut sampler = Sampler::new();
            let room = sampler.packets.capacity();
            pass(&mut sampler, total);
            assert_eq!(sampler.packets.capacity(), room);
            let Samples { packets, every } = sampler.take();
            let estimate = packets.len() as f64 * f64::from(every);
            assert!((estimate / f64::from(total) - 1.0).abs() < 0.15, "{estimate} of {total}");
            assert!((MAX_SAMPLES / 4..=MAX_SAMPLES).contains(&packets.len()), "{}", packets.len());
            // The first half is told by about as many as the other.
            let first =
                packets.iter().filter(|sample| sample.source < IpAddr::V4((total / 2).into())).count();
            assert!((0.4..0.6).contains(&(first as f64 / packets.len() as f64)), "{first}");
        }
    }

    #[test]
    fn after_a_flood_everything_is_seen_again() {
        let mut sampler = Sampler::new();
        pass(&mut sampler, 100_000);
        for _ in 0..20 {
            sampler.take();
        }
        pass(&mut sampler, 100);
        assert_eq!(sampler.take().packets.len(), 100);
    }
}
