//! Networks drawn by chance: as Python's module `random` draws it, so that they are the same for everybody who has their seeds.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};

use rand_mt::Mt;

use super::wider::{Event, Wider};

/// Links between the same two sites.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    pub(super) links: Vec<Link>,
}

/// A link: half of the round trip in each direction, loss and jitter in the direction of the data, the rest in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// Headers from IP's on included.
    pub(super) mbps: f64,
    /// Without any queue.
    pub(super) round_trip_ms: f64,
    pub(super) loss_percent: f64,
    /// The standard deviation of the delay, which is normally distributed.
    pub(super) jitter_ms: f64,
    pub(super) queue_ms: f64,
    pub(super) wider: Wider,
}

impl Network {
    /// The network of a seed.
    ///
    /// Two to four links; rates log-uniform from 1 to 300 Mb/s, round trips from 5 to 400 ms, a third of the links lose up to 3 %, a
    /// third vary by up to 30 ms and never by more than the round trip, queues hold 20 to 500 ms. The rates add up to 5 to 320 Mb/s.
    pub(super) fn draw(seed: u32) -> Self {
        Self::drawn_until_it_fits(&mut Random::new(seed), &[2, 2, 3, 4], Link::draw)
    }

    /// The same with one to eight links, and with what else happens to links ([`Wider`]).
    pub(super) fn draw_wider(seed: u32) -> Self {
        Self::drawn_until_it_fits(&mut Random::new(seed), &[1, 2, 3, 4, 5, 6, 7, 8], |random| {
            let link = Link::draw(random);
            Link { wider: Wider::draw(random, &link), ..link }
        })
    }

    fn drawn_until_it_fits(
        random: &mut Random,
        numbers: &[usize],
        mut link: impl FnMut(&mut Random) -> Link,
    ) -> Self {
        loop {
            let links: Vec<_> = (0..random.choice(numbers)).map(|_| link(random)).collect();
            let sum: f64 = links.iter().map(|link| link.mbps).sum();
            if (LEAST_SUM..=MOST_SUM).contains(&sum) {
                return Self { links };
            }
        }
    }

    /// The link of the highest rate, on average of the run, by itself.
    pub(super) fn best_alone(&self, seconds: u32) -> Self {
        let rank = |link: &Link| {
            let rate = link.mean_mbps(seconds);
            [rate, link.round_trip_ms, link.loss_percent, link.jitter_ms, link.queue_ms]
        };
        let best = self.links.iter().max_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(Ordering::Equal));
        Self { links: best.into_iter().copied().collect() }
    }

    /// What arrives over all links if they are full, headers included.
    pub(super) fn sum_mbps(&self, seconds: u32) -> f64 {
        self.links.iter().map(|link| link.mean_mbps(seconds) * (1.0 - link.loss_percent / 100.0)).sum()
    }

    /// The rates of all links added up.
    pub(super) fn rate_mbps(&self) -> f64 {
        self.links.iter().map(|link| link.mbps).sum()
    }

    /// The round trip of the nearest link.
    pub(super) fn nearest_ms(&self) -> f64 {
        self.links.iter().map(|link| link.round_trip_ms).fold(f64::INFINITY, f64::min)
    }

    /// Its links, and what happens to them, as a scenario has them.
    pub(super) fn sections(&self, seconds: u32) -> String {
        let named = || self.links.iter().zip(1..).map(|(link, number)| (link, format!("l{number}")));
        let links = named().map(|(link, name)| link.section(&name));
        let events = named().filter_map(|(link, name)| Some(link.wider.event?.sections(&name, seconds)));
        links.chain(events).collect()
    }
}

