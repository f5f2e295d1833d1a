//! What can be asked of a coordinator on its control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use psmc_service::socket::{Call, Client, ClientError, Protocol, Reply, Server};
use psmc_signal::{Alert, AlertKind, Measured};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::engine::{Input, Order, OrderError};
use crate::status::Status;
use crate::store::{Event, Store};

/// What alerts of the local socket are called where nothing else is said.
pub const BY_HAND: &str = "person";

/// What somebody on this machine wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// To know how things are.
    Status,
    /// To know what has happened.
    Events {
        /// How many events at most.
        count: u32,
    },
    /// To raise an alert.
    Alert {
        /// Who raises it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
        /// The kind of attack.
        kind: AlertKind,
        /// What was measured.
        measured: Measured,
        /// For how many seconds it counts unless it is renewed; as the configuration says, if that is `None`.
        #[serde(default)]
        lasts: Option<u64>,
    },
    /// To have one go on.
    Renew {
        /// Who has raised it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
        /// For how many seconds it counts unless it is renewed again, as above.
        lasts: Option<u64>,
    },
    /// To clear one.
    Clear {
        /// Who has raised it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
    },
    /// To have relays kept ready.
    Prepare {
        /// The service.
        service: String,
    },
    /// To end whatever is done.
    Withdraw {
        /// The service.
        service: String,
    },
    /// To have a client told nothing any more, or again.
    Block {
        /// The client.
        client: String,
        /// Whether it is told nothing.
        blocked: bool,
    },
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum Answer {
    /// How things are.
    Status(Box<Status>),
    /// What has happened, the latest first.
    Events {
        /// The events.
        events: Vec<Event>,
    },
    /// It is done, and kept.
    Done,
    /// There is no such alert that could go on: it was cleared, or has lapsed.
    NotOpen,
    /// It is not done.
    Error {
        /// Why, for a person to read.
        message: String,
    },
}

/// The protocol of the coordinator.
#[derive(Clone, Copy, Debug)]
pub enum Coordinator {}

impl Protocol for Coordinator {
    const PROGRAM: &'static str = "psmc-coordinator";
    type Request = Request;
    type Response = Answer;
}

impl Reply for Answer {
    fn refusal(message: String) -> Self {
        Self::Error { message }
    }

    fn granted(self) -> Result<Self, String> {
        match self {
            Self::Error { message } => Err(message),
            granted @ (Self::Status(_) | Self::Events { .. } | Self::Done | Self::NotOpen) => Ok(granted),
        }
    }
}

/// Answers all who come.
pub(crate) async fn serve(
    mut socket: Server<Coordinator>,
    engine: mpsc::Sender<Input>,
    store: Arc<dyn Store>,
) {
    // As many as there are clients at most.
    let mut answers = JoinSet::new();
    while let Some(call) = socket.next_call().await {
        while answers.try_join_next().is_some() {}
        answers.spawn(answer(call, engine.clone(), store.clone()));
    }
}

async fn answer(call: Call<Coordinator>, engine: mpsc::Sender<Input>, store: Arc<dyn Store>) {
    let answer = carry_out(call.request().clone(), &engine, &*store).await;
    call.respond(answer);
}

async fn carry_out(request: Request, engine: &mpsc::Sender<Input>, store: &dyn Store) -> Answer {
    match request {
        Request::Status => {
            let (asker, status) = oneshot::channel();
            match engine.send(Input::Status(asker)).await {
                Ok(()) => status.await.map_or_else(|_| ended(), |status| Answer::Status(Box::new(status))),
                Err(_) => ended(),
            }
        }
        Request::Events { count } => match store.events(count).await {
            Ok(events) => Answer::Events { events },
            Err(error) => Answer::refusal(crate::error_chain(&error)),
        },
        Request::Alert { source, id, service, kind, measured, lasts } => {
            let alert = Alert { id, service, target: None, kind, measured, usual: Measured::default() };
            let lasts = lasts.map(Duration::from_secs);
            order(Order::Alert { source, alert: Box::new(alert), lasts }, engine).await
        }
        Request::Renew { source, id, service, lasts } => {
            let lasts = lasts.map(Duration::from_secs);
            order(Order::Renew { source, id, service, lasts }, engine).await
        }
        Request::Clear { source, id, service } => order(Order::Clear { source, id, service }, engine).await,
        Request::Prepare { service } => order(Order::Prepare { service }, engine).await,
        Request::Withdraw { service } => order(Order::Withdraw { service }, engine).await,
        Request::Block { client, blocked } => order(Order::Block { client, blocked }, engine).await,
    }
}

async fn order(order: Order, engine: &mpsc::Sender<Input>) -> Answer {
    let (done, result) = oneshot::channel();
    if engine.send(Input::Order { order, done }).await.is_err() {
        return ended();
    }
    match result.await {
        Ok(Ok(())) => Answer::Done,
        Ok(Err(OrderError::NotOpen(_))) => Answer::NotOpen,
        Ok(Err(error)) => Answer::refusal(error.to_string()),
        Err(_) => ended(),
    }
}

fn ended() -> Answer {
    Answer::refusal("the coordinator is shutting down".to_owned())
}

/// Asks the coordinator whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ClientError> {
    Client::<Coordinator>::connect(path)?.ask(request)
}
