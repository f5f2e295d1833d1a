//! Streams that are sent at the same time, and what the kernel's stamps say of each packet.

use std::io::IoSlice;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use psmc_net::priority::prefer_this_thread;
use psmc_sim::profiler::{Stream, Trial};

use super::ProbeError;
use super::frame::{self, Probe};
use super::lane::Lanes;
use crate::emulator::Fatigue;

/// Frames of a stream that are sent at once if that many are due: few, so that they are not a burst that no line brings.
const BATCH: usize = 4;

/// Later than this a stream does not catch up, but goes on as late as it is.
const LATE: Duration = Duration::from_micros(200);

/// A sleep shorter than this ends too late to send in time.
const SHORTEST_SLEEP: Duration = Duration::from_micros(300);

/// How long nothing has to arrive until all that is on the way is taken for lost.
const SILENCE: Duration = Duration::from_millis(400);

/// How many packets may not have been sent, of a thousand.
const MAX_REFUSED: usize = 2;

/// The share of packets that may arrive behind later ones of their stream.
const MAX_REORDERED: f64 = 0.05;

/// What was seen of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Sighting {
    /// For each stream each of its packets: nanoseconds after the beginning when it was sent and when it arrived, if it was and did.
    pub(super) packets: Vec<Vec<[Option<u64>; 2]>>,
    pub(super) duplicates: usize,
    pub(super) loops: usize,
    pub(super) strays: usize,
    pub(super) reordered: usize,
}

/// What is worth telling of all trials.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remarks {
    pub(super) arrived: usize,
    pub(super) reordered: usize,
}

impl Remarks {
    pub(super) fn note(&mut self, seen: &Sighting) {
        self.arrived += seen.arrived();
        self.reordered += seen.reordered;
    }
}

impl Sighting {
    fn arrived(&self) -> usize {
        self.packets.iter().flatten().filter(|[_, arrived]| arrived.is_some()).count()
    }

    /// Refuses what no device does that forwards.
    pub(super) fn check(&self, trial: &Trial) -> Result<(), ProbeError> {
        let sent: u32 = trial.streams.iter().map(|stream| stream.packets).sum();
        // A packet or two may be somebody else's fault, such as a switch that forgets.
        let is_much = |count: usize| count * 1000 > sent as usize;
        if is_much(self.loops) {
            return Err(ProbeError::Loops(self.loops));
        }
        if is_much(self.duplicates) {
            return Err(ProbeError::Duplicates(self.duplicates));
        }
        if is_much(self.strays) {
            return Err(ProbeError::Strays(self.strays));
        }
        let share = self.reordered as f64 / self.arrived().max(1) as f64;
        if share > MAX_REORDERED {
            return Err(ProbeError::Reordered { percent: 100.0 * share });
        }
        Ok(())
    }
}

/// Sends the streams and watches them arrive, on a thread that goes before others.
pub(super) fn run(trial: &Trial, lanes: &mut Lanes) -> Result<Sighting, ProbeError> {
    let number = lanes.trial;
    lanes.trial += 1;
    let sighting = thread::scope(|scope| {
        let measure = || {
            prefer_this_thread();
            Run::new(trial, lanes, number).go()
        };
        scope.spawn(measure).join()
    });
    // The thread has no way to panic but a bug.
    let sighting = sighting.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let lost: u32 = lanes.lanes.iter().map(|lane| lane.meter.lost().unwrap_or(0)).sum();
    if lost > 0 {
        return Err(ProbeError::Overrun(lost));
    }
    for (stream, packets) in trial.streams.iter().zip(&sighting.packets) {
        let refused = packets.iter().filter(|[sent, _]| sent.is_none()).count();
        if refused * 1000 > packets.len() * MAX_REFUSED {
            let port = lanes.lanes[stream.input].name.clone();
            return Err(ProbeError::Refused { port, refused, sent: packets.len() });
        }
    }
    Ok(sighting)
}

struct Run<'a> {
    trial: &'a Trial,
    lanes: &'a mut Lanes,
    number: u32,
    senders: Vec<Sender>,
    /// The largest number that has arrived of each stream.
    newest: Vec<Option<u32>>,
    seen: Sighting,
    arrived: usize,
    begun: SystemTime,
}

/// What is sent of a stream.
struct Sender {
    stream: Stream,
    frames: [Vec<u8>; BATCH],
    next: u32,
    /// By how much the stream is late for good.
    delayed: Duration,
}

