//! What a router is like, inferred from what it does to streams of packets: the four phases of the publication called ROUTER,
//! figure 4.7.
//!
//! Sends nothing by itself: a caller sends the streams of a [`Trial`] through a device, real or modelled, and tells what has
//! become of each packet.

mod statistics;

use std::time::Duration;

use crate::router::{Amount, PortConfig, RouterConfig, RouterConfigError, Table, TableError, Tables};
use statistics::{interval_of_mean, quantile};

pub use statistics::Estimate;

/// What is known of a device before anything is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many of its ports are joined to whoever measures; two at least.
    pub ports: usize,
    /// Their nominal rate in bits per second, framing included.
    pub rate: u64,
    /// Bytes of framing that each packet has on the line, as [`PortConfig::framing`].
    pub framing: usize,
    /// The lengths of packets to measure with, in bytes from the IP header on, growing; the last one is the MTU.
    pub sizes: Vec<usize>,
}

/// Streams that are sent at the same time through a device with nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The streams, in the order of which [`Outcome::streams`] is.
    pub streams: Vec<Stream>,
}

/// Packets of one length at equal intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The port by which they enter, from 0.
    pub input: usize,
    /// The port by which they leave.
    pub output: usize,
    /// Bytes of each, from the IP header on.
    pub len: usize,
    /// When the last bit of the first one enters, after the trial begins.
    pub offset: Duration,
    /// From one to the next.
    pub gap: Duration,
    /// How many.
    pub packets: u32,
}

/// What has become of the packets of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For each stream each of its packets.
    pub streams: Vec<Vec<Passage>>,
}

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When its last bit entered, after the trial began: as it was planned, or as late as the machine has sent it.
    pub entered: Duration,
    /// How long until its last bit left; `None` if it was lost.
    pub delay: Option<Duration>,
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Packets of a length at a low rate, for how long they are served.
    Delay,
    /// The longest packets as fast as they come, for what a port transmits.
    Rate,
    /// Packets by all ports, no two to one port, for how many are served at once.
    Servers,
    /// Packets by all ports to one, for what a queue holds.
    Queue,
}

/// What is inferred of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What was known before.
    pub plan: Plan,
    /// Bits per second of a port, framing included (`TX_Capacity`); the nominal rate is its upper bound.
    pub rate: Estimate,
    /// For each length of the plan what was found.
    pub sizes: Vec<SizeProfile>,
}

/// What is inferred for packets of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeProfile {
    /// Its bytes.
    pub len: usize,
    /// Seconds that a packet is served, transmission not included (`DelayTbl`).
    pub delay: Estimate,
    /// Packets that are served at once, at most: M / `ServReq`. Without upper bound if the ports together could not bring as
    /// many as the servers can serve.
    pub served: Estimate,
    /// Packets that the queue of a port holds: Q / `QueueReq`. Without upper bound if it was never full.
    pub queued: Estimate,
}

/// Why nothing can be inferred.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfilerError {
    /// The plan has fewer than two ports, no rate, or lengths that don't grow.
    #[error("a plan takes two ports or more, a rate, and lengths that grow")]
    Plan,
    /// The outcome isn't that of the trial.
    #[error("there are results of {found} packets, and {sent} were sent")]
    Outcome {
        /// Packets of the trial.
        sent: usize,
        /// Packets of the outcome.
        found: usize,
    },
    /// No packet of a length has come through.
    #[error("no packet of {len} bytes has come from port {input} to port {output}")]
    NothingPasses {
        /// The length.
        len: usize,
        /// By which port it entered.
        input: usize,
        /// By which port it should have left.
        output: usize,
    },
    /// Ports differ by more than the model allows: its tables are those of all ports.
    #[error("packets of {len} bytes take {least:?} by one pair of ports and {most:?} by another")]
    PortsDiffer {
        /// The length.
        len: usize,
        /// The smallest delay of the fastest pair of ports.
        least: Duration,
        /// That of the slowest pair.
        most: Duration,
    },
    /// Packets arrive sooner than they can be transmitted: the rate of the plan is too low, or there are duplicates.
    #[error("packets of {len} bytes take {delay:?}, less than a line of this rate needs for one")]
    TooFast {
        /// The length.
        len: usize,
        /// What one took.
        delay: Duration,
    },
}

