//! Small web servers that do not all behave.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// What a server does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should.
    Fine,
    /// It sends nothing any more when so many bytes have left.
    StallsAfter(u64),
    /// It closes each connection after so many bytes of an answer.
    BreaksOffAfter(u64),
    /// It closes every connection when so many bytes have left.
    DiesAfter(u64),
    /// It does not know of ranges.
    OnlyWhole,
    /// It does not know of ranges any more, after the first request.
    ForgetsRanges,
    /// It has a file with other bytes, as long, of another day.
    OtherVersion,
    /// It has a longer file.
    OtherLength,
    /// It has another version after so many requests.
    ChangesAfter(u64),
    /// It says that the file is longer, after the first request.
    LiesAboutLength,
    /// It sends bytes from another place.
    WrongPart,
    /// It sends more bytes than it says.
    TooMuch,
    /// It sends at most so many bytes, and says so.
    AtMost(u64),
    /// It sends everybody to the same place below `/moved`.
    Redirects,
    /// It sends everybody to where they came from.
    Circles,
    /// It has no such file.
    Missing,
    /// It is several machines, which have the file with times and names of their own.
    Balanced,
    /// It spells the unit of ranges in its own way.
    Spells(&'static str),
    /// It refuses ranges, with this status.
    RefusesRanges(&'static str),
    /// It does not say in parts how long the file is.
    HidesLength,
    /// It sends all of the file in chunks.
    Chunked,
    /// It sends all of the file, and closes the connection.
    Closes,
    /// It sends all of the file compressed.
    Compresses,
    /// It wants to be asked later, this many times.
    Busy(u64),
}

/// Whom clients of a secure server must trust. Its key is known to everybody, and worth nothing outside these tests.
pub(crate) const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fetch/tls/ca.pem");

/// A server of one file.
pub(crate) struct Server {
    scheme: &'static str,
    port: u16,
    state: Arc<State>,
    task: AbortHandle,
}

struct State {
    manner: Manner,
    content: Vec<u8>,
    /// How long it waits after each piece that it sends.
    pause: Duration,
    requests: AtomicU64,
    connections: AtomicU64,
    sent: AtomicU64,
}

impl Server {
    pub(crate) async fn start(manner: Manner, content: &[u8], pause: Duration) -> Self {
        Self::start_with(manner, content, pause, None).await
    }

    /// One that behaves, and speaks TLS.
    pub(crate) async fn start_secure(content: &[u8]) -> Self {
        Self::start_with(Manner::Fine, content, Duration::ZERO, Some(tls())).await
    }

    async fn start_with(manner: Manner, content: &[u8], pause: Duration, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut content = content.to_vec();
        match manner {
            Manner::OtherVersion => content.iter_mut().for_each(|byte| *byte ^= 1),
            Manner::OtherLength => content.extend_from_slice(b"more"),
            _ => {}
        }
        Self::start_at(listener, manner, content, pause, tls)
    }

    fn start_at(
        listener: TcpListener,
        manner: Manner,
        content: Vec<u8>,
        pause: Duration,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let [requests, connections, sent] = [(); 3].map(|()| AtomicU64::new(0));
        let state = Arc::new(State { manner, content, pause, requests, connections, sent });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let task = tokio::spawn(accept(listener, Arc::clone(&state), tls)).abort_handle();
        Self { scheme, port, state, task }
    }

    /// One that behaves, and listens there.
    pub(crate) fn start_on(listener: TcpListener, content: &[u8], pause: Duration) -> Self {
        Self::start_at(listener, Manner::Fine, content.to_vec(), pause, None)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}/pub/file.bin", self.scheme, self.port)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Of the file.
    pub(crate) fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, tls: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::Relaxed);
        let (state, tls) = (Arc::clone(&state), tls.clone());
        // A client that has gone, or trusts nobody, is no error of the server.
        tokio::spawn(async move {
            drop(match tls {
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => state.serve(stream).await,
                    Err(error) => Err(error),
                },
                None => state.serve(stream).await,
            });
        });
    }
}

fn tls() -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(include_bytes!("tls/server.pem"));
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()))
}

