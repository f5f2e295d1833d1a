//! The sending side.

use std::future;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use psmc_net::keys::PublicKey;
use psmc_net::tls::Identity;
use quinn::SendStream;
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout};

use super::{broken, endpoint};
use crate::traffic::{TrafficError, socket};

/// How long a handshake may take: longer than over any path of use.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is sent at once.
const BLOCK: usize = 64 * 1024;

/// What a client does.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) to: SocketAddr,
    pub(super) identity: Identity,
    pub(super) server: PublicKey,
    pub(super) congestion_control: String,
    /// As much as it can if `None`.
    pub(super) bytes: Option<u64>,
    pub(super) start: Instant,
}

/// A thread that sends, in the namespace of the one that starts it. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Client {
    outcome: oneshot::Receiver<Result<(), TrafficError>>,
    /// `None` only while dropping, which is how the thread learns of it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub(super) fn start(plan: Plan) -> Self {
        let (report, outcome) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            // Whoever has dropped the receiver does not want to know.
            let _ = report.send(plan.carry_out(stopped));
        });
        Self { outcome, stop: Some(stop), thread: Some(thread) }
    }

    /// Waits until it fails.
    pub(super) async fn failed(&mut self) -> TrafficError {
        match (&mut self.outcome).await {
            Ok(Err(error)) => error,
            // What was sent is still to be received. A thread without an answer has panicked, which its join tells.
            Ok(Ok(())) | Err(_) => future::pending().await,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has ended, too.
            drop(thread.join());
        }
    }
}

impl Plan {
    fn carry_out(self, stopped: oneshot::Receiver<()>) -> Result<(), TrafficError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(TrafficError::Runtime)?.block_on(async {
            tokio::select! {
                outcome = self.transfer() => outcome,
                _ = stopped => Ok(()),
            }
        })
    }

    async fn transfer(&self) -> Result<(), TrafficError> {
        let to = self.to;
        let endpoint = socket::udp(to.ip()).and_then(|socket| {
            endpoint::client(socket, &self.identity, self.server, &self.congestion_control)
        });
        let endpoint = endpoint.map_err(TrafficError::socket("QUIC"))?;
        sleep_until(self.start.into()).await;
        // The name is for certificates, and there are none.
        let connecting = endpoint.connect(to, "psmc-lab").map_err(broken)?;
        let connection = timeout(PATIENCE, connecting).await;
        let connection = connection.map_err(|_| TrafficError::NoConnection { to, waited: PATIENCE })?;
        let connection = connection.map_err(broken)?;
        let stream = connection.open_uni().await.map_err(broken)?;
        self.send(stream).await
    }

    async fn send(&self, mut stream: SendStream) -> Result<(), TrafficError> {
        let block = vec![0; BLOCK];
        let mut left = self.bytes;
        while left != Some(0) {
            let length = left.map_or(BLOCK, |left| usize::try_from(left).unwrap_or(BLOCK).min(BLOCK));
            stream.write_all(&block[..length]).await.map_err(broken)?;
            left = left.map(|left| left - length as u64);
        }
        stream.finish().map_err(broken)?;
        // The connection, and with it what is on the way, would end before.
        stream.stopped().await.map_err(broken)?;
        Ok(())
    }
}
