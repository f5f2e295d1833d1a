//! What a guard tells about itself.

mod local;
mod model;

pub(crate) use local::StatusSocket;
pub use local::{StatusError, ask};
pub use model::{Attack, Counts, Engine, MitigationStatus, RelayStatus, Service, Status, Watch};
