//! Requests to a web server: at random times, whether or not earlier ones were answered, as users ask that know nothing of each
//! other; or so many at a time, each again as soon as it has an answer, which finds what a server can do.
//!
//! Of Debian's clients, httperf keeps a CPU busy with looking at the clock, and has 1024 descriptors; all others wait for answers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use psmc_service::open_files;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::dice::Dice;

/// Who asks, how often, and for how long.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Load {
    /// Where the server listens
    server: SocketAddr,
    /// Requests per second of the first class, which has the cookie `tier=gold`
    #[arg(long, default_value_t = 0.0)]
    first: f64,
    /// Requests per second of the second class
    #[arg(long, default_value_t = 0.0)]
    second: f64,
    /// Requests of the second class at a time
    #[arg(long, default_value_t = 0)]
    at_once: u32,
    /// How long it lasts before it counts, in seconds
    #[arg(long, default_value_t = 0)]
    warm_up: u32,
    /// How long it counts
    #[arg(long)]
    seconds: u32,
    /// How long users wait for an answer
    #[arg(long, default_value_t = 60)]
    patience: u32,
    /// Of the times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Why there is no load.
#[derive(Debug, thiserror::Error)]
#[error("cannot ask")]
pub(crate) struct LoadError(#[from] io::Error);

/// What became of the requests of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Class {
    /// Those of the time that counts.
    pub(crate) asked: usize,
    /// Those with status 200.
    pub(crate) answered: usize,
    /// Those with status 503.
    pub(crate) refused: usize,
    /// Those that users have not waited for.
    pub(crate) timed_out: usize,
    /// Those without a whole answer, or with another status.
    pub(crate) failed: usize,
    /// Answers with status 200 in the time that counts, whenever they were asked for, per second.
    pub(crate) answers_per_s: f64,
    /// Of the answered ones, from the moment in which they should be asked.
    pub(crate) mean_ms: Option<f64>,
    /// The same.
    pub(crate) median_ms: Option<f64>,
    /// Of those and of what timed out, as if it had had an answer then.
    pub(crate) p99_ms: Option<f64>,
}

/// What [`run`] prints: each class.
pub(crate) type Seen = [Class; 2];

/// Asks, and says in JSON what became of it.
///
/// # Errors
/// [`LoadError`] if this machine cannot.
pub(crate) fn run(load: Load) -> Result<String, LoadError> {
    open_files::raise().map_err(io::Error::other)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let requests = runtime.block_on(load.ask());
    let classes: Seen = [0, 1].map(|class| load.class(requests.iter().filter(|it| it.class == class)));
    Ok(serde_json::to_string(&classes).map_err(io::Error::other)?)
}

/// What became of a request. Times are since the start.
#[derive(Clone, Copy, Debug)]
struct Request {
    class: usize,
    due: Duration,
    ended: Duration,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Status(u16),
    TimedOut,
    Failed,
}

impl Load {
    fn lasts(self) -> Duration {
        Duration::from_secs(u64::from(self.warm_up + self.seconds))
    }

    async fn ask(self) -> Vec<Request> {
        let start = Instant::now();
        let mut asked = JoinSet::new();
        for _ in 0..self.at_once {
            asked.spawn(self.ask_again(start));
        }
        for (due, class) in self.times() {
            sleep_until(start + due).await;
            asked.spawn(async move { vec![self.ask_once(class, start, due).await] });
        }
        asked.join_all().await.concat()
    }

    /// When requests of which class are due.
    fn times(self) -> Vec<(Duration, usize)> {
        let mut dice = Dice::new(self.seed);
        let mut times = Vec::new();
        for (class, rate) in [self.first, self.second].into_iter().enumerate().filter(|(_, rate)| *rate > 0.0)
        {
            let gap = Duration::from_secs_f64(1.0 / rate);
            let mut due = dice.exponential(gap);
            while due < self.lasts() {
                times.push((due, class));
                due += dice.exponential(gap);
            }
        }
        times.sort_unstable();
        times
    }

    async fn ask_again(self, start: Instant) -> Vec<Request> {
        let mut requests = Vec::new();
        while start.elapsed() < self.lasts() {
            requests.push(self.ask_once(1, start, start.elapsed()).await);
        }
        requests
    }

