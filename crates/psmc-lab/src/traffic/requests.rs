//! Requests at random times, each on a TCP connection of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::record::{Ending, Record};
use super::socket::{self, TcpOptions};
use super::{Job, TrafficError};

/// How many requests may be under way: each takes a file descriptor at both ends, and a process has 1024 as a rule.
/// Those beyond it fail at once.
const MAX_OPEN: usize = 300;

/// Most bytes given to or taken from a socket at once.
const BLOCK: usize = 16 * 1024;

/// Requests at random times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests<'a> {
    /// Of the sockets at both ends.
    pub(super) options: TcpOptions<'a>,
    /// How many a second, on average.
    pub(super) rate: f64,
    /// Bytes of a request.
    pub(super) request: usize,
    /// Bytes of a response.
    pub(super) response: usize,
}

/// How a request went.
struct Outcome {
    asked_at: Duration,
    result: Result<(), TrafficError>,
}

impl Requests<'_> {
    /// Asks until the stop of the stream, and waits a little longer for answers.
    pub(super) async fn run(self, job: &Job, record: &Record) -> Result<Ending, TrafficError> {
        let (listener, to) = socket::listen(&job.hosts.to, job.traffic.address, self.options)?;
        job.until_start().await;
        tokio::select! {
            error = self.serve(&listener) => match error? {},
            outcome = self.ask_all(job, to, record) => outcome,
        }
    }

    async fn serve(self, listener: &TcpListener) -> Result<Infallible, TrafficError> {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.map_err(TrafficError::socket("TCP"))?;
                    open.push(self.answer(stream));
                }
                // Whoever asked knows how it went.
                Some(_) = open.next() => {}
            }
        }
    }

    async fn answer(self, mut stream: TcpStream) -> std::io::Result<()> {
        read_exactly(&mut stream, self.request).await?;
        write_exactly(&mut stream, self.response).await?;
        stream.shutdown().await
    }

    /// The last request that failed tells why none was answered, if none was.
    async fn ask_all(self, job: &Job, to: SocketAddr, record: &Record) -> Result<Ending, TrafficError> {
        let mut times = Times::new(self.rate, job.seed, job.traffic.start);
        let mut open = FuturesUnordered::new();
        let mut failure = TrafficError::Nothing;
        let mut due = times.next();
        while due < job.traffic.stop || !open.is_empty() {
            tokio::select! {
                () = job.clock.sleep_until(due), if due < job.traffic.stop => {
                    record.tally.borrow_mut().sent(due);
                    if open.len() < MAX_OPEN {
                        open.push(self.ask(due, to));
                    }
                    due = times.next();
                }
                Some(Outcome { asked_at, result }) = open.next() => match result {
                    Ok(()) => self.note(asked_at, record),
                    Err(error) => failure = error,
                },
                () = job.clock.sleep_until(job.patience_ends()) => break,
            }
        }
        let any = record.tally.borrow().total_arrived() > 0;
        if any || record.tally.borrow().total_sent() == 0 { Ok(Ending::TimeUp) } else { Err(failure) }
    }

    async fn ask(self, asked_at: Duration, to: SocketAddr) -> Outcome {
        let result = async {
            let mut stream = socket::connect(to, self.options).await?;
            write_exactly(&mut stream, self.request).await.map_err(TrafficError::Broken)?;
            read_exactly(&mut stream, self.response).await.map_err(TrafficError::Broken)
        };
        Outcome { asked_at, result: result.await }
    }

    fn note(self, asked_at: Duration, record: &Record) {
        record.tally.borrow_mut().arrived(asked_at);
        record.answered(asked_at);
        record.delivered(self.response);
    }
}

/// The times of a Poisson process: what is between two is distributed exponentially.
struct Times {
    rng: Pcg64Mcg,
    rate: f64,
    last: Duration,
}

impl Times {
    fn new(rate: f64, seed: u64, start: Duration) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed), rate, last: start }
    }

    fn next(&mut self) -> Duration {
        // From the upper bits of a random number, which a fraction has room for: above 0, up to 1.
        let chance = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let pause = Duration::try_from_secs_f64(-chance.ln() / self.rate).unwrap_or(Duration::MAX);
        self.last = self.last.saturating_add(pause);
        self.last
    }
}

async fn write_exactly(stream: &mut TcpStream, bytes: usize) -> std::io::Result<()> {
    let block = [0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK);
        stream.write_all(&block[..length]).await?;
        left -= length;
    }
    Ok(())
}

async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), bytes: usize) -> std::io::Result<()> {
    let mut block = [0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK);
        stream.read_exact(&mut block[..length]).await?;
        left -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_as_a_poisson_process() {
        let mut times = Times::new(100.0, 7, Duration::from_secs(1));
        let times: Vec<_> = (0..100_000).map(|_| times.next().as_secs_f64()).collect();
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.iter().all(|pause| *pause >= 0.0));
        let count = pauses.len() as f64;
        let mean = pauses.iter().sum::<f64>() / count;
        let variance = pauses.iter().map(|pause| (pause - mean).powi(2)).sum::<f64>() / count;
        // Both are those of an exponential distribution, within five standard errors.
        assert!((mean - 0.01).abs() < 5.0 * 0.01 / count.sqrt(), "{mean}");
        assert!((variance - 1e-4).abs() < 5.0 * 1e-4 * (8.0 / count).sqrt(), "{variance}");
    }

    #[test]
    fn chance_is_that_of_the_seed() {
        let times = |seed| {
            let mut times = Times::new(10.0, seed, Duration::ZERO);
            [(); 10].map(|()| times.next())
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
