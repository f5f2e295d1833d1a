//! Speed tests: one TCP connection inside the tunnel, to a site that lets its peers test.
//!
//! The site listens on [`PORT`] of its addresses in the tunnel. Whoever tests says in a line of JSON what it [wants](Request), is
//! [answered](Answer), and then one side sends as much as it can, within both sides' [`Limits`]. If that was the one who tests, it
//! is told how much has arrived. `docs/PROTOCOL.md`, section 15, has the bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where sites that allow it listen, inside the tunnel.
pub const PORT: u16 = 5116;

/// The longest test: what a person waits for.
pub const MAX_TIME: Duration = Duration::from_secs(30);

/// The most bytes of a test: a connection of 10 Gbit/s takes eight seconds for them.
pub const MAX_BYTES: u64 = 10_000_000_000;

/// Callers that are spoken with at a time. The connections of others are closed.
pub const MAX_CALLERS: usize = 16;

/// Longest line that either side writes, in bytes.
pub const MAX_LINE: u64 = 1024;

/// How long either side waits for a line of the other, and for the first byte of a test.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are written or read at once.
const CHUNK: usize = 1 << 17;

/// How often the clock is looked at while nothing moves.
const LOOK: Duration = Duration::from_millis(100);

/// Who sends, from the point of view of who tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The one who tests.
    Up,
    /// The site that is asked.
    Down,
}

/// What a test may take. It ends with what comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long, from the first byte.
    pub time: Duration,
    /// How much.
    pub bytes: u64,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who sends.
    pub direction: Direction,
    /// The id of the path on which the connection is to stay; absent if it is treated as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u16>,
    /// [`Limits::time`], in milliseconds.
    pub milliseconds: u64,
    /// [`Limits::bytes`].
    pub bytes: u64,
}

impl Request {
    /// The limits, if they are such as a site may be asked for.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        let limits = Limits { time: Duration::from_millis(self.milliseconds), bytes: self.bytes };
        let is_bounded = limits.time <= MAX_TIME && limits.bytes <= MAX_BYTES;
        (is_bounded && !limits.time.is_zero() && limits.bytes > 0).then_some(limits)
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum Answer {
    /// The test begins.
    Go,
    /// There is none.
    Refused {
        /// Why, for a person to read.
        message: String,
    },
}

/// How much has arrived, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes of the TCP connection's payload.
    pub bytes: u64,
    /// From the first to the last of them, in microseconds.
    pub microseconds: u64,
}

impl Amount {
    /// The rate, in megabits per second.
    #[must_use]
    pub fn mbps(self) -> f64 {
        self.bytes as f64 * 8.0 / self.microseconds.max(1) as f64
    }
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum TestError {
    /// The site refuses, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, or nothing came in time.
    #[error("the connection inside the tunnel has failed during the test")]
    Io(#[from] io::Error),
    /// The other side has said something else than it should.
    #[error("the other side does not speak this protocol; install the same release on both sites")]
    Malformed,
}

/// Tests: asks at the other end of a new connection, and returns how much has arrived.
///
/// # Errors
/// [`TestError`].
pub fn test(mut stream: TcpStream, request: &Request) -> Result<Amount, TestError> {
    let limits = request.limits().ok_or(TestError::Malformed)?;
    // It waits for the end of a test before this one.
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    write_line(&mut stream, request)?;
    match read_line(&stream)? {
        Answer::Go => {}
        Answer::Refused { message } => return Err(TestError::Refused(message)),
    }
    match request.direction {
        Direction::Down => Ok(receive(&mut stream, limits)?),
        Direction::Up => {
            send(&mut stream, limits)?;
            // What is on its way takes as long as the queues that it has filled.
            stream.set_read_timeout(Some(limits.time + PATIENCE))?;
            read_line(&stream)
        }
    }
}

/// The other side of a test that has been allowed.
///
/// # Errors
/// Those of the connection, which one who has given up has broken.
pub fn serve(mut stream: TcpStream, direction: Direction, limits: Limits) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    write_line(&mut stream, &Answer::Go)?;
    match direction {
        Direction::Down => send(&mut stream, limits),
        Direction::Up => {
            let amount = receive(&mut stream, limits)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            write_line(&mut stream, &amount)?;
            // To close it while something comes would take the line back.
            let rest = Limits { time: PATIENCE, ..limits };
            receive(&mut stream, rest).map(|_| ())
        }
    }
}

/// Sends as much as there is room for.
fn send(stream: &mut TcpStream, limits: Limits) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let (chunk, end, mut left) = (vec![0; CHUNK], Instant::now() + limits.time, limits.bytes);
    while left > 0 && Instant::now() < end {
        let size = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        left -= unless_waiting(stream.write(&chunk[..size]))?.unwrap_or(0) as u64;
    }
    stream.shutdown(Shutdown::Write)
}

