//! The thesis on proxy-server-based multipath connections, figures 3.8 and 3.9: SCOLD in large networks. The messages of
//! our programs, with their real lengths and in their real order, in virtual time on transit–stub networks.
//!
//! | module | what it has |
//! |---|---|
//! | `network` | a network by chance, who is where in it, and the flood |
//! | `relays` | which relays serve whom |
//! | `bytes` | how long messages are |
//! | `talk` | connections, requests and answers as steps of a script |
//! | `setup` | figure 3.8: from the alert until clients go around |
//! | `detour` | figure 3.9: what going around costs |

mod bytes;
mod detour;
mod network;
mod relays;
mod setup;
mod talk;

use super::Experiment;
use psmc_lab::bench::median;

pub(super) const FAMILIES: &[&[Experiment]] = &[EXPERIMENTS];

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-3.8",
        what: "how long it takes from an alert until the clients go around, by size of the network",
        seed: "PSMC figure 3.8, whose points are not printed: set-up grows slowly; the 9.5 s beside ours are those of the test \
               bed, table 3.1",
        how: "simulated; transit–stub networks (seeds 1 to 15), lines of 10 to 100 Mb/s, between transit routers 100 to 1000, of \
              which others take 40 to 80 %; at random 10 % of the nodes are relays, 5 % attackers, 20 % clients, 4 % their name \
              servers; service, gateways and coordinator in one stub domain, the main gateway out of service. The messages of \
              guard, coordinator, gateway, relays, name servers and clients as they are on the wire, in their order; a group of \
              100 clients has three relays, as the coordinator chooses them. Work: a TLS handshake 1 ms, storing 2 ms, each \
              other message 50 µs. Clients look for routes every 250 ms, and at their paths every 100 ms. Means over the \
              clients of a network, medians over networks",
        criterion: "no faster growth than that of the round trips between clients and service, up to 5,000 nodes",
        runs: 1,
        measure: setup::measure,
    },
    Experiment {
        name: "psmc-fig-3.9",
        what: "what the indirect route costs beside the direct one, by size of the network",
        seed: "PSMC figure 3.9, whose points are not printed: the overhead is nearly constant; 77 and 80 % are those of ping and \
               HTTP of 100 kB in table 3.3, on the test bed",
        how: "simulated; the networks of psmc-fig-3.8. Pings of 84 bytes, and 100 kB over a new TCP connection that begins with \
              10 segments, and sends two more for each that is acknowledged: directly without the flood, and in the tunnel through the nearest of the client's \
              relays during it; a relay works 20 µs on a packet. 100 clients at most, each alone; means over the clients of a \
              network, medians over networks",
        criterion: "no more than the seed's; no size more than 20 percentage points from the median of all",
        runs: 1,
        measure: detour::measure,
    },
];

/// Sizes of the seed's networks, and larger ones.
const SIZES: [u32; 8] = [100, 200, 300, 400, 500, 1000, 2000, 5000];

/// Of the networks of each size.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=15;

/// By how much the values differ, in percent of the middle one.
fn spread(values: &[Option<f64>]) -> Option<f64> {
    let all: Option<Vec<f64>> = values.iter().copied().collect();
    let (least, most) =
        all?.into_iter().fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
    Some((most - least) / median(values.iter().copied())? * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_farthest() {
        assert_eq!(spread(&[Some(4.0), Some(3.0), Some(5.0)]), Some(50.0));
        assert_eq!(spread(&[Some(4.0), None]), None);
    }
}
