//! The local control socket: what `psmc` asks of `psmcd`, and what it answers.
//!
//! Both sides write JSON, one object in a line of at most [`MAX_LINE`] bytes, or [`MAX_RESPONSE`], over a Unix stream socket. Each request has one
//! response, in order. Every line carries the [`VERSION`] of this protocol:
//!
//! ```json
//! {"version":1,"op":"path_list","peer":"hq"}
//! {"version":1,"result":"paths","value":[{"peer":"hq","paths":[]}]}
//! ```
//!
//! The types here are those of the wire. They hold plain numbers and texts with their units in their names, and are
//! converted at the edge of the daemon.

mod client;
mod frame;
mod request;
mod routes;
mod server;
mod status;

pub use client::{Client, ClientError, RouteSet};
pub use frame::{FrameError, MAX_LINE, MAX_RESPONSE, VERSION};
pub use request::{
    AddedPath, Additions, MAX_WAIT, PathSpec, PeerSpec, RateLimit, ReloadReport, Request, Response,
    WantedState,
};
pub use routes::{
    Carrier, PeerReport, PeerRoutes, RegisterSpec, RouteSpec, RouteStatus, RoutesStatus, WaitFor,
};
pub use server::{BindError, Call, MAX_CLIENTS, Server};
pub use status::{
    Batches, Calls, ClassStatus, ControlStatus, PathEcn, PathState, PathStatus, PeerPaths, PeerState,
    PeerStatus, RegistrationStatus, SiteStatus, Status, WaitingPath,
};
