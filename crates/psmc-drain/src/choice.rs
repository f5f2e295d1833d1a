//! Which rules are worth having, where a router takes only so many.
//!
//! Every source of a class that is offered more than it may pass wants a rule of its own. Where that is too many, a rule for a
//! shorter prefix can stand for several, but a limit drops evenly of all that it matches: of what should have passed as well. So a rule
//! *saves* what it drops of what should be dropped, less what it drops of what should not.
//!
//! [`choose`] finds those that save most together, exactly: a binary tree of prefixes for each class, in which the best for so many rules is
//! either one rule here or the best division of them between both halves (a knapsack over trees).

mod tree;

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;

use crate::{ClassId, is_rate};
use tree::{Forest, Source};

/// Sources that are looked at: what is beyond saves less than each of these.
pub const MAX_SOURCES: usize = 4096;

/// What comes from a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The class that it belongs to.
    pub class: ClassId,
    /// Where it comes from; what comes from longer prefixes that are wanted as well is not part of it.
    pub source: IpNet,
    /// How much is offered, per second.
    pub offered: f64,
    /// How much may pass, per second. That which may pass as a whole is worth telling as well: no rule should match it.
    pub rate: f64,
}

/// How many rules, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No more rules than this.
    pub max_rules: usize,
    /// Rules of IPv4 that stand for several have no shorter prefix than this.
    pub shortest_v4: u8,
    /// The same of IPv6.
    pub shortest_v6: u8,
}

/// A rule that is worth having.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Of which class.
    pub class: ClassId,
    /// For what comes from here.
    pub source: IpNet,
    /// What may pass, per second.
    pub rate: f64,
    /// What it drops of what should be dropped, per second, ...
    pub drops: f64,
    /// ... and of what should not.
    pub harms: f64,
    /// How many of those that were wanted it stands for.
    pub stands_for: usize,
}

/// Why a source has a rule, or none. Its text is a sentence's part for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It has a rule of its own.
    Own(Chosen),
    /// A rule for a shorter prefix stands for it and others.
    Merged(Chosen),
    /// Others save more, and there are as many rules as there may be; so much it would have saved, per second.
    LeftOut {
        /// What a rule would have dropped.
        saves: f64,
    },
    /// No more is offered than may pass.
    Needless,
    /// Its numbers are no rates.
    Nonsense,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The rules, by class and prefix. None matches what another one matches.
    pub rules: Vec<Chosen>,
    /// For each that was wanted, in their order, the place of its rule.
    by: Vec<Option<usize>>,
}

impl Default for Limits {
    /// Ten rules, as wide as networks are announced at most (/8, /16).
    fn default() -> Self {
        Self { max_rules: 10, shortest_v4: 8, shortest_v6: 16 }
    }
}

/// The rules that save most together.
#[must_use]
pub fn choose(wanted: &[Wanted], limits: Limits) -> Choice {
    let sources = sources(wanted);
    let mut choice = Choice { rules: Vec::new(), by: vec![None; wanted.len()] };
    for (class, best) in Forest::new(&sources, limits).best(limits.max_rules) {
        let matches = |one: &Wanted| one.class == class && best.prefix.contains(&one.source) && one.is_sane();
        let place = choice.rules.len();
        let mut stands_for = 0;
        for (one, by) in wanted.iter().zip(&mut choice.by).filter(|(one, _)| matches(one)) {
            *by = Some(place);
            stands_for += usize::from(one.excess() > 0.0);
        }
        choice.rules.push(Chosen {
            class,
            source: best.prefix,
            rate: best.rate,
            drops: best.drops,
            harms: best.harms,
            stands_for,
        });
    }
    choice
}

impl Choice {
    /// What the rules save together, per second.
    #[must_use]
    pub fn saves(&self) -> f64 {
        self.rules.iter().map(|rule| rule.drops - rule.harms).sum()
    }

    /// Why one of those that were wanted, by its place among them, has a rule or none; `None` if there was no such.
    #[must_use]
    pub fn explain(&self, wanted: &[Wanted], place: usize) -> Option<Reason> {
        let (one, by) = (wanted.get(place)?, self.by.get(place)?);
        if !one.is_sane() {
            return Some(Reason::Nonsense);
        }
        Some(match by.and_then(|rule| self.rules.get(rule)) {
            Some(rule) if rule.source == one.source.trunc() && rule.stands_for == 1 => {
                Reason::Own(rule.clone())
            }
            Some(rule) => Reason::Merged(rule.clone()),
            None if one.excess() > 0.0 => Reason::LeftOut { saves: one.excess() },
            None => Reason::Needless,
        })
    }
}