/// Receives until the other side has sent all that it wants to, or the limits are reached.
fn receive(stream: &mut TcpStream, limits: Limits) -> io::Result<Amount> {
    stream.set_read_timeout(Some(LOOK))?;
    let (mut chunk, begin) = (vec![0; CHUNK], Instant::now());
    let (mut first, mut last, mut bytes) = (None, begin, 0);
    let end = |first: Option<Instant>| first.map_or(begin + PATIENCE, |first| first + limits.time);
    while bytes < limits.bytes && Instant::now() < end(first) {
        match unless_waiting(stream.read(&mut chunk))? {
            Some(0) => break,
            Some(count) => {
                last = Instant::now();
                first.get_or_insert(last);
                bytes += count as u64;
            }
            None => {}
        }
    }
    let time = last.saturating_duration_since(first.unwrap_or(last));
    Ok(Amount { bytes, microseconds: u64::try_from(time.as_micros()).unwrap_or(u64::MAX) })
}

/// How much was moved; nothing if that would have taken too long.
fn unless_waiting(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    const WAITING: [io::ErrorKind; 3] =
        [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut, io::ErrorKind::Interrupted];
    match moved {
        Err(error) if WAITING.contains(&error.kind()) => Ok(None),
        moved => moved.map(Some),
    }
}

/// A value as a line.
///
/// # Errors
/// What the serializer says.
pub fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

fn write_line<T: Serialize>(stream: &mut TcpStream, value: &T) -> io::Result<()> {
    stream.write_all(&line(value)?)
}

/// The value in a line, and nothing of what follows it.
fn read_line<T: DeserializeOwned>(stream: &TcpStream) -> Result<T, TestError> {
    // One byte at a time: what follows the answer is the test itself.
    let mut line = Vec::new();
    BufReader::with_capacity(1, stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(|_| TestError::Malformed)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn request(direction: Direction, milliseconds: u64, bytes: u64) -> Request {
        Request { direction, path: None, milliseconds, bytes }
    }

    /// What a test brings, and what the served side says of it.
    fn run(request: &Request) -> (Result<Amount, TestError>, io::Result<()>) {
        let (near, far) = pair();
        let serving = thread::spawn(move || {
            let request: Request = read_line(&far).unwrap();
            serve(far, request.direction, request.limits().unwrap())
        });
        (test(near, request), serving.join().unwrap())
    }

    #[test]
    fn a_test_ends_with_its_bytes_or_with_its_time() {
        for direction in [Direction::Up, Direction::Down] {
            let (amount, served) = run(&request(direction, 30_000, 3_000_000));
            assert_eq!(amount.unwrap().bytes, 3_000_000, "{direction:?}");
            served.unwrap();
            let (amount, _) = run(&request(direction, 200, MAX_BYTES));
            let amount = amount.unwrap();
            assert!(amount.bytes > 0 && amount.bytes < MAX_BYTES, "{direction:?}: {amount:?}");
        }
    }

    #[test]
    fn who_refuses_says_why_and_who_babbles_is_not_understood() {
        for (said, expected) in [
            ("{\"result\":\"refused\",\"value\":{\"message\":\"not today\"}}\n", "not today"),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", "the other side does not speak this protocol"),
        ] {
            let (near, mut far) = pair();
            far.write_all(said.as_bytes()).unwrap();
            let error = test(near, &request(Direction::Down, 1000, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_is_asked_for_has_bounds() {
        let is_bounded = |milliseconds, bytes| request(Direction::Up, milliseconds, bytes).limits().is_some();
        assert!(is_bounded(30_000, MAX_BYTES) && is_bounded(1, 1));
        for (milliseconds, bytes) in [(30_001, 1), (0, 1), (1, 0), (1, MAX_BYTES + 1), (u64::MAX, 1)] {
            assert!(!is_bounded(milliseconds, bytes), "{milliseconds} ms, {bytes} bytes");
        }
    }

    #[test]
    fn the_lines_are_those_of_the_protocol() {
        let asked = Request { path: Some(2), ..request(Direction::Up, 5000, 500_000_000) };
        let text = |line: io::Result<Vec<u8>>| String::from_utf8(line.unwrap()).unwrap();
        assert_eq!(
            text(line(&asked)),
            "{\"direction\":\"up\",\"path\":2,\"milliseconds\":5000,\"bytes\":500000000}\n"
        );
        assert_eq!(text(line(&Answer::Go)), "{\"result\":\"go\"}\n");
        let amount = Amount { bytes: 12_500_000, microseconds: 5_000_000 };
        assert_eq!(text(line(&amount)), "{\"bytes\":12500000,\"microseconds\":5000000}\n");
        assert!((amount.mbps() - 20.0).abs() < 1e-9);
    }
}