    async fn ask_once(self, class: usize, start: Instant, due: Duration) -> Request {
        let patience = Duration::from_secs(u64::from(self.patience));
        let end = match timeout(patience, status(self.server, class)).await {
            Ok(Ok(status)) => End::Status(status),
            Ok(Err(_)) => End::Failed,
            Err(_) => End::TimedOut,
        };
        Request { class, due, ended: start.elapsed(), end }
    }

    fn class<'a>(self, requests: impl Iterator<Item = &'a Request> + Clone) -> Class {
        let begin = Duration::from_secs(u64::from(self.warm_up));
        let counts = begin..self.lasts();
        let counted = requests.clone().filter(|it| counts.contains(&it.due));
        let number = |end: End| counted.clone().filter(|it| it.end == end).count();
        let times = |ends: &[End]| -> Vec<f64> {
            let ended = counted.clone().filter(|it| ends.contains(&it.end));
            ended.map(|it| (it.ended - it.due).as_secs_f64() * 1e3).collect()
        };
        let [answered, refused, timed_out] = [OK, REFUSED, End::TimedOut].map(number);
        let asked = counted.clone().count();
        let answers = requests.filter(|it| it.end == OK && counts.contains(&it.ended)).count();
        Class {
            asked,
            answered,
            refused,
            timed_out,
            failed: asked - answered - refused - timed_out,
            answers_per_s: answers as f64 / f64::from(self.seconds),
            mean_ms: (answered > 0).then(|| times(&[OK]).iter().sum::<f64>() / answered as f64),
            median_ms: percentile(50, times(&[OK])),
            p99_ms: percentile(99, times(&[OK, End::TimedOut])),
        }
    }
}

const OK: End = End::Status(200);
const REFUSED: End = End::Status(503);

/// The status of an answer that is complete.
async fn status(server: SocketAddr, class: usize) -> io::Result<u16> {
    let mut stream = TcpStream::connect(server).await?;
    let cookie = ["Cookie: tier=gold\r\n", ""][class];
    let head = format!("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{cookie}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let line = std::str::from_utf8(answer.get(..12).unwrap_or_default()).unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The least time within which so many of a hundred were.
fn percentile(percent: usize, mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        let server = ([127, 0, 0, 1], 80).into();
        Load { server, first: 10.0, second: 30.0, at_once: 0, warm_up: 1, seconds: 100, patience: 4, seed: 7 }
    }

    #[test]
    fn users_ask_at_random_at_the_rates_of_their_classes() {
        let times = load().times();
        assert!(times.is_sorted());
        for (class, rate) in [(0, 10.0), (1, 30.0)] {
            let number = times.iter().filter(|(_, of)| *of == class).count() as f64;
            // Four standard deviations of a Poisson distribution.
            let mean: f64 = rate * 101.0;
            assert!((number - mean).abs() < 4.0 * mean.sqrt(), "{number} of {mean}");
        }
        assert_ne!(times, Load { seed: 8, ..load() }.times());
    }

    #[test]
    fn requests_count_that_are_due_in_time_and_answers_that_come_in_time() {
        let request = |due, ended, end| Request {
            class: 0,
            due: Duration::from_millis(due),
            ended: Duration::from_millis(ended),
            end,
        };
        let requests = [
            request(900, 1100, OK),
            request(1000, 1200, OK),
            request(2000, 2100, OK),
            request(3000, 3001, REFUSED),
            request(4000, 4001, End::Failed),
            request(5000, 9000, End::TimedOut),
            request(100_900, 101_300, OK),
        ];
        let class = load().class(requests.iter());
        let expected = Class {
            asked: 6,
            answered: 3,
            refused: 1,
            timed_out: 1,
            failed: 1,
            answers_per_s: 0.03,
            mean_ms: Some(700.0 / 3.0),
            median_ms: Some(200.0),
            p99_ms: Some(4000.0),
        };
        assert_eq!(class, expected);
    }

    #[test]
    fn a_percentile_is_a_time_that_was_seen() {
        assert_eq!(percentile(99, Vec::new()), None);
        assert_eq!(percentile(99, vec![2.0, 1.0]), Some(2.0));
        assert_eq!(percentile(99, (1..=100).rev().map(f64::from).collect()), Some(99.0));
        assert_eq!(percentile(50, vec![3.0, 1.0, 2.0]), Some(2.0));
    }
}
