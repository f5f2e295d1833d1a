//! Prefixes as binary trees, and the best rules in them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Limits;
use crate::ClassId;

/// What comes from a prefix, per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Source {
    pub(super) offered: f64,
    /// What of it should be dropped.
    pub(super) excess: f64,
}

/// One rule, and what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) prefix: IpNet,
    pub(super) rate: f64,
    pub(super) drops: f64,
    pub(super) harms: f64,
}

/// A tree for each class and family.
pub(super) struct Forest {
    trees: Vec<(ClassId, Tree)>,
}

struct Tree {
    nodes: Vec<Node>,
    root: usize,
}

struct Node {
    candidate: Candidate,
    /// Its prefix is not too short for a rule.
    is_allowed: bool,
    children: [Option<usize>; 2],
    /// For each number of rules the best that it can have.
    best: Vec<Best>,
}

/// The best that so many rules save, and how: how many of them are in the first child.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    saves: f64,
    how: How,
}

#[derive(Clone, Copy, Debug, Default)]
enum How {
    #[default]
    Nothing,
    Here,
    /// So many rules in the first half, and so many in the other.
    Below(usize, usize),
}

type Entry = (IpNet, Source);

impl Forest {
    pub(super) fn new(sources: &BTreeMap<(ClassId, IpNet), Source>, limits: Limits) -> Self {
        let mut apart = BTreeMap::<(ClassId, bool), Vec<Entry>>::new();
        for (&(class, prefix), &source) in sources {
            let is_v6 = matches!(prefix, IpNet::V6(_));
            apart.entry((class, is_v6)).or_default().push((prefix, source));
        }
        let tree = |((class, _), entries): (_, Vec<Entry>)| (class, Tree::new(&entries, limits));
        Self { trees: apart.into_iter().map(tree).collect() }
    }

    /// The rules that save most together.
    pub(super) fn best(&self, most: usize) -> Vec<(ClassId, Candidate)> {
        // For each tree what those up to it save with so many rules.
        let mut sums = vec![vec![Best::default()]];
        for (_, tree) in &self.trees {
            let before = sums.last().map_or(&[] as &[Best], Vec::as_slice);
            sums.push(join(before, &tree.nodes[tree.root].best, most));
        }
        let mut left = sums.last().map_or(0, |all| all.len() - 1);
        let mut rules = Vec::new();
        for ((class, tree), sum) in self.trees.iter().zip(&sums[1..]).rev() {
            let How::Below(before, here) = sum[left].how else { break };
            left = before;
            let mut chosen = Vec::new();
            tree.collect(tree.root, here, &mut chosen);
            rules.extend(chosen.into_iter().rev().map(|candidate| (*class, candidate)));
        }
        rules.reverse();
        rules
    }
}

impl Tree {
    /// Of entries that are in order: a prefix comes before all longer ones in it.
    fn new(entries: &[Entry], limits: Limits) -> Self {
        let mut tree = Self { nodes: Vec::new(), root: 0 };
        tree.root = tree.add(entries, limits);
        tree
    }

    /// Adds the nodes of some neighbours, of which there is at least one.
    fn add(&mut self, entries: &[Entry], limits: Limits) -> usize {
        let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
        let prefix = common(first, last);
        let below = if prefix == first { &entries[1..] } else { entries };
        let middle = below.partition_point(|(other, _)| !bit(*other, prefix.prefix_len()));
        let (left, right) = below.split_at(middle);
        let children = [left, right].map(|half| (!half.is_empty()).then(|| self.add(half, limits)));
        let shortest = if matches!(prefix, IpNet::V4(_)) { limits.shortest_v4 } else { limits.shortest_v6 };
        let is_allowed = below.is_empty() || prefix.prefix_len() >= shortest;
        let mut node =
            Node { candidate: Candidate::of(prefix, entries), is_allowed, children, best: Vec::new() };
        node.best = self.best_of(&node, limits.max_rules);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn best_of(&self, node: &Node, most: usize) -> Vec<Best> {
        let none = [Best::default()];
        let of = |child: Option<usize>| child.map_or(&none as &[_], |child| &self.nodes[child].best);
        let mut best = join(of(node.children[0]), of(node.children[1]), most);
        let saves = node.candidate.drops - node.candidate.harms;
        if best.len() == 1 && most > 0 && saves > 0.0 {
            best.push(Best::default());
        }
        let here = Best { saves, how: How::Here };
        for with_rules in best.iter_mut().skip(1).filter(|other| node.is_allowed && saves > other.saves) {
            *with_rules = here;
        }
        best
    }

    /// The rules of a node with so many of them.
    fn collect(&self, node: usize, rules: usize, chosen: &mut Vec<Candidate>) {
        let Node { candidate, children, best, .. } = &self.nodes[node];
        match best[rules].how {
            How::Nothing => {}
            How::Here => chosen.push(*candidate),
            How::Below(first, second) => {
                for (child, rules) in children.iter().zip([first, second]) {
                    if let Some(child) = child {
                        self.collect(*child, rules, chosen);
                    }
                }
            }
        }
    }
}

impl Candidate {
    /// A rule for all of these, which drops the same share of each.
    fn of(prefix: IpNet, entries: &[Entry]) -> Self {
        let offered: f64 = entries.iter().map(|(_, source)| source.offered).sum();
        let excess: f64 = entries.iter().map(|(_, source)| source.excess).sum();
        let share = if offered > 0.0 { excess / offered } else { 0.0 };
        let harm = |source: &Source| (share * source.offered - source.excess).max(0.0);
        let harms = entries.iter().map(|(_, source)| harm(source)).sum();
        Self { prefix, rate: offered - excess, drops: excess - harms, harms }
    }
}

/// The best of two that have no rule in common, for each number of rules up to `most`.
fn join(first: &[Best], second: &[Best], most: usize) -> Vec<Best> {
    let longest = (first.len() + second.len()).saturating_sub(2).min(most);
    let mut joined = vec![Best::default(); longest + 1];
    for (left, a) in first.iter().enumerate() {
        for (right, b) in second.iter().enumerate().take((longest + 1).saturating_sub(left)) {
            let best = &mut joined[left + right];
            let saves = a.saves + b.saves;
            if saves >= best.saves {
                *best = Best { saves, how: How::Below(left, right) };
            }
        }
    }
    joined
}

/// The longest prefix that holds both.
fn common(a: IpNet, b: IpNet) -> IpNet {
    let same = (bits(a.network()) ^ bits(b.network())).leading_zeros();
    let same = u8::try_from(same).unwrap_or(u8::MAX).min(a.prefix_len()).min(b.prefix_len());
    // No prefix is longer than those of its own family.
    IpNet::new(a.network(), same).map_or(a, |net| net.trunc())
}

/// The bit of an address behind so many others, which is 0 where there is none.
fn bit(net: IpNet, behind: u8) -> bool {
    bits(net.network()).checked_shl(u32::from(behind)).is_some_and(|bits| bits >> 127 == 1)
}

/// Left-aligned.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(Ipv4Addr::to_bits(address)) << 96,
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}
