//! The program's side.

mod connection;
mod reserve;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use psmc_net::local::{self, SocketFile};
use psmc_net::retry::Retry;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::frame::{self, MAX_RESPONSE};
use super::{Protocol, Reply};
use reserve::Reserve;

pub use psmc_net::local::BindError;

/// Most clients at once: more people and scripts than look at one machine, and at most 16 MiB of unfinished lines.
pub const MAX_CLIENTS: usize = 16;

/// How long clients have to take their last response when the daemon ends.
const LAST_WORD: Duration = Duration::from_millis(100);

/// The control socket of a daemon.
///
/// Call [`bind`](Self::bind) once, within a tokio runtime, and [`next_call`](Self::next_call) for as long as the daemon
/// lives. Dropping it disconnects the clients and removes the socket. Clients are served by tasks of their own: however
/// slow or mad one is, `next_call` does not wait for it.
#[derive(Debug)]
pub struct Server<P: Protocol> {
    calls: mpsc::Receiver<Call<P>>,
    /// Does not keep the channel open: it ends with those who accept clients.
    caller: Caller<P>,
    listener: JoinHandle<()>,
    _file: SocketFile,
}

/// Somebody inside the program who asks as a client does: [`Server::next_call`] has the request in its turn.
#[derive(Debug)]
pub struct Caller<P: Protocol>(mpsc::WeakSender<Call<P>>);

/// A request that waits for its response. Dropping it tells the client that the daemon could not answer.
#[derive(Debug)]
pub struct Call<P: Protocol> {
    request: P::Request,
    responder: oneshot::Sender<P::Response>,
}

impl<P: Protocol> Server<P> {
    /// Makes the socket, readable by its owner only, and its directory if that is missing.
    ///
    /// # Errors
    /// If another daemon answers there, if something else than a socket is in the way, or if the system refuses.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        // More clients than that are turned away with a word, not left to wait.
        let waiting = u32::try_from(MAX_CLIENTS).unwrap_or(u32::MAX);
        let (listener, file) = local::bind(path, waiting)?;
        let (sender, calls) = mpsc::channel(MAX_CLIENTS);
        let caller = Caller(sender.downgrade());
        Ok(Self { calls, caller, listener: tokio::spawn(accept_all(listener, sender)), _file: file })
    }

    /// Somebody who asks from within the program.
    #[must_use]
    pub fn caller(&self) -> Caller<P> {
        self.caller.clone()
    }

    /// Ends: whoever still waits for a response is told that the daemon is shutting down, if all that held the
    /// [`Call`]s is dropped.
    pub async fn close(mut self) {
        self.calls.close();
        while let Ok(call) = self.calls.try_recv() {
            drop(call);
        }
        // One that does not read its response does not hold up the end.
        drop(timeout(LAST_WORD, &mut self.listener).await);
    }

    /// The next request. `None` only if the task that accepts clients has died of a bug. May be cancelled without loss.
    pub async fn next_call(&mut self) -> Option<Call<P>> {
        self.calls.recv().await
    }
}

impl<P: Protocol> Drop for Server<P> {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl<P: Protocol> Clone for Caller<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Protocol> Caller<P> {
    /// The response to a request; a refusal if the program is ending, or does not answer.
    pub async fn call(&self, request: P::Request) -> P::Response {
        match self.0.upgrade() {
            Some(calls) => connection::ask(request, &calls).await,
            None => P::Response::refusal(connection::ENDING.to_owned()),
        }
    }
}

impl<P: Protocol> Call<P> {
    /// What is asked for.
    #[must_use]
    pub fn request(&self) -> &P::Request {
        &self.request
    }

    /// Answers. A client that has gone away meanwhile is no error.
    pub fn respond(self, response: P::Response) {
        drop(self.responder.send(response));
    }
}

/// Accepts clients until nobody takes calls any more, and then waits for their tasks to end. Those end with this one.
async fn accept_all<P: Protocol>(listener: UnixListener, calls: mpsc::Sender<Call<P>>) {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    let mut clients = JoinSet::new();
    let mut reserve = Reserve::new();
    let mut retry = Retry::new("accept clients on the control socket");
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = calls.closed() => break,
        };
        match accepted {
            Ok((stream, _)) => admit(stream, &places, &calls, &mut clients),
            // Whoever wants to know why nothing goes on any more is let in.
            Err(error) if reserve.makes_room(&error) => continue,
            Err(error) => retry.after(&error).await,
        }
        while clients.try_join_next().is_some() {}
        reserve.fill();
    }
    while clients.join_next().await.is_some() {}
}

fn admit<P: Protocol>(
    stream: UnixStream,
    places: &Arc<Semaphore>,
    calls: &mpsc::Sender<Call<P>>,
    clients: &mut JoinSet<()>,
) {
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        return turn_away::<P>(&stream);
    };
    let calls = calls.clone();
    clients.spawn(async move {
        connection::serve(stream, calls).await;
        drop(place);
    });
}

/// Says why, as far as the empty buffer of a new connection takes it, which is all of it.
fn turn_away<P: Protocol>(stream: &UnixStream) {
    let response =
        P::Response::refusal(format!("{MAX_CLIENTS} clients are connected already; close one of them"));
    if let Ok(line) = frame::encode(&response, MAX_RESPONSE) {
        drop(stream.try_write(&line));
    }
}

#[cfg(test)]
mod tests;
