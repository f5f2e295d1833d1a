//! What is counted together because there is no room for each flow by itself.

use std::collections::BTreeMap;
use std::time::Instant;

use super::seen::Ends;
use super::table::{Flow, Key};
use crate::classify::ClassId;
use crate::ids::PeerId;

/// Flows without a place, together for each peer, direction and class: as many as there are queues, however many flows come.
#[derive(Debug, Default)]
pub(super) struct Others {
    flows: BTreeMap<(PeerId, bool, ClassId), Flow>,
}

/// Nobody in particular.
const NOBODY: Ends = Ends { source: 0, destination: 0, ports: [0; 2], protocol: 0, is_v6: false };

impl Others {
    /// Those among which a flow is counted.
    pub(super) fn of(&mut self, key: Key, now: Instant) -> &mut Flow {
        self.flows.entry((key.peer, key.is_sent, key.class)).or_insert_with(|| Flow::empty(now))
    }

    /// Adds what a flow has carried.
    pub(super) fn add(&mut self, key: Key, flow: &Flow) {
        let others = self.of(key, flow.first);
        others.first = others.first.min(flow.first);
        others.last = others.last.max(flow.last);
        others.counts.add(&flow.counts);
    }

    /// Takes them all.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Key, Flow)> + use<> {
        let flows = std::mem::take(&mut self.flows);
        flows
            .into_iter()
            .map(|((peer, is_sent, class), flow)| (Key { ends: NOBODY, peer, is_sent, class }, flow))
    }
}