/// Packets per second at which nothing queues (`LowRate`), and how many of them: fewer than the seed's 1,000 to 2,000, for
/// each pair of ports has as many, and a minimum is looked for.
const LOW_RATE: u32 = 50;
const LOW_RATE_PACKETS: u32 = 20;

/// By how much the minimal delays of pairs of ports may differ: by this share, and this much besides.
const MAX_DIFFERENCE: f64 = 0.25;
const MAX_DIFFERENCE_BESIDES: Duration = Duration::from_micros(10);

/// For how long a line is kept busy by a stream of the first trial under load, and how many packets that may be. They are
/// doubled until the queue has been full for half of a trial: beyond the most a queue holds more than a second of any line that
/// can be measured.
const FIRST_TIME: f64 = 0.25;
const FIRST_PACKETS: [u32; 2] = [512, 4096];
const MAX_PACKETS: u32 = 1 << 19;

/// By how much more than nothing a packet may come before it can: what clocks and stamps are wrong by.
const EARLY: f64 = 2e-6;

/// The share of packets lost from which on a queue counts as full.
const FULL: f64 = 0.002;

/// Blocks of which means are taken for an interval.
const BLOCKS: usize = 8;

/// The phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Phase 1: a length by a pair of ports.
    Delay { size: usize, pair: usize },
    /// Phase 1b: what a port transmits.
    Rate,
    /// Phase 2: a length by all ports, no two to one output.
    Servers { size: usize, packets: u32 },
    /// Phase 3: a length from all other ports to the first.
    Queue { size: usize, packets: u32 },
    /// Phase 4.
    Done,
}

/// Infers the parameters of the [model](crate::router) from trials.
///
/// Call [`poll_trial`](Self::poll_trial), make the trial, and tell its outcome to
/// [`handle_outcome`](Self::handle_outcome), until there is no trial left; then [`profile`](Self::profile). Polling twice
/// yields the same trial.
#[derive(Clone, Debug)]
pub struct Profiler {
    plan: Plan,
    step: Step,
    /// For each length the smallest and the median delay of each pair of ports so far, in seconds.
    delays: Vec<Vec<[f64; 2]>>,
    rate: Estimate,
    served: Vec<Estimate>,
    queued: Vec<Estimate>,
}

impl Profiler {
    /// Before the first trial.
    ///
    /// # Errors
    /// [`ProfilerError::Plan`].
    pub fn new(plan: Plan) -> Result<Self, ProfilerError> {
        let grows = plan.sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if plan.ports < 2 || plan.rate == 0 || plan.sizes.is_empty() || !grows {
            return Err(ProfilerError::Plan);
        }
        let rate = Estimate { value: plan.rate as f64, low: 0.0, high: plan.rate as f64 };
        let delays = vec![Vec::new(); plan.sizes.len()];
        let step = Step::Delay { size: 0, pair: 0 };
        Ok(Self { plan, step, delays, rate, served: Vec::new(), queued: Vec::new() })
    }

    /// What to send next; `None` if everything was.
    #[must_use]
    pub fn poll_trial(&self) -> Option<Trial> {
        let streams = match self.step {
            Step::Delay { size, pair } => {
                let [input, output] = self.pair(pair);
                let (len, gap) = (self.plan.sizes[size], Duration::from_secs(1) / LOW_RATE);
                vec![Stream { input, output, len, offset: Duration::ZERO, gap, packets: LOW_RATE_PACKETS }]
            }
            Step::Rate => {
                let longest = self.plan.sizes.len() - 1;
                vec![self.at_line_rate(1, 0, longest, self.first_packets(longest))]
            }
            Step::Servers { size, packets } => {
                let ports = 0..self.plan.ports;
                ports.map(|input| self.at_line_rate(input, self.opposite(input), size, packets)).collect()
            }
            Step::Queue { size, packets } => {
                (1..self.plan.ports).map(|input| self.at_line_rate(input, 0, size, packets)).collect()
            }
            Step::Done => return None,
        };
        Some(Trial { streams })
    }

