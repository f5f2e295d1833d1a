//! A scenario: one TOML file, checked to the last value before anything is made.

mod model;

pub use model::{
    Action, Bound, Check, Event, Host, HostId, Link, LinkEnd, LinkId, Metric, Nat, NatKind, Program,
    ProgramId, Route, Scenario, Sites, Subject, Traffic, TrafficId, TrafficKind, Tunnel, TunnelEnd, TunnelId,
    TunnelPath,
};