impl<'a> Run<'a> {
    fn new(trial: &'a Trial, lanes: &'a mut Lanes, number: u32) -> Self {
        let sender = |(index, stream): (usize, &Stream)| {
            let stream_number = u16::try_from(index).unwrap_or(u16::MAX);
            let probe = Probe { trial: number, stream: stream_number, number: 0 };
            let frame = lanes.template([stream.input, stream.output], stream.len, probe);
            let frames = std::array::from_fn(|_| frame.clone());
            Sender { stream: *stream, frames, next: 0, delayed: Duration::ZERO }
        };
        let senders: Vec<_> = trial.streams.iter().enumerate().map(sender).collect();
        let packets = trial.streams.iter().map(|stream| vec![[None; 2]; stream.packets as usize]).collect();
        // What is left of an earlier trial is nobody's.
        for lane in &mut lanes.lanes {
            while lane.meter.recv().is_some() {}
            let _ = lane.meter.lost();
        }
        let newest = vec![None; trial.streams.len()];
        let seen = Sighting { packets, ..Sighting::default() };
        Self { trial, lanes, number, senders, newest, seen, arrived: 0, begun: SystemTime::now() }
    }

    fn go(mut self) -> Sighting {
        let start = Instant::now();
        self.begun = SystemTime::now();
        let mut fatigue = Fatigue::new();
        loop {
            for sender in &mut self.senders {
                sender.send_due(start.elapsed(), self.lanes);
            }
            self.receive();
            let Some(due) = self.senders.iter().filter_map(Sender::due).min() else { break };
            fatigue.rest_if_due();
            let left = due.saturating_sub(start.elapsed());
            if left > SHORTEST_SLEEP {
                thread::sleep(left - SHORTEST_SLEEP / 2);
            }
        }
        self.receive_rest();
        self.seen
    }

    fn receive(&mut self) -> usize {
        let before = self.arrived;
        for port in 0..self.lanes.lanes.len() {
            while let Some(frame) = self.lanes.lanes[port].meter.recv() {
                let at = frame.received_at().duration_since(self.begun).unwrap_or_default();
                let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
                let probe = frame::read(frame.bytes()).filter(|probe| probe.trial == self.number);
                let Some(probe) = probe else { continue };
                let stream = usize::from(probe.stream);
                let Some(plan) = self.trial.streams.get(stream) else { continue };
                let Some(packet) = self.seen.packets[stream].get_mut(probe.number as usize) else { continue };
                if frame.is_outgoing() {
                    packet[0] = Some(at);
                    continue;
                }
                match packet[1] {
                    _ if port == plan.input => self.seen.loops += 1,
                    _ if port != plan.output => self.seen.strays += 1,
                    Some(_) => self.seen.duplicates += 1,
                    None => {
                        packet[1] = Some(at);
                        self.arrived += 1;
                        let newest = &mut self.newest[stream];
                        self.seen.reordered +=
                            usize::from(newest.is_some_and(|newest| newest > probe.number));
                        *newest = (*newest).max(Some(probe.number));
                    }
                }
            }
        }
        self.arrived - before
    }

    fn receive_rest(&mut self) {
        let all: usize = self.trial.streams.iter().map(|stream| stream.packets as usize).sum();
        let mut last = Instant::now();
        while last.elapsed() < SILENCE && self.arrived < all {
            thread::sleep(Duration::from_millis(1));
            if self.receive() > 0 {
                last = Instant::now();
            }
        }
        // Another copy of the last packet is not far behind it.
        thread::sleep(Duration::from_millis(1));
        self.receive();
    }
}

impl Sender {
    /// When the next packet is due, after the beginning; `None` if all were sent.
    fn due(&self) -> Option<Duration> {
        let Stream { offset, gap, packets, .. } = self.stream;
        (self.next < packets).then(|| offset + self.delayed + gap * self.next)
    }

    /// Sends what is due, a few packets at most.
    fn send_due(&mut self, elapsed: Duration, lanes: &Lanes) {
        let Some(late) = self.due().and_then(|due| elapsed.checked_sub(due)) else { return };
        if late > LATE {
            self.delayed += late;
        }
        let mut count = 0;
        while count < BATCH && self.due().is_some_and(|due| due <= elapsed) {
            frame::number(&mut self.frames[count], self.next);
            self.next += 1;
            count += 1;
        }
        let slices = self.frames.each_ref().map(|frame| IoSlice::new(frame));
        // What an interface refuses is not seen to be sent.
        let _ = lanes.lanes[self.stream.input].meter.send(&slices[..count]);
    }
}
