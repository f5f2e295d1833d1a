//! The clients' downloads.

use std::cell::RefCell;
use std::io;
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand;
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::network::{CLIENTS, Network};
use super::{SERVICE, name};
use crate::DemoError;
use crate::deliveries::Deliveries;
use crate::tcp::{self, CONGESTION_CONTROL, Flow};

/// How much is made and hashed at once.
const CHUNK: usize = 16 * 1024;

/// A download of each client, one TCP connection from beginning to end.
pub(super) struct Downloads {
    each: [Download; CLIENTS.len()],
}

struct Download {
    flow: Flow,
    deliveries: RefCell<Deliveries>,
    /// Whether what came is what was sent, or why nothing came any more; unknown until the end.
    outcome: Option<io::Result<bool>>,
}

impl Downloads {
    /// Connects to what the service's name says.
    pub(super) async fn start(network: &Network) -> Result<Self, DemoError> {
        let connect = async |client: usize| {
            let address = name::address(&network.clients[client], SERVICE).map_err(failed(client))?;
            let flow = tcp::connect(&network.clients[client], &network.www, address)
                .await
                .map_err(failed(client))?;
            let served = SockRef::from(&flow.receiver).set_tcp_congestion(CONGESTION_CONTROL);
            served.map_err(failed(client))?;
            Ok::<_, DemoError>(Download {
                flow,
                deliveries: RefCell::new(Deliveries::new(Instant::now())),
                outcome: None,
            })
        };
        let (one, other) = tokio::try_join!(connect(0), connect(1))?;
        Ok(Self { each: [one, other] })
    }

    /// Lets both go on until it is over.
    pub(super) async fn run(&mut self, is_over: impl Fn() -> bool) {
        let [one, other] = &mut self.each;
        tokio::join!(one.run(&is_over), other.run(&is_over));
    }

    /// What arrived when, and whether it was right.
    pub(super) fn finish(self) -> Result<Vec<(Deliveries, bool)>, DemoError> {
        let finish = |(client, download): (usize, Download)| {
            let hash_ok = download.outcome.unwrap_or(Ok(false)).map_err(failed(client))?;
            Ok((download.deliveries.into_inner(), hash_ok))
        };
        self.each.into_iter().enumerate().map(finish).collect()
    }
}

impl Download {
    async fn run(&mut self, is_over: impl Fn() -> bool) {
        let flow = &mut self.flow;
        let mut received = Context::new(&SHA256);
        let receive = tcp::receive(&mut flow.sender, &self.deliveries, |bytes| received.update(bytes));
        let both = tokio::try_join!(serve(&mut flow.receiver, is_over), receive);
        self.outcome = Some(both.map(|(sent, ())| sent.finish().as_ref() == received.finish().as_ref()));
    }
}

/// Sends random data until it is over, which nothing on the way can shorten, and returns what is known of them.
async fn serve(stream: &mut TcpStream, is_over: impl Fn() -> bool) -> io::Result<Context> {
    let mut digest = Context::new(&SHA256);
    let mut chunk = [0; CHUNK];
    while !is_over() {
        rand::fill(&mut chunk).map_err(io::Error::other)?;
        digest.update(&chunk);
        stream.write_all(&chunk).await?;
    }
    stream.shutdown().await?;
    Ok(digest)
}

fn failed(client: usize) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Tcp { over: format!("from {} to {SERVICE}", CLIENTS[client]), source }
}
