//! Networks by chance, like those that selections are tried on.

mod edges;
mod transit_stub;
mod waxman;

pub use transit_stub::TransitStub;
pub use waxman::Waxman;

use crate::dice::Dice;
use crate::network::{Draft, DraftLink, DraftNode};
use edges::Edges;

/// The name of the source of every network that is generated.
pub const SOURCE: &str = "source";

/// And of the destination.
pub const DESTINATION: &str = "destination";

/// Hosts that are hung onto routers.
struct Hosts<'a> {
    relays: usize,
    /// Routers that hosts are attached to: the ends to the first and the last of them, so that they are far apart.
    routers: &'a [usize],
    /// Mbit/s of their links.
    bandwidth: (f64, f64),
}

impl Hosts<'_> {
    /// Adds both ends, and the relays with three providers in turn, each at a router of its own as long as there are any.
    fn attach(&self, draft: &mut Draft, dice: &mut Dice) {
        let ends = [self.routers.first(), self.routers.last()];
        for (name, router) in [SOURCE, DESTINATION].into_iter().zip(ends) {
            draft.nodes.push(DraftNode::router(name));
            // The ends have bandwidth to spare: what is looked for lies between them.
            let bandwidth = self.bandwidth.1 * ENDS_HAVE;
            draft
                .links
                .extend(router.map(|router| DraftLink::new(name, router_name(*router), bandwidth, 0.5)));
        }
        let places = dice.sample(self.routers, self.relays);
        for number in 0..self.relays {
            let name = format!("relay-{number}");
            let provider = Some(format!("provider-{}", number % PROVIDERS));
            // Relays without a router of their own share the others'.
            let Some(router) = places.get(number % places.len().max(1)) else { return };
            let bandwidth = dice.between(self.bandwidth.0, self.bandwidth.1);
            draft.links.push(DraftLink::new(&name, router_name(*router), bandwidth, dice.between(0.1, 1.0)));
            draft.nodes.push(DraftNode { provider, price: dice.between(0.0, 0.1), ..DraftNode::relay(name) });
        }
        (draft.source, draft.destination) = (SOURCE.to_owned(), DESTINATION.to_owned());
    }
}

/// The routers and the links between them.
fn routers(edges: &Edges, mut bandwidth: impl FnMut(usize, usize) -> f64) -> Draft {
    let nodes = (0..edges.places.len()).map(|number| DraftNode::router(router_name(number))).collect();
    let link = |&(a, b): &(usize, usize)| {
        DraftLink::new(router_name(a), router_name(b), bandwidth(a, b), edges.latency_ms(a, b))
    };
    Draft { nodes, links: edges.pairs.iter().map(link).collect(), ..Draft::default() }
}

fn router_name(number: usize) -> String {
    format!("router-{number}")
}

/// Times the bandwidth of the widest of the other hosts.
const ENDS_HAVE: f64 = 4.0;

/// Among whom the relays are divided.
const PROVIDERS: usize = 3;