/// A connection, secure or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl State {
    async fn serve(&self, stream: impl Stream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some((path, asked)) = read_request(&mut stream).await? {
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let is_moved = path.starts_with("/moved");
            match self.manner {
                Manner::Redirects if !is_moved => redirect(&mut stream, "/moved/file.bin").await?,
                Manner::Circles => redirect(&mut stream, &path).await?,
                Manner::Missing => refuse(&mut stream, "404 Not Found", "").await?,
                Manner::RefusesRanges(status) if asked.is_some() => refuse(&mut stream, status, "").await?,
                Manner::Busy(times) if number < times => {
                    refuse(&mut stream, "503 Service Unavailable", "Retry-After: 1\r\n").await?;
                }
                Manner::Closes => return self.stream(&mut stream).await,
                Manner::Chunked | Manner::Compresses => self.stream(&mut stream).await?,
                _ => self.answer(&mut stream, asked, number).await?,
            }
        }
        Ok(())
    }

    async fn answer(
        &self,
        stream: &mut BufReader<impl Stream>,
        asked: Option<Range<u64>>,
        number: u64,
    ) -> io::Result<()> {
        let length = self.content.len() as u64;
        let asked = asked.filter(|_| match self.manner {
            Manner::OnlyWhole => false,
            Manner::ForgetsRanges => number == 0,
            _ => true,
        });
        let is_whole = asked.is_none();
        let mut range = asked.map_or(0..length, |asked| asked.start..asked.end.min(length));
        if let Manner::AtMost(most) = self.manner {
            range.end = range.end.min(range.start + most);
        }
        let told = match self.manner {
            Manner::WrongPart if number > 0 => range.start + 1..range.end + 1,
            _ => range.clone(),
        };
        let status = if is_whole { "200 OK" } else { "206 Partial Content" };
        let total = if self.manner == Manner::LiesAboutLength && number > 0 { length + 1 } else { length };
        let changed = match self.manner {
            Manner::ChangesAfter(requests) => number >= requests,
            Manner::OtherVersion => true,
            Manner::Balanced => !number.is_multiple_of(2),
            _ => false,
        };
        let day = if changed { "Tue, 02 Jan 2024" } else { "Mon, 01 Jan 2024" };
        let mut head = format!(
            "HTTP/1.1 {status}\r\nLast-Modified: {day} 00:00:00 GMT\r\nContent-Length: {}\r\n",
            range.end - range.start
        );
        if !is_whole {
            let unit = if let Manner::Spells(unit) = self.manner { unit } else { "bytes " };
            let total = if self.manner == Manner::HidesLength { "*".to_owned() } else { total.to_string() };
            head += &format!("Content-Range: {unit}{}-{}/{total}\r\n", told.start, told.end - 1);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        self.send(stream, range).await?;
        if self.manner == Manner::TooMuch {
            stream.write_all(b"more than was said").await?;
        }
        stream.flush().await
    }

    /// Sends all of the file without saying how long it is.
    async fn stream(&self, stream: &mut BufReader<impl Stream>) -> io::Result<()> {
        let (body, coding) = match self.manner {
            Manner::Compresses => (compressed(&self.content), "Content-Encoding: gzip\r\n"),
            _ => (self.content.clone(), ""),
        };
        if self.manner == Manner::Closes {
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").await?;
            return stream.write_all(&body).await;
        }
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{coding}\r\n");
        stream.write_all(head.as_bytes()).await?;
        for piece in body.chunks(65_536) {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            stream.write_all(piece).await?;
            stream.write_all(b"\r\n").await?;
        }
        stream.write_all(b"0\r\n\r\n").await?;
        stream.flush().await
    }

    async fn send(&self, stream: &mut BufReader<impl Stream>, range: Range<u64>) -> io::Result<()> {
        const PIECE: usize = 8192;
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let mut sent = 0;
        for piece in self.content[range].chunks(PIECE) {
            let all = self.sent.load(Ordering::Relaxed);
            match self.manner {
                Manner::StallsAfter(most) if all >= most => std::future::pending().await,
                Manner::DiesAfter(most) if all >= most => return Err(io::ErrorKind::BrokenPipe.into()),
                Manner::BreaksOffAfter(most) if sent >= most => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                _ => {}
            }
            stream.write_all(piece).await?;
            stream.flush().await?;
            sent += piece.len() as u64;
            self.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
        Ok(())
    }
}

async fn redirect(stream: &mut BufReader<impl Stream>, to: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 4\r\n\r\nover");
    stream.write_all(head.as_bytes()).await
}

async fn refuse(stream: &mut BufReader<impl Stream>, status: &str, headers: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The path, and the range that is asked for, if one is; `None` at the end.
async fn read_request(
    stream: &mut BufReader<impl Stream>,
) -> io::Result<Option<(String, Option<Range<u64>>)>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if (&mut *stream).take(8192).read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line);
    }
    let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
    let range = lines.iter().find_map(|line| line.trim().strip_prefix("range: bytes="));
    let range = range.and_then(|range| range.split_once('-'));
    let range = range.map(|(first, last)| first.parse().unwrap()..last.parse::<u64>().unwrap() + 1);
    Ok(Some((path, range)))
}
