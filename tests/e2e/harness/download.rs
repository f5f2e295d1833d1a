//! A file that curl fetches through the tunnel, compared byte for byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::thread::spawn;
use std::time::{Duration, Instant};

use super::Site;

/// Where the server listens.
const PORT: u16 = 8080;

/// Bytes that are made, sent and compared at once.
const BLOCK: usize = 64 * 1024;

/// Fetches with curl on `client` `bytes` bytes from `address` on `server`, and returns how long that took.
///
/// # Panics
/// If what arrives is not what was sent, to the last byte.
pub(crate) fn download(client: &Site, server: &Site, address: IpAddr, bytes: usize) -> Duration {
    let listener = server.namespace.run(|| TcpListener::bind(SocketAddr::new(address, PORT))).unwrap();
    let served = spawn(move || serve_one(&listener, bytes));
    let url = format!("http://{}/", SocketAddr::new(address, PORT));
    let started = Instant::now();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--globoff", "--max-time", "300", &url]);
    let mut curl = client.namespace.spawn(command.stdout(Stdio::piped())).unwrap();
    let received = compare(curl.stdout.take().unwrap(), bytes);
    let status = curl.wait().unwrap();
    assert!(status.success(), "curl: {status} after {received} bytes");
    assert_eq!(received, bytes);
    served.join().unwrap().unwrap();
    started.elapsed()
}

/// Answers one request, whatever it asks for.
fn serve_one(listener: &TcpListener, bytes: usize) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let mut request = BufReader::new(&stream).lines();
    while request.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut stream = &stream;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n")?;
    let mut contents = Contents::new();
    let mut left = bytes;
    while left > 0 {
        let block = &contents.next()[..left.min(BLOCK)];
        stream.write_all(block)?;
        left -= block.len();
    }
    Ok(())
}

/// Reads to the end and returns how much there was.
fn compare(mut reader: impl Read, bytes: usize) -> usize {
    let mut contents = Contents::new();
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    while at < bytes {
        let wanted = BLOCK.min(bytes - at);
        let expected = &contents.next()[..wanted];
        if let Err(error) = reader.read_exact(&mut block[..wanted]) {
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            return at;
        }
        assert!(block[..wanted] == *expected, "other bytes arrived, from byte {at} on");
        at += wanted;
    }
    at + io::copy(&mut reader, &mut io::sink()).map_or(0, |rest| usize::try_from(rest).unwrap())
}

/// The contents of the file: the same every time, and no block like another.
struct Contents {
    state: u64,
    block: Vec<u8>,
}

impl Contents {
    fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, block: vec![0; BLOCK] }
    }

    /// The next block (xorshift64: Marsaglia, "Xorshift RNGs", 2003).
    fn next(&mut self) -> &[u8] {
        for word in self.block.chunks_exact_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            word.copy_from_slice(&self.state.to_le_bytes());
        }
        &self.block
    }
}
