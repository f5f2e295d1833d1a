//! Grants that are taken back: of clients that are blocked, and of whom the file does not have any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use psmc_net::keys::PublicKey;
use psmc_service::clock::unix_seconds;
use psmc_wire::ids::KeyBytes;

use super::Engine;
use crate::config::Config;
use crate::store::Granted;

/// How long a grant may be good that was given by a configuration, in seconds: until the end of the routes that it is for, and for
/// a gateway as long again.
pub(super) fn longest_grant(config: &Config) -> u64 {
    2 * config.services.iter().map(|service| service.lifetime.as_secs()).max().unwrap_or_default()
}

impl Engine {
    /// Who may have grants: clients that are not blocked, and gateways.
    pub(super) fn holders(&self) -> BTreeSet<KeyBytes> {
        let clients = self.config.clients.iter().filter(|client| !self.blocked.contains(&client.name));
        let clients = clients.map(|client| client.public_key);
        clients.chain(self.config.services.iter().map(|service| service.site_key())).map(bytes).collect()
    }

    /// Takes grants back from who may have some no more, and gives them back to who may again. None is good for longer than
    /// `longest` seconds from now.
    pub(super) fn take_back_from_all_but_holders(&mut self, had: &BTreeSet<KeyBytes>, longest: u64) {
        let (have, now) = (self.holders(), unix_seconds());
        let mut void = self.void.borrow().as_ref().clone();
        // What has ended by itself is not to be told. That a grant counts again is: relays may know that it did not.
        void.retain(|_, until| *until == 0 || *until >= now);
        void.iter_mut().filter(|(site, _)| have.contains(site)).for_each(|(_, until)| *until = 0);
        void.extend(had.difference(&have).map(|&site| (site, now.saturating_add(longest))));
        let granted = Granted {
            holders: have.iter().map(text).collect(),
            longest_s: longest_grant(&self.config),
            void: void.iter().map(|(site, &until)| (text(site), until)).collect(),
        };
        if granted != self.granted {
            self.batch.granted = Some(granted.clone());
            self.granted = granted;
        }
        self.void.send_replace(Arc::new(void));
    }

    /// To be done at the start, with what was kept last: relays that were started meanwhile know nothing of clients that are
    /// blocked, and of whom the file has no more nobody was told if it was changed meanwhile.
    pub(super) fn take_back_from_before(&mut self, before: Granted) {
        let key = |text: &String| text.parse().ok().map(bytes);
        let void = before.void.iter().filter_map(|(site, &until)| Some((key(site)?, until))).collect();
        self.void.send_replace(Arc::new(void));
        let clients = self.config.clients.iter().map(|client| bytes(client.public_key));
        let had = clients.chain(before.holders.iter().filter_map(key)).collect();
        self.take_back_from_all_but_holders(&had, longest_grant(&self.config).max(before.longest_s));
    }
}

fn text(KeyBytes(key): &KeyBytes) -> String {
    PublicKey::from_bytes(*key).to_string()
}

fn bytes(key: PublicKey) -> KeyBytes {
    KeyBytes(*key.as_bytes())
}
