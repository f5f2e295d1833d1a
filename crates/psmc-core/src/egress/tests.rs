mod classes;
mod conservation;
mod delay;
mod turns;

use super::*;

/// The MTU of these queues, and so their quantum.
const MTU: u16 = 1400;

/// Bytes that tell packets apart: an IPv4 header, in which ECN is the low bits of byte 1, and a number.
const NUMBERED: usize = 24;

/// A queue, its pool and its clock.
struct Bench {
    queue: EgressQueue,
    pool: BufPool,
    now: Instant,
}

impl Bench {
    fn new(mtu: u16) -> Self {
        // None of these buffers is ever taken out again: so those that are free are those that were given back.
        let pool = BufPool::new(usize::from(mtu), usize::MAX);
        Self { queue: EgressQueue::new(&[ClassConfig::best_effort()], mtu), pool, now: Instant::now() }
    }

    /// What became of the packets of the only class.
    fn counters(&self) -> QueueCounters {
        self.queue.classes().next().expect("a class").counters
    }

    fn push(&mut self, bucket: u16, number: u32, len: usize) {
        self.queue.push(queued(bucket, number, len, usize::from(MTU), self.now), &mut self.pool);
    }

    /// Takes the packet whose turn it is: its bucket and number.
    fn pop(&mut self) -> Option<(u16, u32)> {
        self.pop_packet().map(|packet| (packet.bucket.number(), number_of(&packet)))
    }

    fn pop_packet(&mut self) -> Option<Queued> {
        let shown = self.queue.front(&mut self.pool, self.now).map(number_of);
        let packet = self.queue.pop();
        assert_eq!(packet.as_ref().map(number_of), shown, "what is taken is what was shown");
        packet
    }
}

pub(super) fn queued(bucket: u16, number: u32, len: usize, capacity: usize, now: Instant) -> Queued {
    let mut packet = PacketBuf::with_capacity(capacity);
    packet.set_len(len.max(NUMBERED));
    packet.packet_mut()[0] = 0x45;
    packet.packet_mut()[20..NUMBERED].copy_from_slice(&number.to_be_bytes());
    let bucket = Bucket::new(bucket).expect("a bucket");
    Queued {
        packet,
        part: None,
        bucket,
        class: ClassId::default(),
        seq: None,
        ordered: true,
        role: crate::egress::Role::Packet(crate::RepairKind::Auto),
        marked: Default::default(),
        precedence: crate::condition::Precedence::Dp0,
        queued_at: now,
        turn: 0,
        flow: crate::flows::FlowRef::default(),
    }
}

fn number_of(queued: &Queued) -> u32 {
    let bytes = queued.packet.packet()[20..NUMBERED].first_chunk().expect("four bytes");
    u32::from_be_bytes(*bytes)
}
