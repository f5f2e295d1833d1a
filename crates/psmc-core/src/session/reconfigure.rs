//! Settings of a session that change while it lasts.

use std::time::Instant;

use psmc_wire::control::{Limits, Message};

use super::Session;
use crate::config::PeerConfig;
use crate::scheduler;
use crate::shared::Shared;

impl Session {
    /// Treats packets as `config` says from now on. The prefixes stay: they are the site's to give.
    pub(super) fn reconfigure(&mut self, config: PeerConfig, shared: &mut Shared, now: Instant) {
        let allowed_ips = std::mem::take(&mut self.config.allowed_ips);
        let before = std::mem::replace(&mut self.config, PeerConfig { allowed_ips, ..config });
        let config = &self.config;
        if (config.scheduler, config.bad_path_rule) != (before.scheduler, before.bad_path_rule) {
            self.scheduler = scheduler::build(config.scheduler, config.bad_path_rule);
            self.unplaced = None;
        }
        self.reorder.set_policy(config.reorder);
        if config.keepalive != before.keepalive {
            let keepalive = config.keepalive;
            self.paths.iter_mut().for_each(|path| path.set_keepalive(keepalive));
        }
        if config.can_dial != before.can_dial {
            self.control.set_can_dial(config.can_dial, now);
        }
        if config.udp_rate_limit != before.udp_rate_limit {
            let udp_rate = config.udp_rate_limit;
            self.udp_limit.set_own(udp_rate);
            if let Some((connection, ..)) = self.control.current() {
                shared.messages.push_back((connection, Message::Limits(Limits { udp_rate })));
            }
        }
    }

    /// Sorts packets into the site's classes, which are others.
    pub(crate) fn set_classes(&mut self, shared: &Shared) {
        self.egress.set_classes(shared.classes.list());
    }
}
