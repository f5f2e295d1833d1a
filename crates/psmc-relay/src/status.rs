//! What a relay tells about itself.

mod local;
mod metrics;
mod model;
mod observer;

pub use local::{StatusError, ask};
pub use model::{Datagrams, Refused, Session, Site, Status, Way};

pub(crate) use local::StatusSocket;
pub use metrics::MetricsError;
pub(crate) use metrics::serve as serve_metrics;
pub(crate) use observer::Observer;