    /// What has become of the trial.
    ///
    /// # Errors
    /// [`ProfilerError`]: the device is none that the model has parameters for. The step stays as it is, so that the trial
    /// can be made once more.
    pub fn handle_outcome(&mut self, outcome: &Outcome) -> Result<(), ProfilerError> {
        let Some(trial) = self.poll_trial() else { return Ok(()) };
        let sent = trial.streams.iter().map(|stream| stream.packets as usize).sum();
        let found = outcome.streams.iter().map(Vec::len).sum();
        if sent != found || trial.streams.len() != outcome.streams.len() {
            return Err(ProfilerError::Outcome { sent, found });
        }
        let seen = Seen::of(outcome);
        self.step = match self.step {
            Step::Delay { size, pair } => self.learn_delay(size, pair, &trial, &seen)?,
            Step::Rate => self.learn_rate(&seen),
            Step::Servers { size, packets } => self.learn_servers(size, packets, &seen),
            Step::Queue { size, packets } => self.learn_queue(size, packets, &seen),
            Step::Done => Step::Done,
        };
        Ok(())
    }

    /// What the next trial is for, and the number of its step and of all steps, from 1; `None` if there is none.
    #[must_use]
    pub fn phase(&self) -> Option<(Phase, usize, usize)> {
        let sizes = self.plan.sizes.len();
        let low = sizes * self.pairs();
        let (phase, number) = match self.step {
            Step::Delay { size, pair } => (Phase::Delay, size * self.pairs() + pair),
            Step::Rate => (Phase::Rate, low),
            Step::Servers { size, .. } => (Phase::Servers, low + 1 + size),
            Step::Queue { size, .. } => (Phase::Queue, low + 1 + sizes + size),
            Step::Done => return None,
        };
        Some((phase, number + 1, low + 1 + 2 * sizes))
    }

