//! More that can be the matter with a link than [`Network::draw`](super::network::Network::draw) has.

use std::fmt::{self, Display, Formatter};

use super::network::{Link, Random, rounded};

/// What else a link does. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Wider {
    /// How many packets are lost in a row, on average; each by itself if `None`.
    burst: Option<f64>,
    /// Whether packets overtake each other as their delays vary.
    overtaking: bool,
    /// The chance of a packet to go ahead of those before it, in percent.
    ahead_percent: f64,
    pub(super) event: Option<Event>,
}

/// What happens to a link for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    what: What,
    /// When it begins, as a part of the time for which the traffic flows.
    begins: f64,
    lasts_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Both ends notice.
    Cut,
    /// Nobody is told.
    BlackHole,
    /// The same in the direction of the data only.
    BlackHoleOfData,
    /// The rate changes to this.
    Rate(f64),
}

impl Wider {
    /// Half of the links that lose do so in bursts, a third of those that vary let packets overtake, a sixth of all let up to 5 % of
    /// the packets go ahead, and to a fourth something happens.
    pub(super) fn draw(random: &mut Random, link: &Link) -> Self {
        let burst = rounded(random.log_uniform(2.0, 20.0), 1);
        let burst = random.choice(&[None, Some(burst)]).filter(|_| link.loss_percent > 0.0);
        let overtaking = random.choice(&[true, false, false]) && link.jitter_ms > 0.0;
        let ahead = rounded(random.uniform(0.0, 5.0), 2);
        let ahead_percent = random.choice(&[ahead, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let event = Event::draw(random, link.mbps);
        Self { burst, overtaking, ahead_percent, event: random.choice(&[Some(event), None, None, None]) }
    }

    /// Loss of so many percent, as a scenario has it.
    pub(super) fn loss(&self, percent: f64) -> String {
        let Some(packets) = self.burst else { return format!("\"{percent}%\"") };
        // Of a chain of two states: the mean length of a burst, and its share of all packets.
        let to_good = 1.0 / packets;
        let to_bad = to_good * percent / (100.0 - percent);
        format!("{{ to_bad = \"{:.5}%\", to_good = \"{:.3}%\" }}", 100.0 * to_bad, 100.0 * to_good)
    }

    /// What disturbs the order of packets, as a scenario has it.
    pub(super) fn order(&self) -> String {
        let overtaking = if self.overtaking { "reordering = true\n" } else { "" };
        if self.ahead_percent > 0.0 {
            format!("{overtaking}reorder = \"{}%\"\n", self.ahead_percent)
        } else {
            overtaking.to_owned()
        }
    }

    pub(super) fn burst_words(&self) -> String {
        self.burst.map_or_else(String::new, |packets| format!(" in bursts of {packets}"))
    }

    pub(super) fn order_words(&self) -> String {
        let overtaking = if self.overtaking { " overtaking" } else { "" };
        if self.ahead_percent > 0.0 {
            format!("{overtaking}, {} % ahead", self.ahead_percent)
        } else {
            overtaking.to_owned()
        }
    }
}

impl Event {
    fn draw(random: &mut Random, mbps: f64) -> Self {
        let rate = What::Rate(rounded(mbps / random.log_uniform(2.0, 12.0), 2));
        let what = random.choice(&[What::Cut, What::BlackHole, What::BlackHoleOfData, rate, rate, rate]);
        let begins = rounded(random.uniform(0.1, 0.8), 2);
        let (outage, step) = (random.log_uniform(0.01, 2.0), random.log_uniform(0.5, 5.0));
        let lasts_s = rounded(if matches!(what, What::Rate(_)) { step } else { outage }, 3);
        Self { what, begins, lasts_s }
    }

    /// What a link of so many Mb/s has on average of the run.
    pub(super) fn mean_mbps(&self, mbps: f64, seconds: u32) -> f64 {
        let all = f64::from(seconds);
        let affected = self.lasts_s.min(all * (1.0 - self.begins)) / all;
        let meanwhile = match self.what {
            What::Cut | What::BlackHole | What::BlackHoleOfData => 0.0,
            What::Rate(mbps) => mbps,
        };
        mbps + affected * (meanwhile - mbps)
    }

    /// As a scenario has it, in which the traffic begins after a second.
    pub(super) fn sections(&self, link: &str, seconds: u32) -> String {
        let at = 1.0 + self.begins * f64::from(seconds);
        // A second after the traffic has ended the scenario does so too.
        let end = (at + self.lasts_s).min(f64::from(seconds) + 1.5);
        let begins = match self.what {
            What::Cut => format!("cut = \"{link}\""),
            What::BlackHole => format!("black_hole = \"{link}\""),
            What::BlackHoleOfData => format!("black_hole = \"{link}\"\ndirection = \"back\""),
            What::Rate(mbps) => format!("change = \"{link}\"\nrate = \"{mbps}mbit\""),
        };
        format!(
            "[[event]]\nat = \"{at:.3}s\"\n{begins}\n\n[[event]]\nat = \"{end:.3}s\"\nrestore = \"{link}\"\n\n"
        )
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Cut => f.write_str("cut")?,
            What::BlackHole => f.write_str("black hole")?,
            What::BlackHoleOfData => f.write_str("black hole of data")?,
            What::Rate(mbps) => write!(f, "{mbps} Mb/s")?,
        }
        write!(f, " for {} s after {:.0} %", self.lasts_s, 100.0 * self.begins)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::network::Network;
    use super::*;
    use crate::scenario::Scenario;

    fn networks() -> impl Iterator<Item = Network> {
        (0..300).map(Network::draw_wider)
    }

    /// Each kind is drawn, and each is something that a scenario can have.
    #[test]
    fn everything_that_can_be_the_matter_is() {
        let mut numbers = [0; 9];
        let mut words = String::new();
        for network in networks() {
            numbers[network.links.len()] += 1;
            words += &network.to_string();
            let scenario = format!("[scenario]\nduration = \"12s\"\n{}", network.sections(10));
            Scenario::parse(&scenario, Path::new("wider"))
                .unwrap_or_else(|error| panic!("{error}\n{scenario}"));
        }
        assert!(numbers[0] == 0 && numbers[1..].iter().all(|&number| number > 0), "{numbers:?}");
        for kind in
            ["in bursts of", "overtaking", "% ahead", "cut for", "black hole for", "black hole of data for"]
        {
            assert!(words.contains(kind), "{kind}");
        }
        assert!(words.contains("Mb/s for"));
    }

    #[test]
    fn a_link_that_is_slow_for_a_while_carries_less() {
        let slower = networks().filter(|network| network.to_string().contains(" s after "));
        let less = |network: &Network| {
            let links = network.links.iter().map(|&link| Link { wider: Wider::default(), ..link });
            let clean = Network { links: links.collect() };
            0.0 < network.sum_mbps(10) && network.sum_mbps(10) < clean.sum_mbps(10)
        };
        assert!(slower.inspect(|network| assert!(less(network), "{network}")).count() > 30);
    }
}
