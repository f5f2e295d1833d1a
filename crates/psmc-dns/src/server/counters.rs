//! What the server has done.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Numbers that only rise.
        #[derive(Debug, Default)]
        pub struct Counters { $($name: AtomicU64),* }

        /// The numbers at a moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            $(pub(super) fn $name(&self) { self.$name.fetch_add(1, Ordering::Relaxed); })*

            /// The numbers at this moment.
            #[must_use]
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Questions that were answered.
    answered,
    /// Updates that changed a zone.
    updated,
    /// Transfers to secondaries.
    transferred,
    /// Requests that were refused: names of other zones, missing permission, wrong signatures, replays.
    refused,
    /// Requests that could not be parsed.
    malformed,
    /// Datagrams that got no response, or a short one, because too many came from their network.
    limited,
    /// Requests and connections that were dropped because too many were being served.
    overloaded,
}