    /// What was found, once there is no trial left.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        if self.step != Step::Done {
            return None;
        }
        let sizes = self.plan.sizes.iter().enumerate().map(|(size, len)| SizeProfile {
            len: *len,
            delay: self.delay(size),
            served: self.served[size],
            queued: self.queued[size],
        });
        Some(Profile { plan: self.plan.clone(), rate: self.rate, sizes: sizes.collect() })
    }

    fn pairs(&self) -> usize {
        self.plan.ports * (self.plan.ports - 1)
    }

    fn pair(&self, pair: usize) -> [usize; 2] {
        let (input, step) = (pair / (self.plan.ports - 1), pair % (self.plan.ports - 1));
        [input, (input + step + 1) % self.plan.ports]
    }

    /// Outputs of which each is one input's.
    fn opposite(&self, input: usize) -> usize {
        (input + 1) % self.plan.ports
    }

    /// As fast as a line brings packets. Streams begin apart, so that they don't come in step.
    fn at_line_rate(&self, input: usize, output: usize, size: usize, packets: u32) -> Stream {
        let len = self.plan.sizes[size];
        let gap = Duration::from_secs_f64(self.transmission(len, self.plan.rate as f64));
        let offset = gap.mul_f64(input as f64 / self.plan.ports as f64);
        Stream { input, output, len, offset, gap, packets }
    }

    /// Packets of a stream of the first trial under load.
    fn first_packets(&self, size: usize) -> u32 {
        let [least, most] = FIRST_PACKETS.map(f64::from);
        let packets = FIRST_TIME / self.transmission(self.plan.sizes[size], self.plan.rate as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
        let packets = packets.clamp(least, most) as u32;
        packets
    }

    /// Seconds that a line takes for a packet.
    fn transmission(&self, len: usize, rate: f64) -> f64 {
        (len + self.plan.framing) as f64 * 8.0 / rate
    }

    fn learn_delay(
        &mut self,
        size: usize,
        pair: usize,
        trial: &Trial,
        seen: &Seen,
    ) -> Result<Step, ProfilerError> {
        let Stream { input, output, len, .. } = trial.streams[0];
        let mut delays = seen.delays();
        let (Some(least), Some(median)) = (quantile(&mut delays, 0.0), quantile(&mut delays, 0.5)) else {
            return Err(ProfilerError::NothingPasses { len, input, output });
        };
        let transmission = self.transmission(len, self.plan.rate as f64);
        if least + EARLY < 0.99 * transmission {
            return Err(ProfilerError::TooFast { len, delay: Duration::from_secs_f64(least) });
        }
        self.delays[size].truncate(pair);
        self.delays[size].push([least, median]);
        let all = || self.delays[size].iter().map(|[least, _]| *least);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if most > least * (1.0 + MAX_DIFFERENCE) + MAX_DIFFERENCE_BESIDES.as_secs_f64() {
            let [least, most] = [least, most].map(Duration::from_secs_f64);
            return Err(ProfilerError::PortsDiffer { len, least, most });
        }
        Ok(match (pair + 1 < self.pairs(), size + 1 < self.plan.sizes.len()) {
            (true, _) => Step::Delay { size, pair: pair + 1 },
            (false, true) => Step::Delay { size: size + 1, pair: 0 },
            (false, false) => Step::Rate,
        })
    }

    /// A line is as fast as it is said to be, or a little slower; if packets leave much more slowly, that is the servers'.
    fn learn_rate(&mut self, seen: &Seen) -> Step {
        const PLAUSIBLE: f64 = 0.9;
        let bits = (self.plan.sizes.last().unwrap_or(&0) + self.plan.framing) as f64 * 8.0;
        if let Some(gap) = seen.departure_gap() {
            let rate = Estimate { value: bits / gap.value, low: bits / gap.high, high: bits / gap.low };
            if rate.value > PLAUSIBLE * self.plan.rate as f64 {
                self.rate = rate;
            }
        }
        Step::Servers { size: 0, packets: self.first_packets(0) }
    }

    /// Under more load than the servers can carry, packets depart as fast as they serve them: as many are served at once as
    /// depart in the time that one is served (the seed's d_s over the gap between arrivals just before loss starts).
    fn learn_servers(&mut self, size: usize, packets: u32, seen: &Seen) -> Step {
        let is_full = seen.lost() >= FULL && seen.is_full_for_half();
        if !is_full && packets < MAX_PACKETS && seen.is_growing() {
            return Step::Servers { size, packets: packets * 2 };
        }
        let delay = self.delay(size);
        // The lines themselves lose a little if they are slower than nominal; and whoever sends may be slower than they are.
        let of_lines = self.transmission(self.plan.sizes[size], self.rate.value) / self.plan.ports as f64;
        let of_lines = seen.entry_gap().map_or(of_lines, |gap| gap.max(of_lines));
        let gap = seen.departure_gap().unwrap_or(Estimate::exactly(f64::INFINITY));
        let most = Estimate { value: delay.value / of_lines, low: delay.low / of_lines, high: f64::INFINITY };
        let is_contended = gap.value > 1.02 * of_lines;
        self.served.truncate(size);
        self.served.push(if is_contended { delay.over(gap) } else { most });
        match size + 1 < self.plan.sizes.len() {
            true => Step::Servers { size: size + 1, packets: self.first_packets(size + 1) },
            false => Step::Queue { size: 0, packets: self.first_packets(0) },
        }
    }

    /// A packet that finds room in a full queue waits for all that are before it, each of which takes the gap between
    /// departures. (The seed divides all of its delay by the gap; that counts service and transmission as well.)
    fn learn_queue(&mut self, size: usize, packets: u32, seen: &Seen) -> Step {
        let is_full = seen.lost() >= FULL && seen.is_full_for_half();
        if !is_full && packets < MAX_PACKETS && seen.is_growing() {
            return Step::Queue { size, packets: packets * 2 };
        }
        let own = self.delay(size).value + self.transmission(self.plan.sizes[size], self.rate.value);
        let gap = seen.departure_gap().unwrap_or(Estimate::exactly(f64::INFINITY)).value;
        let mut waits: Vec<_> = seen.late_delays().map(|delay| delay - own).collect();
        // Room is found by the packet that comes first after one has left: half of the gap between arrivals, on average.
        let after = (1.0 - seen.lost_late()) / 2.0;
        let of = |share, waits: &mut Vec<f64>| quantile(waits, share).unwrap_or(0.0).max(0.0) / gap + after;
        let mut queued =
            Estimate { value: of(0.5, &mut waits), low: of(0.05, &mut waits), high: of(0.95, &mut waits) };
        if !is_full {
            queued.high = f64::INFINITY;
        }
        self.queued.truncate(size);
        self.queued.push(queued);
        match size + 1 < self.plan.sizes.len() {
            true => Step::Queue { size: size + 1, packets: self.first_packets(size + 1) },
            false => Step::Done,
        }
    }

    /// What is served of a length, in seconds: from the least delay of all to the median, less the transmission.
    fn delay(&self, size: usize) -> Estimate {
        let transmission = self.transmission(self.plan.sizes[size], self.rate.value);
        let of =
            |pick: fn(&[f64; 2]) -> f64| self.delays[size].iter().map(pick).fold(f64::INFINITY, f64::min);
        let least = (of(|[least, _]| *least) - transmission).max(0.0);
        Estimate { value: least, low: least, high: (of(|[_, median]| *median) - transmission).max(least) }
    }
}

