//! Bulk transfer by QUIC (RFC 9000), with quinn.

mod client;
mod endpoint;

use std::io;
use std::net::SocketAddr;

use psmc_net::keys::PrivateKey;
use psmc_net::tls::Identity;
use quinn::{Connection, Endpoint};
use tokio::time::timeout_at;

use super::record::{Ending, Record};
use super::{Job, TrafficError, incomplete, socket};
use client::Client;

/// What is transferred, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk<'a> {
    pub(super) congestion_control: &'a str,
    /// How much; as much as it can if `None`.
    pub(super) bytes: Option<u64>,
}

impl Bulk<'_> {
    /// Transfers until everything has arrived or the time is up.
    ///
    /// The sender has a thread of its own: both ends encrypt, and would share a processor otherwise.
    pub(super) async fn run(self, job: &Job, record: &Record) -> Result<Ending, TrafficError> {
        let [own, other] = [(); 2].map(|()| Identity::new(&PrivateKey::generate()));
        let (server, to) = listen(job, &own, &other)?;
        let plan = client::Plan {
            to,
            identity: other,
            server: own.public(),
            congestion_control: self.congestion_control.to_owned(),
            bytes: self.bytes,
            start: job.clock.at(job.traffic.start),
        };
        let mut client = Client::start(plan);
        let transfer = async {
            tokio::select! {
                // A client that has sent everything waits until it has arrived.
                error = client.failed() => Err(error),
                outcome = receive(&server, record) => outcome,
            }
        };
        match timeout_at(job.clock.at(job.traffic.stop).into(), transfer).await {
            Ok(outcome) => outcome.map(|()| Ending::Complete),
            Err(_elapsed) => incomplete(record, self.bytes),
        }
    }
}

fn listen(job: &Job, own: &Identity, other: &Identity) -> Result<(Endpoint, SocketAddr), TrafficError> {
    let address = job.traffic.address;
    let made = job.hosts.to.run(|| socket::udp(address)).and_then(|socket| {
        let to = SocketAddr::new(address, socket.local_addr()?.port());
        Ok((endpoint::server(socket, own, other.public())?, to))
    });
    made.map_err(TrafficError::socket("QUIC"))
}

async fn receive(server: &Endpoint, record: &Record) -> Result<(), TrafficError> {
    // The endpoint is not closed while this waits.
    let Some(incoming) = server.accept().await else {
        return Err(TrafficError::Nothing);
    };
    let connection: Connection = incoming.await.map_err(broken)?;
    let mut stream = connection.accept_uni().await.map_err(broken)?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await.map_err(broken)? {
        record.delivered(chunk.bytes.len());
    }
    Ok(())
}

/// Why QUIC does not go on.
fn broken(error: impl std::error::Error + Send + Sync + 'static) -> TrafficError {
    TrafficError::Broken(io::Error::other(error))
}