impl Wanted {
    fn is_sane(&self) -> bool {
        is_rate(self.offered) && is_rate(self.rate)
    }

    fn excess(&self) -> f64 {
        (self.offered - self.rate).max(0.0)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(rule) => {
                write!(f, "a rule of its own drops {:.0}/s that would be dropped later", rule.drops)
            }
            Self::Merged(rule) => write!(
                f,
                "the rule for {} stands for {} and drops {:.0}/s that would be dropped later, and {:.0}/s that would not",
                rule.source, rule.stands_for, rule.drops, rule.harms
            ),
            Self::LeftOut { saves } => {
                write!(f, "no rule: it would save {saves:.0}/s, and the rules that there may be save more")
            }
            Self::Needless => f.write_str("no rule: no more is offered than may pass"),
            Self::Nonsense => f.write_str("no rule: its numbers are no rates"),
        }
    }
}

/// What comes from each prefix of each class; if there are too many, those with most to drop.
fn sources(wanted: &[Wanted]) -> BTreeMap<(ClassId, IpNet), Source> {
    let mut sources = BTreeMap::<_, Source>::new();
    for one in wanted.iter().filter(|one| one.is_sane()) {
        let source = sources.entry((one.class, one.source.trunc())).or_default();
        source.offered += one.offered;
        source.excess += one.excess();
    }
    if sources.len() > MAX_SOURCES {
        let mut excesses: Vec<f64> = sources.values().map(|source| source.excess).collect();
        excesses.sort_by(f64::total_cmp);
        let least = excesses[excesses.len() - MAX_SOURCES];
        let mut left = MAX_SOURCES;
        sources.retain(|_, source| {
            let keep = source.excess >= least && left > 0;
            left -= usize::from(keep);
            keep
        });
    }
    sources
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(source: &str, offered: f64, rate: f64) -> Wanted {
        Wanted { class: ClassId(1), source: source.parse().unwrap(), offered, rate }
    }

    fn limits(max_rules: usize) -> Limits {
        Limits { max_rules, ..Limits::default() }
    }

    #[test]
    fn where_there_is_room_everybody_has_a_rule_of_its_own() {
        let all = [wanted("192.0.2.1/32", 100.0, 10.0), wanted("198.51.100.0/24", 50.0, 10.0)];
        let choice = choose(&all, limits(10));
        assert_eq!(choice.saves(), 130.0);
        assert!(matches!(choice.explain(&all, 0), Some(Reason::Own(rule)) if rule.rate == 10.0));
    }

    #[test]
    fn neighbours_that_are_alike_share_a_rule_and_the_innocent_are_spared() {
        let all = [
            wanted("192.0.2.1/32", 100.0, 10.0),
            wanted("192.0.2.2/32", 100.0, 10.0),
            wanted("198.51.100.1/32", 80.0, 10.0),
            // Between the first two and the third, and harmless.
            wanted("196.0.0.0/16", 1000.0, 1000.0),
        ];
        let choice = choose(&all, limits(2));
        let sources: Vec<_> = choice.rules.iter().map(|rule| rule.source.to_string()).collect();
        assert_eq!(sources, ["192.0.2.0/30", "198.51.100.1/32"]);
        assert_eq!(choice.saves(), 250.0);
        assert_eq!(choice.rules[0].rate, 20.0);
        let texts: Vec<_> = (0..4).map(|place| choice.explain(&all, place).unwrap().to_string()).collect();
        assert_eq!(
            texts[0],
            "the rule for 192.0.2.0/30 stands for 2 and drops 180/s that would be dropped later, and 0/s that would not"
        );
        assert_eq!(texts[2], "a rule of its own drops 70/s that would be dropped later");
        assert_eq!(texts[3], "no rule: no more is offered than may pass");
        assert!(choice.explain(&all, 4).is_none());
    }

    #[test]
    fn the_least_is_left_out_if_it_has_no_neighbours() {
        let all = [wanted("192.0.2.1/32", 100.0, 10.0), wanted("10.0.0.1/32", 30.0, 10.0)];
        let choice = choose(&all, limits(1));
        assert_eq!(choice.explain(&all, 1), Some(Reason::LeftOut { saves: 20.0 }));
    }

    #[test]
    fn nonsense_costs_nobody_a_rule() {
        let all = [
            wanted("192.0.2.1/32", f64::NAN, 0.0),
            wanted("192.0.2.2/32", f64::INFINITY, 0.0),
            wanted("192.0.2.3/32", 100.0, -1.0),
            wanted("192.0.2.4/32", 100.0, 10.0),
        ];
        let choice = choose(&all, limits(1));
        assert_eq!(choice.saves(), 90.0);
        assert_eq!(choice.explain(&all, 0), Some(Reason::Nonsense));
    }

    #[test]
    fn no_rules_are_no_rules_and_classes_and_families_are_apart() {
        let all = [
            wanted("2001:db8::1/128", 100.0, 10.0),
            wanted("192.0.2.4/32", 90.0, 10.0),
            Wanted { class: ClassId(2), ..wanted("192.0.2.5/32", 80.0, 10.0) },
        ];
        assert_eq!(choose(&all, limits(0)).rules, []);
        assert_eq!(choose(&all, limits(2)).saves(), 170.0, "none can stand for another");
        assert_eq!(choose(&[], limits(2)), Choice::default());
    }

    #[test]
    fn ten_rules_for_two_hundred_in_ten_networks_save_almost_all() {
        let hosts = (0..10u8).flat_map(|net| {
            (1..=20u8)
                .map(move |host| wanted(&format!("10.{net}.7.{host}/32"), 100.0 + f64::from(host), 10.0))
        });
        let all: Vec<_> = hosts.collect();
        let most: f64 = all.iter().map(Wanted::excess).sum();
        let choice = choose(&all, limits(10));
        assert!(choice.rules.len() == 10 && choice.saves() >= 0.95 * most, "{} of {most}", choice.saves());
    }

    #[test]
    fn as_many_sources_as_there_may_be_are_chosen_of() {
        let hosts = (0..6000u32).map(|host| {
            let source = IpNet::from(std::net::IpAddr::from(std::net::Ipv4Addr::from(host * 65_537)));
            Wanted { class: ClassId(host % 3), source, offered: f64::from(host), rate: 0.0 }
        });
        let all: Vec<_> = hosts.collect();
        let choice = choose(&all, limits(50));
        let largest: f64 = (5950..6000).map(f64::from).sum();
        assert!(choice.rules.len() == 50 && choice.saves() >= largest);
    }

    /// All sets of rules that there can be, each for itself: prefixes of a network of eight addresses.
    fn exhaustive(all: &[Wanted], most: usize) -> f64 {
        let candidates: Vec<IpNet> = (29..=32u8)
            .flat_map(|len| (0..8u8).step_by(1 << (32 - len)).map(move |low| format!("192.0.2.{low}/{len}")))
            .map(|text| text.parse().unwrap())
            .collect();
        let value = |prefix: &IpNet| {
            let inside = all.iter().filter(|one| prefix.contains(&one.source));
            let (offered, excess) = inside
                .clone()
                .fold((0.0, 0.0), |(offered, excess), one| (offered + one.offered, excess + one.excess()));
            let share: f64 = if offered > 0.0 { excess / offered } else { 0.0 };
            let harm: f64 = inside.map(|one| (share * one.offered - one.excess()).max(0.0)).sum();
            excess - 2.0 * harm
        };
        let mut best = 0.0f64;
        for set in 0u32..1 << candidates.len() {
            if set.count_ones() as usize > most {
                continue;
            }
            let members = (0..candidates.len()).filter(|bit| set & (1 << bit) != 0);
            let members: Vec<_> = members.map(|bit| candidates[bit]).collect();
            let is_apart = |one: &IpNet| members.iter().filter(|other| other.contains(one)).count() == 1;
            if members.iter().all(is_apart) {
                best = best.max(members.iter().map(value).sum());
            }
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn nothing_saves_more(
            hosts in proptest::collection::vec((0..8u8, 0.0..1000.0, 0.0..1000.0), 1..8),
            most in 0usize..5,
        ) {
            // Nobody is there twice: of those the shares are not told apart.
            let hosts: BTreeMap<_, _> = hosts.into_iter().map(|(low, offered, rate)| (low, (offered, rate))).collect();
            let all: Vec<_> = hosts
                .into_iter()
                .map(|(low, (offered, rate))| wanted(&format!("192.0.2.{low}/32"), offered, rate))
                .collect();
            let (ours, best) = (choose(&all, limits(most)).saves(), exhaustive(&all, most));
            prop_assert!((ours - best).abs() <= 1e-6 * (1.0 + best), "{ours}, not {best}");
        }
    }
}