impl Profile {
    /// The model with these parameters: M is the most that are served at once of any length, Q is what the queue holds of the
    /// longest packets (phase 4), and all ports are alike. What has no upper bound is taken to be as small as was seen.
    ///
    /// # Errors
    /// [`RouterConfigError`], and [`TableError`] in its place, if the values are beyond what the model takes.
    pub fn config(&self) -> Result<RouterConfig, ProfileConfigError> {
        let Shared { servers, slots, tables } = Shared::of(&self.sizes)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is below the nominal rate"
        )]
        let rate = self.rate.value as u64;
        let port = PortConfig { framing: self.plan.framing, ..PortConfig::new(rate, slots) };
        Ok(RouterConfig::new(vec![port; self.plan.ports], servers, tables, None)?)
    }
}

/// What ports share, and what is alike in all, by what was found for packets of some lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The seed's M: the most packets that are served at once, of any length.
    pub servers: Amount,
    /// The seed's Q: what the queue of a port holds of the longest packets.
    pub slots: Amount,
    /// What packets take.
    pub tables: Tables,
}

impl Shared {
    /// Phase 4 of figure 4.7. Lengths have to grow.
    ///
    /// # Errors
    /// [`ProfileConfigError`]: no length at all, or values beyond what the model takes.
    pub fn of(sizes: &[SizeProfile]) -> Result<Self, ProfileConfigError> {
        const LEAST: f64 = 1e-6;
        let amount = |value: f64| Amount::new(value.max(LEAST)).ok_or(ProfileConfigError::Amount(value));
        let servers = sizes.iter().map(|size| size.served.value).fold(LEAST, f64::max);
        let slots = sizes.iter().map(|size| size.queued.value).next_back().unwrap_or(LEAST).max(1.0);
        let delay = sizes.iter().map(|size| {
            let delay = Duration::try_from_secs_f64(size.delay.value);
            Ok((size.len, delay.map_err(|_| ProfileConfigError::Amount(size.delay.value))?))
        });
        let of = |whole: f64, part: fn(&SizeProfile) -> f64| {
            let row = |size: &SizeProfile| {
                let share = whole / part(size).max(LEAST);
                Ok((size.len, amount(share.min(whole))?))
            };
            sizes.iter().map(row).collect::<Result<Vec<_>, ProfileConfigError>>()
        };
        let tables = Tables {
            delay: Table::<Duration>::new(delay.collect::<Result<_, ProfileConfigError>>()?)?,
            servers: Table::<Amount>::new(of(servers, |size| size.served.value)?)?,
            slots: Table::<Amount>::new(of(slots, |size| size.queued.value)?)?,
        };
        Ok(Self { servers: amount(servers)?, slots: amount(slots)?, tables })
    }
}

