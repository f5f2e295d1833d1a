//! Questions over a connection, many at a time (RFC 7766 §6.2.1), which is made when there is one and kept while there are
//! more.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{AskError, random_id};
use crate::question::{Form, Question};
use psmc_routes::wire::{Incoming, read_message};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);

/// How long a connection without a question is kept (RFC 7766 §6.2.3: seconds).
const IDLE: Duration = Duration::from_secs(10);

/// How long a connection with questions is kept while no answer comes: its other end may have forgotten it.
const UNANSWERED: Duration = Duration::from_secs(3);

/// Questions that wait to be written, and questions that wait for their answers.
const MAX_WAITING: usize = 512;

/// A question, and who wants the answer.
struct Asked {
    question: Question,
    form: Form,
    answer: oneshot::Sender<Message>,
}

/// A server that is spoken to over connections.
pub(super) struct Stream {
    target: Target,
    /// To the task that has the connection.
    connection: Mutex<Option<mpsc::Sender<Asked>>>,
}

#[derive(Clone)]
struct Target {
    address: SocketAddr,
    tls: Option<(String, Arc<ClientConfig>)>,
}

impl Stream {
    /// Over TCP.
    pub(super) fn plain(address: SocketAddr) -> Self {
        Self { target: Target { address, tls: None }, connection: Mutex::default() }
    }

    /// Over TLS, if the server has a certificate for this name.
    pub(super) fn secure(address: SocketAddr, name: String, tls: Arc<ClientConfig>) -> Self {
        Self { target: Target { address, tls: Some((name, tls)) }, connection: Mutex::default() }
    }

    /// Asks once. A connection that ends before the answer is an error.
    pub(super) async fn ask(&self, question: &Question, form: Form) -> Result<Message, AskError> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { question: question.clone(), form, answer };
        self.hand_over(asked).map_err(|_| io::Error::other("too many questions wait"))?;
        answered.await.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted).into())
    }

    /// Gives a question to the task with the connection, and starts one where there is none.
    fn hand_over(&self, mut asked: Asked) -> Result<(), AskError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(questions) = &*connection {
            match questions.try_send(asked) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(io::Error::other("too many questions wait").into()),
                Err(TrySendError::Closed(back)) => asked = back,
            }
        }
        let (sender, questions) = mpsc::channel(MAX_WAITING);
        sender.try_send(asked).expect("a new channel has room");
        *connection = Some(sender);
        tokio::spawn(serve(self.target.clone(), questions));
        Ok(())
    }
}

/// Makes a connection, and carries questions and answers over it. When it ends, whoever waits hears so.
async fn serve(target: Target, questions: mpsc::Receiver<Asked>) {
    let ended = match timeout(CONNECT, connect(&target)).await {
        Ok(Ok(Connected::Plain(stream))) => converse(stream, questions).await,
        Ok(Ok(Connected::Secure(stream))) => converse(*stream, questions).await,
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = ended {
        tracing::debug!(server = %target.address, %error, "a connection to an upstream server has ended");
    }
}

enum Connected {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

async fn connect(target: &Target) -> io::Result<Connected> {
    let stream = TcpStream::connect(target.address).await?;
    // Questions are written whole; there is nothing to wait for.
    stream.set_nodelay(true)?;
    let Some((name, config)) = &target.tls else { return Ok(Connected::Plain(stream)) };
    let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
    Ok(Connected::Secure(Box::new(stream)))
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite,
    mut questions: mpsc::Receiver<Asked>,
) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reading = std::pin::pin!(read(reader));
    let mut open: HashMap<u16, Asked> = HashMap::new();
    let mut until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            asked = questions.recv() => {
                let Some(asked) = asked else { return Ok(()) };
                if open.is_empty() {
                    until = Instant::now() + UNANSWERED;
                }
                open.retain(|_, asked| !asked.answer.is_closed());
                if open.len() < MAX_WAITING {
                    let id = free_id(&open)?;
                    timeout(UNANSWERED, write(&mut writer, &asked.question.message(id, asked.form))).await??;
                    open.insert(id, asked);
                }
            }
            answer = &mut reading => {
                let (reader, bytes) = answer?;
                reading.set(read(reader));
                take(&mut open, &bytes);
                until = Instant::now() + if open.is_empty() { IDLE } else { UNANSWERED };
            }
            () = sleep_until(until) => return Ok(()),
        }
    }
}

/// Gives an answer to whoever has asked.
fn take(open: &mut HashMap<u16, Asked>, bytes: &[u8]) {
    let Ok(Incoming { message, .. }) = read_message(bytes) else { return };
    if open.get(&message.id).is_some_and(|asked| asked.question.is_answered_by(&message, message.id))
        && let Some(asked) = open.remove(&message.id)
    {
        // Who waits no longer does not miss it.
        let _ = asked.answer.send(message);
    }
}

/// An id that no open question has.
fn free_id(open: &HashMap<u16, Asked>) -> io::Result<u16> {
    loop {
        let id = random_id()?;
        if !open.contains_key(&id) {
            return Ok(id);
        }
    }
}

/// A message behind its length (RFC 1035 §4.2.2), and the reader for the next one.
async fn read<R: AsyncRead>(mut reader: ReadHalf<R>) -> io::Result<(ReadHalf<R>, Vec<u8>)> {
    let length = reader.read_u16().await?;
    let mut message = vec![0; length.into()];
    reader.read_exact(&mut message).await?;
    Ok((reader, message))
}

/// The same the other way.
async fn write(writer: &mut (impl AsyncWrite + Unpin), message: &Message) -> io::Result<()> {
    let bytes = message.to_vec().map_err(io::Error::other)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    writer.write_all(&[&length.to_be_bytes(), &bytes[..]].concat()).await?;
    writer.flush().await
}
