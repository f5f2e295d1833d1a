//! The state machines of the PSMC protocol: everything that decides, nothing that does.
//!
//! [`Site`] is the engine of a site. It has no socket, no clock, no thread and no source of randomness of its
//! own: time and chance are arguments, so that the same engine runs in the daemon, in a simulator with a
//! thousand sites, and under a fuzzer. The calling contract stands on [`Site`].
//!
//! Inside, every part owns what it decides about: a `Session` is everything between this site and one peer; a
//! `Path` owns its congestion controller, round trip, losses, pacing and liveness, and emits its own datagrams.
//!
//! # Two sites in memory
//!
//! ```
#![doc = include_str!("../examples/two_sites.rs")]
//! ```

#![forbid(unsafe_code)]

mod batch;
mod classify;
mod clock;
pub mod condition;
mod conditioners;
mod config;
mod congestion;
mod counted;
mod coupling;
mod egress;
mod event;
mod flows;
mod ids;
mod keys;
mod limiter;
mod mss;
mod path;
pub mod police;
mod probes;
pub mod relay;
mod reorder;
mod repair;
mod replay;
mod roster;
mod routing;
mod samples;
mod scheduler;
mod session;
mod shared;
pub mod shed;
mod site;
mod slab;
mod split;
mod status;
mod streams;
mod tap;

pub use batch::{Batch, MAX_BATCH_BYTES, MAX_SEGMENTS, PathAddress, SocketId, Transmit};
pub use classify::{
    ClassConfig, ClassMatch, DEFAULT_WEIGHT, MAX_CLASSES, PathPreference, Priority, RepairKind,
};
pub use conditioners::ConditionerStatus;
pub use config::{
    Direction, Gateway, KeyLimits, PathConfig, PathTuning, PeerConfig, SchedulerKind, SiteConfig,
};
pub use congestion::CongestionConfig;
pub use egress::{ClassStatus, QueueCounters};
pub use event::{Event, StreamEvent};
pub use flows::{FlowConfig, FlowCounts, FlowEnd, FlowId, FlowRecord};
pub use ids::{ConnectionId, PeerId};
pub use mss::ClampMss;
pub use path::{ClassShare, EcnState, EcnStatus, PathCounters, PathState, RoundTrips, Slot, Via};
pub use psmc_wire::control::Tier;
pub use reorder::{AdaptiveBuffer, ReorderCounters, ReorderPolicy};
pub use repair::RepairCounters;
pub use samples::{Sample, Samples};
pub use session::{
    DatagramOrigin, MAX_PATHS, PathError, PathHandle, PeerHandle, Refusal, SessionCounters, ShedError,
    SilentPath, StreamError, StreamHandle, TcpFlow,
};
pub use site::{PeerError, Site};
pub use split::AssemblyCounters;
pub use status::{PathStatus, PeerStatus, RefusalCounters};
pub use streams::{StreamCounters, StreamStatus};
pub use tap::{Passage, TapConfig, Tapped};
