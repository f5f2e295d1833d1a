//! What is known of the links and addresses, so that only changes are told.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{LinkState, NetworkEvent};

/// The links and the usable addresses.
#[derive(Debug, Default)]
pub(super) struct Known {
    links: BTreeMap<u32, LinkState>,
    addresses: BTreeSet<(u32, IpNet)>,
}

impl Known {
    /// A link is in this state.
    pub(super) fn link(&mut self, state: LinkState) -> Option<NetworkEvent> {
        let before = self.links.insert(state.index, state.clone());
        (before.as_ref() != Some(&state)).then_some(NetworkEvent::Link(state))
    }

    /// A link is gone, and with it its addresses.
    pub(super) fn link_gone(&mut self, index: u32) -> Option<NetworkEvent> {
        self.addresses.retain(|(owner, _)| *owner != index);
        let before = self.links.remove(&index)?;
        Some(NetworkEvent::Link(LinkState { up: false, ..before }))
    }

    /// A link has, or has no more, a usable address.
    pub(super) fn address(&mut self, index: u32, address: IpNet, usable: bool) -> Option<NetworkEvent> {
        let key = (index, address);
        let changed = if usable { self.addresses.insert(key) } else { self.addresses.remove(&key) };
        changed.then_some(NetworkEvent::AddressChanged { index })
    }

    /// All that there is, after what happened in between was lost.
    pub(super) fn replace(
        &mut self,
        links: Vec<LinkState>,
        addresses: BTreeSet<(u32, IpNet)>,
    ) -> Vec<NetworkEvent> {
        let present: BTreeSet<u32> = links.iter().map(|state| state.index).collect();
        let gone: Vec<u32> = self.links.keys().copied().filter(|index| !present.contains(index)).collect();
        let mut events: Vec<_> = gone.into_iter().filter_map(|index| self.link_gone(index)).collect();
        events.extend(links.into_iter().filter_map(|state| self.link(state)));
        let changed: BTreeSet<u32> =
            self.addresses.symmetric_difference(&addresses).map(|(index, _)| *index).collect();
        events.extend(changed.into_iter().map(|index| NetworkEvent::AddressChanged { index }));
        self.addresses = addresses;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(index: u32, up: bool) -> LinkState {
        LinkState { index, name: format!("eth{index}"), up }
    }

    fn address() -> IpNet {
        "10.0.0.1/24".parse().unwrap()
    }

    #[test]
    fn only_changes_of_links_are_told() {
        let mut known = Known::default();
        assert_eq!(known.link(state(1, false)), Some(NetworkEvent::Link(state(1, false))));
        assert_eq!(known.link(state(1, false)), None);
        assert_eq!(known.link(state(1, true)), Some(NetworkEvent::Link(state(1, true))));
        assert_eq!(known.link(state(1, true)), None);
        assert_eq!(known.link_gone(1), Some(NetworkEvent::Link(state(1, false))));
        assert_eq!(known.link_gone(1), None);
    }

    #[test]
    fn only_changes_of_addresses_are_told() {
        let mut known = Known::default();
        let changed = Some(NetworkEvent::AddressChanged { index: 1 });
        assert_eq!(known.address(1, address(), true), changed);
        assert_eq!(known.address(1, address(), true), None);
        assert_eq!(known.address(1, address(), false), changed);
        assert_eq!(known.address(1, address(), false), None);
    }

    #[test]
    fn what_was_lost_is_told_late() {
        let mut known = Known::default();
        known.replace(vec![state(1, true), state(2, true)], BTreeSet::from([(2, address())]));
        let events = known.replace(vec![state(2, false), state(3, true)], BTreeSet::from([(3, address())]));
        let expected = [
            NetworkEvent::Link(state(1, false)),
            NetworkEvent::Link(state(2, false)),
            NetworkEvent::Link(state(3, true)),
            NetworkEvent::AddressChanged { index: 2 },
            NetworkEvent::AddressChanged { index: 3 },
        ];
        assert_eq!(events, expected);
    }
}
