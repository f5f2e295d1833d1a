//! Bulk transfer by TCP, or by MPTCP (RFC 8684).

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout_at;

use super::record::{Ending, Record};
use super::socket::{self, TcpOptions};
use super::{Job, TrafficError, incomplete};

/// Most bytes given to or taken from a socket at once: what one burst can hold.
const BLOCK: usize = 64 * 1024;

/// What is transferred, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk<'a> {
    pub(super) options: TcpOptions<'a>,
    pub(super) flows: usize,
    /// How much each flow transfers; as much as it can if `None`.
    pub(super) bytes: Option<u64>,
}

impl Bulk<'_> {
    /// Transfers until everything has arrived or the time is up.
    pub(super) async fn run(self, job: &Job, record: &Record) -> Result<Ending, TrafficError> {
        // What listens has the default congestion control: it sends nothing.
        let options = TcpOptions { congestion_control: None, ..self.options };
        let (listener, address) = socket::listen(&job.hosts.to, job.traffic.address, options)?;
        job.until_start().await;
        let send = || async {
            let stream = socket::connect(address, self.options).await?;
            self.send(stream).await
        };
        let take = || async {
            let (stream, _) = listener.accept().await.map_err(TrafficError::socket("TCP"))?;
            receive(stream, record).await
        };
        let all = async {
            tokio::try_join!(
                try_join_all((0..self.flows).map(|_| send())),
                try_join_all((0..self.flows).map(|_| take()))
            )
        };
        match timeout_at(job.clock.at(job.traffic.stop).into(), all).await {
            Ok(outcome) => outcome.map(|_| Ending::Complete),
            Err(_elapsed) => incomplete(record, self.bytes.map(|bytes| bytes * self.flows as u64)),
        }
    }

    async fn send(&self, mut stream: TcpStream) -> Result<(), TrafficError> {
        let block = [0; BLOCK];
        let mut left = self.bytes;
        while left != Some(0) {
            let length = left.map_or(BLOCK, |left| usize::try_from(left).unwrap_or(BLOCK).min(BLOCK));
            stream.write_all(&block[..length]).await.map_err(TrafficError::Broken)?;
            left = left.map(|left| left - length as u64);
        }
        stream.shutdown().await.map_err(TrafficError::Broken)
    }
}

async fn receive(mut stream: TcpStream, record: &Record) -> Result<(), TrafficError> {
    let mut block = vec![0; BLOCK];
    loop {
        match stream.read(&mut block).await.map_err(TrafficError::Broken)? {
            0 => return Ok(()),
            length => record.delivered(length),
        }
    }
}
