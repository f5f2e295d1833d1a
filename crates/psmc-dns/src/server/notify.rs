//! Telling secondaries that a zone has changed (RFC 1996).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Hosted, Secondary, Server};
use psmc_routes::wire::read_message;
use psmc_service::clock::{Backoff, unix_seconds};

/// How long a secondary may take to confirm, longer each time.
const WAITS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));

/// How often one is told: after some 16 s it is away, and will ask by itself when it is back.
const MAX_TRIES: u32 = 6;

/// The longest response.
const MAX_RESPONSE: usize = 1232;

/// Tells all secondaries of a zone at each change, at once. Ends never.
pub async fn tell_secondaries(server: Arc<Server>, hosted: Arc<Hosted>) {
    let mut told = JoinSet::new();
    loop {
        hosted.changed.notified().await;
        // Whoever was not reached yet is told of the newer change instead.
        told.abort_all();
        while told.join_next().await.is_some() {}
        let Some(zone) = hosted.served() else { continue };
        for secondary in hosted.secondaries.iter().cloned() {
            let (origin, serial) = (hosted.origin().clone(), zone.serial());
            let source = server.source_for(secondary.address);
            told.spawn(async move {
                if !tell(&origin, &secondary, source).await {
                    let address = secondary.address;
                    tracing::warn!(zone = %origin, serial, %address, "secondary did not acknowledge NOTIFY");
                }
            });
        }
    }
}

/// Tells one, until it confirms.
async fn tell(origin: &Name, secondary: &Secondary, source: SocketAddr) -> bool {
    let mut waits = WAITS;
    for _ in 0..MAX_TRIES {
        if let Ok(true) = timeout(waits.wait(), tell_once(origin, secondary, source)).await {
            return true;
        }
    }
    false
}

async fn tell_once(origin: &Name, secondary: &Secondary, source: SocketAddr) -> bool {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Notify;
    message.metadata.authoritative = true;
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(origin.clone(), RecordType::SOA));
    if let Some(key) = &secondary.key
        && message.finalize(&key.signer(), unix_seconds()).is_err()
    {
        return false;
    }
    let Ok(bytes) = message.to_vec() else { return false };
    let Ok(socket) = UdpSocket::bind(source).await else { return false };
    if socket.connect(secondary.address).await.is_err() || socket.send(&bytes).await.is_err() {
        return never().await;
    }
    let mut buffer = [0; MAX_RESPONSE];
    while let Ok(length) = socket.recv(&mut buffer).await {
        if read_message(&buffer[..length]).is_ok_and(|response| response.message.id == message.id) {
            return true;
        }
    }
    never().await
}

/// A port that is closed is no confirmation, and asking at once again would be a flood: the caller's time runs out.
async fn never() -> bool {
    std::future::pending().await
}
