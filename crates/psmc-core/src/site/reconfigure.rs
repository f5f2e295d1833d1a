//! Settings that change while a site runs. No packet is lost by any of them.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{PeerError, Site};
use crate::classify::{ClassConfig, Classes};
use crate::event::PeerId;
use crate::mss::ClampMss;

impl Site {
    /// Gives peers other prefixes, all of them at the same time: one that moves from a peer to another is never nobody's.
    ///
    /// # Errors
    /// [`PeerError`] if there is no such peer, or a prefix belongs to one that is not among `changes`; nothing is changed then.
    pub fn set_allowed_ips(&mut self, changes: &[(PeerId, Vec<IpNet>)]) -> Result<(), PeerError> {
        let changed: BTreeSet<_> = changes.iter().map(|(peer, _)| *peer).collect();
        for (peer, prefixes) in changes {
            if !self.peers.contains_key(peer) {
                return Err(PeerError::Unknown);
            }
            let owner = |prefix: &&IpNet| self.shared.routes.owner(**prefix);
            let is_taken = |prefix: &&IpNet| owner(prefix).is_some_and(|owner| !changed.contains(&owner));
            if let Some(&prefix) = prefixes.iter().find(is_taken) {
                return Err(PeerError::PrefixTaken(prefix));
            }
        }
        for (peer, prefixes) in changes {
            let Some(session) = self.peers.get_mut(peer) else { continue };
            let before = std::mem::replace(&mut session.config.allowed_ips, prefixes.clone());
            before.into_iter().for_each(|prefix| self.shared.routes.remove(prefix));
        }
        for (peer, prefixes) in changes {
            for &prefix in prefixes {
                self.shared.routes.insert(prefix, *peer);
            }
        }
        Ok(())
    }

    /// Sorts packets into these classes from now on. Those that wait go before all that come.
    pub fn set_classes(&mut self, classes: Vec<ClassConfig>) {
        self.shared.classes = Classes::new(classes);
        for (&peer, session) in &mut self.peers {
            session.set_classes(&self.shared);
            self.busy.insert(peer);
        }
    }

    /// Does this with the MSS of inner TCP connections that are opened from now on.
    pub fn set_clamp_mss(&mut self, clamp_mss: ClampMss) {
        self.shared.clamp_mss = clamp_mss;
    }
}