/// Why a profile makes no router.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileConfigError {
    /// An amount is none.
    #[error("{0} is no number of servers or slots")]
    Amount(f64),
    /// A table is none.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The parts don't fit together.
    #[error(transparent)]
    Router(#[from] RouterConfigError),
}

/// The packets of a trial in the order in which they entered: when, in seconds, and the delay of each.
struct Seen(Vec<(f64, Option<f64>)>);

impl Seen {
    fn of(outcome: &Outcome) -> Self {
        let seconds = |passage: &Passage| {
            (passage.entered.as_secs_f64(), passage.delay.map(|delay| delay.as_secs_f64()))
        };
        let mut all: Vec<_> = outcome.streams.iter().flatten().map(seconds).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(all)
    }

    fn delays(&self) -> Vec<f64> {
        self.0.iter().filter_map(|(_, delay)| *delay).collect()
    }

    /// The second half.
    fn late(&self) -> &[(f64, Option<f64>)] {
        &self.0[self.0.len() / 2..]
    }

    fn late_delays(&self) -> impl Iterator<Item = f64> {
        self.late().iter().filter_map(|(_, delay)| *delay)
    }

    fn lost(&self) -> f64 {
        share_lost(&self.0)
    }

    fn lost_late(&self) -> f64 {
        share_lost(self.late())
    }

    /// Whether it was lost of as much in the first quarter of the second half as in the last one, more or less: by then the
    /// queues are full.
    fn is_full_for_half(&self) -> bool {
        let late = self.late();
        let (first, last) = (&late[..late.len() / 4], &late[late.len() - late.len() / 4..]);
        share_lost(first) > 0.8 * share_lost(last)
    }

    /// Whether delays are longer at the end than in the middle: a queue that is not full yet.
    fn is_growing(&self) -> bool {
        let late = self.late();
        let mean = |part: &[(f64, Option<f64>)]| {
            let delays: Vec<_> = part.iter().filter_map(|(_, delay)| *delay).collect();
            delays.iter().sum::<f64>() / delays.len().max(1) as f64
        };
        let (first, last) = (&late[..late.len() / 4], &late[late.len() - late.len() / 4..]);
        share_lost(last) > 0.0 || mean(last) > 1.02 * mean(first)
    }

    /// From one packet that enters to the next, in seconds.
    fn entry_gap(&self) -> Option<f64> {
        let (first, last) = (self.0.first()?.0, self.0.last()?.0);
        (self.0.len() > 1).then(|| (last - first) / (self.0.len() - 1) as f64)
    }

    /// From one departure to the next while packets enter, in seconds, in the second half.
    fn departure_gap(&self) -> Option<Estimate> {
        let end = self.0.last()?.0;
        let departures = self.0.iter().filter_map(|(entered, delay)| Some(entered + (*delay)?));
        let mut departures: Vec<_> = departures.filter(|at| (end / 2.0..=end).contains(at)).collect();
        departures.sort_by(f64::total_cmp);
        let step = departures.len() / BLOCKS;
        let blocks = (0..BLOCKS).filter(|_| step > 1);
        let gaps = blocks.map(|block| {
            let block = &departures[block * step..(block + 1) * step];
            (block[step - 1] - block[0]) / (step - 1) as f64
        });
        interval_of_mean(&gaps.collect::<Vec<_>>())
    }
}

fn share_lost(packets: &[(f64, Option<f64>)]) -> f64 {
    packets.iter().filter(|(_, delay)| delay.is_none()).count() as f64 / packets.len().max(1) as f64
}
