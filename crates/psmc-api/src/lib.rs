//! What can be asked of psmcd on its control socket, and a client.
//!
//! The lines are those of [`psmc_service::socket`]; [`Psmcd`] says what is in them:
//!
//! ```json
//! {"version":1,"op":"path_list","peer":"hq"}
//! {"version":1,"result":"paths","value":[{"peer":"hq","paths":[]}]}
//! ```
//!
//! The types here hold plain numbers and texts with their units in their names, and are converted at the edge of the daemon.

mod capture;
mod client;
mod flows;
mod request;
mod routes;
mod segments;
mod shed;
mod sla;
mod status;
pub mod watch;

use std::time::Duration;

use psmc_service::socket::{self, Protocol, Reply};

pub use capture::{CaptureSpec, Captured, CapturedPacket, PacketSpec};
pub use client::{Client, ClientError, RouteSet};
pub use flows::{EndedFlow, FlowLimit, FlowStatus, Flows};
pub use request::{
    AddedPath, Additions, FlowPin, MAX_WAIT, NatProbe, NatProbeStep, PathPing, PathSpec, PeerSpec, RateLimit,
    ReloadReport, Request, Response, WantedState,
};
pub use routes::{
    Carrier, PeerReport, PeerRoutes, RegisterSpec, RouteSpec, RouteStatus, RoutesStatus, WaitFor,
};
pub use segments::{Passage, PathSegments, SegmentBlock, WayStatus, Witness, WitnessCount};
pub use shed::{ShedAnswer, ShedOutcome, ShedRule, ShedSpec, ShedTold, ShedVerdict};
pub use sla::{SlaAggregate, SlaCause, SlaFault, SlaIngress, SlaState, SlaStatus};
pub use status::{
    Batches, Calls, ClassStatus, ConditionerStatus, ControlStatus, InvitationStatus, IpfixStatus, Marked,
    PathEcn, PathSlot, PathState, PathStatus, PeerPaths, PeerState, PeerStatus, QuotaStatus,
    RegistrationStatus, SiteStatus, Status, StreamsStatus, WaitingPath,
};

/// The protocol of psmcd.
#[derive(Clone, Copy, Debug)]
pub enum Psmcd {}

/// psmcd's side of the socket.
pub type Server = socket::Server<Psmcd>;

/// Somebody inside psmcd who asks as a client does.
pub type Caller = socket::Caller<Psmcd>;

/// A request that waits for psmcd's response.
pub type Call = socket::Call<Psmcd>;

impl Protocol for Psmcd {
    const PROGRAM: &'static str = "psmcd";
    type Request = Request;
    type Response = Response;

    fn patience(request: &Request) -> Duration {
        request.patience()
    }
}

impl Reply for Response {
    fn refusal(message: String) -> Self {
        Self::Error { message }
    }

    fn granted(self) -> Result<Self, String> {
        match self {
            Self::Error { message } => Err(message),
            granted @ (Self::Ok
            | Self::Noted { .. }
            | Self::Status(_)
            | Self::Paths(_)
            | Self::Peer(_)
            | Self::Ping(_)
            | Self::Segments(_)
            | Self::Sla(_)
            | Self::Flows(_)
            | Self::Shed(_)
            | Self::Captured(_)
            | Self::Routes(_)
            | Self::Registrations(_)
            | Self::Reloaded(_)
            | Self::Additions(_)) => Ok(granted),
        }
    }
}