impl Link {
    /// What is drawn first depends on the order in which Python evaluates: the amount before the choice whether there is any.
    fn draw(random: &mut Random) -> Self {
        let mbps = rounded(random.log_uniform(1.0, 300.0), 1);
        let round_trip_ms = rounded(random.log_uniform(5.0, 400.0), 0);
        let loss = rounded(random.uniform(0.0, 3.0), 2);
        let loss_percent = random.choice(&[0.0, 0.0, loss]);
        let jitter = rounded(random.uniform(0.0, 30.0), 1);
        let jitter_ms = random.choice(&[0.0, 0.0, jitter]).min(round_trip_ms);
        let queue_ms = rounded(random.log_uniform(20.0, 500.0), 0);
        Self { mbps, round_trip_ms, loss_percent, jitter_ms, queue_ms, wider: Wider::default() }
    }

    /// Its rate, on average of the run.
    fn mean_mbps(&self, seconds: u32) -> f64 {
        self.wider.event.map_or(self.mbps, |event| event.mean_mbps(self.mbps, seconds))
    }

    fn section(&self, name: &str) -> String {
        let Self { mbps, round_trip_ms, queue_ms, .. } = self;
        let back = self.back();
        let back = if back.is_empty() { back } else { format!("[link.back]\n{back}") };
        let delay_ms = round_trip_ms / 2.0;
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"van\", \"hq\"]\nrate = \"{mbps}mbit\"\n\
             delay = \"{delay_ms}ms\"\nqueue = \"{queue_ms}ms\"\n{back}\n"
        )
    }

    /// What is so in the direction of the data only.
    fn back(&self) -> String {
        let mut back = String::new();
        if self.loss_percent > 0.0 {
            back += &format!("loss = {}\n", self.wider.loss(self.loss_percent));
        }
        if self.jitter_ms > 0.0 {
            back += &format!("jitter = \"{}ms\"\n", self.jitter_ms);
        }
        back + &self.wider.order()
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let links: Vec<_> = self.links.iter().map(Link::to_string).collect();
        f.write_str(&links.join("; "))
    }
}

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mb/s, {} ms", self.mbps, self.round_trip_ms)?;
        if self.loss_percent > 0.0 {
            write!(f, ", {} %{}", self.loss_percent, self.wider.burst_words())?;
        }
        if self.jitter_ms > 0.0 {
            write!(f, ", ± {} ms", self.jitter_ms)?;
        }
        write!(f, "{}, queue {} ms", self.wider.order_words(), self.queue_ms)?;
        self.wider.event.iter().try_for_each(|event: &Event| write!(f, ", {event}"))
    }
}

/// Less is not worth a second link.
const LEAST_SUM: f64 = 5.0;

/// More takes a simulation too long.
const MOST_SUM: f64 = 320.0;

/// `random.Random(seed)`: the Mersenne Twister (Matsumoto and Nishimura 1998), and what Python makes of its numbers.
pub(super) struct Random(Mt);

impl Random {
    pub(super) fn new(seed: u32) -> Self {
        Self(Mt::new_with_key([seed]))
    }

    /// `random()`: 53 random bits, as a fraction of one.
    fn fraction(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// `uniform(low, high)`
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.fraction()
    }

    /// Each order of magnitude between both is as likely.
    pub(super) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// `choice(all)`: as many bits as the number of elements has, again and again until they name one.
    pub(super) fn choice<T: Copy>(&mut self, all: &[T]) -> T {
        let unused = (all.len() as u64).leading_zeros() - u32::BITS;
        loop {
            let index = self.0.next_u32() >> unused;
            if let Some(&chosen) = all.get(index as usize) {
                return chosen;
            }
        }
    }
}

