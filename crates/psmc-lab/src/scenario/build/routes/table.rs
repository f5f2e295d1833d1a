//! The routes of one host, as few as say the same.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Family;
use crate::scenario::model::Route;

/// The next hops from a host to every network, of which [`routes`](Self::routes) makes its routes.
pub(super) struct Table {
    defaults: Defaults,
    /// All lists of next hops that there are, the best hop first.
    lists: Vec<Vec<IpAddr>>,
    /// Networks, each with the index of its list.
    networks: Vec<(IpNet, usize)>,
    /// Families with networks that the host must not send to.
    closed: Vec<Family>,
}

/// When a host gets default routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defaults {
    /// It has one link, by which everything goes.
    Always,
    /// Whenever they change nothing.
    Equivalent,
    /// Never: it lies between others. Were it to send by default what is for a link of its own that is down, its
    /// neighbours would send it back.
    Never,
}

impl Table {
    pub(super) const fn new(defaults: Defaults) -> Self {
        Self { defaults, lists: Vec::new(), networks: Vec::new(), closed: Vec::new() }
    }

    /// Adds the networks of a link that the host is not on, and the next hops to them; none if it must not send there.
    pub(super) fn add(&mut self, family: Family, to: &[IpNet], hops: Vec<IpAddr>) {
        if hops.is_empty() {
            if !self.closed.contains(&family) {
                self.closed.push(family);
            }
            return;
        }
        let list = self.lists.iter().position(|list| *list == hops).unwrap_or_else(|| {
            self.lists.push(hops);
            self.lists.len() - 1
        });
        self.networks.extend(to.iter().map(|to| (*to, list)));
    }

    /// The routes, for a host whose file gives it the routes `given`.
    pub(super) fn routes(&self, given: &[Route]) -> Vec<Route> {
        let mut routes = Vec::new();
        for family in [Family::V4, Family::V6] {
            let is_given = given.iter().any(|route| family.includes(&route.to));
            let networks = || self.networks.iter().filter(|(to, _)| family.includes(to));
            let default = match self.defaults {
                Defaults::Always => networks().next().map(|(_, list)| *list),
                Defaults::Equivalent if !is_given && !self.closed.contains(&family) => self.default(family),
                Defaults::Equivalent | Defaults::Never => None,
            };
            let default = default.map_or(&[][..], |list| &self.lists[list]);
            for (to, list) in networks().filter(|_| self.defaults != Defaults::Always) {
                routes.extend(
                    special(&self.lists[*list], default).iter().map(|via| Route { to: *to, via: *via }),
                );
            }
            routes.extend(default.iter().map(|via| Route { to: family.everything(), via: *via }));
        }
        routes
    }

    /// The list that spares most routes. It must hold no hop by which some network is not reached: whoever is bound to
    /// that hop's link must not get there.
    fn default(&self, family: Family) -> Option<usize> {
        let mut counts = vec![0_usize; self.lists.len()];
        self.networks.iter().filter(|(to, _)| family.includes(to)).for_each(|(_, list)| counts[*list] += 1);
        let used = || counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let everywhere = |hop: &IpAddr| used().all(|(list, _)| self.lists[list].contains(hop));
        let fits = used().filter(|(list, count)| **count > 1 && self.lists[*list].iter().all(everywhere));
        // Of several the first counts, and `min` takes the first of equals.
        fits.min_by_key(|(_, count)| std::cmp::Reverse(**count)).map(|(list, _)| list)
    }
}

/// The beginning of a list that has to be said where the default routes say the rest.
fn special<'a>(list: &'a [IpAddr], default: &[IpAddr]) -> &'a [IpAddr] {
    let says_the_rest = |length: &usize| {
        let (said, rest) = list.split_at(*length);
        default.iter().filter(|hop| !said.contains(hop)).eq(rest)
    };
    let length = (0..list.len()).find(says_the_rest).unwrap_or(list.len());
    &list[..length]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use proptest::sample::{Index, subsequence};

    use super::*;

    fn hop(number: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, number).into()
    }

    fn network(number: usize) -> IpNet {
        format!("10.{number}.0.0/16").parse().unwrap()
    }

    /// As the kernel has it: the longest prefix that has a hop which can be used, and its first one.
    fn lookup(routes: &[Route], to: &IpNet, usable: &[IpAddr]) -> Option<IpAddr> {
        let fit = routes.iter().filter(|route| route.to.contains(to) && usable.contains(&route.via));
        fit.min_by_key(|route| u8::MAX - route.to.prefix_len()).map(|route| route.via)
    }

    /// Next hops in some order: mostly all of them.
    fn list() -> impl Strategy<Value = Vec<u8>> {
        subsequence(vec![1, 2, 3, 4], 1..=4).prop_shuffle()
    }

    proptest! {
        #[test]
        fn default_routes_change_nothing(
            lists in prop::collection::vec(list(), 1..4),
            networks in prop::collection::vec(any::<Index>(), 1..12),
            usable in subsequence(vec![1, 2, 3, 4], 0..=4),
        ) {
            let usable: Vec<IpAddr> = usable.into_iter().map(hop).collect();
            let mut table = Table::new(Defaults::Equivalent);
            for (number, list) in networks.iter().enumerate() {
                let hops = list.get(&lists).iter().copied().map(hop).collect();
                table.add(Family::V4, &[network(number)], hops);
            }
            let routes = table.routes(&[]);
            for (number, list) in networks.iter().enumerate() {
                let expected = list.get(&lists).iter().copied().map(hop).find(|hop| usable.contains(hop));
                prop_assert_eq!(lookup(&routes, &network(number), &usable), expected, "{:?}", routes);
            }
        }
    }

    fn with_two_lists(defaults: Defaults) -> Table {
        let mut table = Table::new(defaults);
        for number in 0..100 {
            let hops = if number < 60 { [1, 2] } else { [2, 1] };
            table.add(Family::V4, &[network(number)], hops.map(hop).to_vec());
        }
        table
    }

    #[test]
    fn defaults_spare_most_routes() {
        let count = |defaults| with_two_lists(defaults).routes(&[]).len();
        assert_eq!(count(Defaults::Always), 2);
        assert_eq!(count(Defaults::Equivalent), 40 + 2);
        assert_eq!(count(Defaults::Never), 200);
    }

    #[test]
    fn where_the_file_gives_routes_or_a_network_is_closed_there_are_no_defaults() {
        let mut table = with_two_lists(Defaults::Equivalent);
        let given = Route { to: "10.0.0.0/8".parse().unwrap(), via: hop(2) };
        assert_eq!(table.routes(&[given]).len(), 200);
        table.add(Family::V6, &[], Vec::new());
        assert_eq!(table.routes(&[]).len(), 42, "the other family is closed");
        table.add(Family::V4, &[network(200)], Vec::new());
        assert_eq!(table.routes(&[]).len(), 200);
    }
}
