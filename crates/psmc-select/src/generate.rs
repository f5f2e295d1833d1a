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
    /// To how many routers each of the ends is joined.
    uplinks: usize,
    /// Routers that hosts are attached to.
    routers: &'a [usize],
    /// Mbit/s of their links, from and to.
    bandwidth: (f64, f64),
}

impl Hosts<'_> {
    /// Adds both ends, and the relays with three providers in turn.
    fn attach(&self, draft: &mut Draft, dice: &mut Dice) {
        for name in [SOURCE, DESTINATION] {
            draft.nodes.push(DraftNode::router(name));
            for router in dice.sample(self.routers, self.uplinks) {
                self.join(draft, dice, name, router);
            }
        }
        let places = dice.sample(self.routers, self.relays);
        for number in 0..self.relays {
            // Where there are more relays than routers, some share one.
            let Some(router) = places.get(number % places.len().max(1)) else { return };
            let name = format!("relay-{number}");
            self.join(draft, dice, &name, *router);
            let provider = Some(format!("provider-{}", number % PROVIDERS));
            draft.nodes.push(DraftNode { provider, price: dice.between(0.0, 0.1), ..DraftNode::relay(name) });
        }
        (draft.source, draft.destination) = (SOURCE.to_owned(), DESTINATION.to_owned());
    }

    fn join(&self, draft: &mut Draft, dice: &mut Dice, name: &str, router: usize) {
        let bandwidth = dice.between(self.bandwidth.0, self.bandwidth.1);
        draft.links.push(DraftLink::new(name, router_name(router), bandwidth, dice.between(0.1, 1.0)));
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

/// Among whom the relays are divided.
const PROVIDERS: usize = 3;
