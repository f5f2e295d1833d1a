//! Why a scenario could not be simulated.

use std::time::Duration;

use psmc_core::PeerError;
use psmcd::config::ConfigError;

/// Why a scenario could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Something in it is beyond the simulator.
    #[error("{}", list(.0))]
    Unsupported(Vec<String>),
    /// `psmcd` would not take what the scenario says of a tunnel.
    #[error("psmcd rejects the settings of tunnel \"{tunnel}\"")]
    Settings {
        /// The tunnel.
        tunnel: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// An engine does not take what it is told.
    #[error("a site of tunnel \"{tunnel}\" cannot start")]
    Site {
        /// The tunnel.
        tunnel: String,
        /// What is wrong.
        source: PeerError,
    },
    /// A tunnel has not come up.
    #[error(
        "tunnel \"{tunnel}\" is not up after {} s of simulated time: {state}; do its links carry anything?",
        waited.as_secs()
    )]
    NotUp {
        /// The tunnel.
        tunnel: String,
        /// How long it was waited for.
        waited: Duration,
        /// How its paths are.
        state: String,
    },
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("\n  - {item}")).collect();
    format!("this scenario cannot be simulated; `psmc-lab run` takes it as it is{items}")
}