/// `round(number, decimals)`: the nearest of the numbers that have so many decimals.
pub(super) fn rounded(number: f64, decimals: usize) -> f64 {
    format!("{number:.decimals$}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as the generator that is published in Python prints it.
    const DRAWN: [(u32, &str); 6] = [
        (
            0,
            "75.4 Mb/s, 32 ms, 0.78 %, queue 451 ms; 7.7 Mb/s, 249 ms, queue 146 ms; \
         4.2 Mb/s, 269 ms, 2.95 %, queue 27 ms; 1.5 Mb/s, 208 ms, 0.99 %, queue 55 ms",
        ),
        (1, "25.7 Mb/s, 168 ms, queue 91 ms; 8.7 Mb/s, 13 ms, queue 188 ms"),
        (
            1000,
            "45.6 Mb/s, 8 ms, queue 30 ms; 46 Mb/s, 25 ms, queue 42 ms; \
         13.6 Mb/s, 6 ms, ± 4.3 ms, queue 197 ms; 51.6 Mb/s, 12 ms, 2.29 %, queue 474 ms",
        ),
        (1001, "76.6 Mb/s, 12 ms, 2.83 %, queue 74 ms; 8.5 Mb/s, 86 ms, 1.2 %, queue 22 ms"),
        (1002, "54.3 Mb/s, 7 ms, queue 55 ms; 100.7 Mb/s, 337 ms, queue 109 ms; 97 Mb/s, 11 ms, queue 25 ms"),
        (u32::MAX, "3.4 Mb/s, 49 ms, queue 63 ms; 17 Mb/s, 7 ms, 2.91 %, queue 257 ms"),
    ];

    #[test]
    fn a_seed_gives_the_same_network_as_in_python() {
        for (seed, network) in DRAWN {
            assert_eq!(Network::draw(seed).to_string(), network, "seed {seed}");
        }
    }

    #[test]
    fn networks_have_the_distribution_that_is_promised() {
        let links: Vec<_> = (0..2000).flat_map(|seed| Network::draw(seed).links).collect();
        let share = |has: fn(&Link) -> bool| {
            links.iter().filter(|link| has(link)).count() as f64 / links.len() as f64
        };
        for third in [share(|link| link.loss_percent > 0.0), share(|link| link.jitter_ms > 0.0)] {
            assert!((0.3..0.37).contains(&third), "{third}");
        }
        assert!(links.iter().all(|link| link.jitter_ms <= link.round_trip_ms && link.jitter_ms <= 30.0));
        assert!(links.iter().all(|link| (5.0..=400.0).contains(&link.round_trip_ms)));
        assert!(links.iter().all(|link| (20.0..=500.0).contains(&link.queue_ms)));
        // Half of an order of magnitude below the geometric mean, half above.
        let near = share(|link| link.round_trip_ms < 44.7);
        assert!((0.47..0.53).contains(&near), "{near}");
    }

    #[test]
    fn the_best_link_is_that_of_the_highest_rate() {
        let network = Network::draw(1002);
        assert_eq!(network.best_alone(10).to_string(), "100.7 Mb/s, 337 ms, queue 109 ms");
        assert_eq!((network.nearest_ms(), network.rate_mbps()), (7.0, 54.3 + 100.7 + 97.0));
        let lossy = Network::draw(1001);
        assert!((lossy.sum_mbps(10) - (76.6 * 0.9717 + 8.5 * 0.988)).abs() < 1e-9);
    }

    #[test]
    fn chance_acts_on_the_data_only() {
        insta::assert_snapshot!(Network::draw(1000).sections(10));
    }

    /// From Python 3.11: `r = random.Random(1000)`.
    #[test]
    fn it_draws_what_python_draws() {
        let mut random = Random::new(1000);
        // [r.random() for _ in range(3)]
        let fractions = [(); 3].map(|()| random.fraction());
        assert_eq!(fractions, [0.7773566427005639, 0.6698255595592497, 0.09913960392481702]);
        // [r.choice(range(4)) for _ in range(8)]
        let choices = [(); 8].map(|()| random.choice(&[0, 1, 2, 3]));
        assert_eq!(choices, [2, 0, 3, 1, 3, 1, 1, 1]);
        // r.uniform(3, 7)
        assert_eq!(random.uniform(3.0, 7.0), 4.456917663789502);
        assert_eq!(Random::new(0).fraction(), 0.8444218515250481);
    }

    #[test]
    fn numbers_are_rounded_as_python_does() {
        // round(2.675, 2), round(0.25, 1), round(144.25, 1), round(2.5)
        let ours = [rounded(2.675, 2), rounded(0.25, 1), rounded(144.25, 1), rounded(2.5, 0)];
        assert_eq!(ours, [2.67, 0.2, 144.2, 2.0]);
    }
}
