//! The tasks of the control side, and how they end.

use std::net::SocketAddr;

use psmc_core::{ConnectionId, PeerId, SocketId};
use psmc_net::framing::FramingError;
use psmc_net::stream::CarrierError;
use psmc_net::tls::Secured;
use tokio::task::JoinSet;

use super::dial::DialError;
use super::invitations::{Applicant, Enrolment};
use super::relays::BoxedStream;
use super::reload::Reread;
use crate::config::Endpoint;

/// What a task of the control side came to.
pub(super) enum TaskEnd {
    Dialed(PeerId, Result<Box<Secured<BoxedStream>>, DialError>),
    Disconnected(PeerId, ConnectionId, Result<(), FramingError>),
    /// The addresses of a name, if there are any.
    Resolved(Endpoint, Vec<SocketAddr>),
    /// The configuration has been read again.
    Reread(Box<Reread>),
    /// Somebody with an invitation wants to be a peer, or has not said so.
    Applied(Option<Box<Applicant>>),
    /// The configuration has the new peer, or can't be written.
    Enrolled(Box<Enrolment>),
    /// Somebody with an invitation was answered, or has tested the speed.
    Answered,
    /// The stream of a peer behind this socket has ended.
    Streamed(SocketId, Result<(), CarrierError>),
    /// Whether a captive portal is behind this interface was asked; the page to sign in at, if there is one.
    LookedForPortal(String, Option<String>),
    Listener,
    Hearing,
    /// Only when the daemon ends.
    Served,
    /// Only when the daemon ends.
    Registered,
    /// A path has no use for its stream any more.
    Unstreamed,
    /// A path has no use for its relays any more.
    Kept,
}

/// All that run. They end with this.
#[derive(Default)]
pub(super) struct Tasks {
    running: JoinSet<TaskEnd>,
    /// How many of them keep sessions at relays.
    keepers: usize,
}

impl Tasks {
    pub(super) fn spawn(&mut self, work: impl Future<Output = TaskEnd> + Send + 'static) {
        self.running.spawn(work);
    }

    /// Has a keeper do its work.
    pub(super) fn spawn_keeper(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.keepers += 1;
        self.running.spawn(async move {
            work.await;
            TaskEnd::Kept
        });
    }

    /// Has questions by HTTP answered.
    pub(super) fn spawn_server(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(async move {
            work.await;
            TaskEnd::Served
        });
    }

    /// Has a registration kept.
    pub(super) fn spawn_registration(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(async move {
            work.await;
            TaskEnd::Registered
        });
    }

    /// The next one that ends, `None` if it has panicked or there is none. May be dropped and called again.
    pub(super) async fn next_end(&mut self) -> Option<TaskEnd> {
        let end = self.running.join_next().await?.ok()?;
        self.keepers -= usize::from(matches!(end, TaskEnd::Kept));
        Some(end)
    }

    /// Whether any keeps sessions at relays.
    pub(super) fn keep_sessions(&self) -> bool {
        self.keepers > 0
    }
}
