//! One server, asked over TCP: every question signed, every answer verified.

use std::io;
use std::net::SocketAddr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::tsig::{TSIG, TsigError};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TsigKey, UpdateError};
use crate::wire::read_message;
use psmc_service::clock::unix_seconds;

/// A connection to a name server.
pub(super) struct Connection<'a> {
    stream: TcpStream,
    key: &'a TsigKey,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(address: SocketAddr, key: &'a TsigKey) -> Result<Self, UpdateError> {
        let stream = TcpStream::connect(address).await.map_err(UpdateError::Connect)?;
        // Questions are written whole; there is nothing to wait for.
        stream.set_nodelay(true).map_err(UpdateError::Connect)?;
        Ok(Self { stream, key })
    }

    /// The data of the records of `name` and `kind`; none if there are none.
    pub(super) async fn query(&mut self, name: &Name, kind: RecordType) -> Result<Vec<RData>, UpdateError> {
        let mut message = Message::query();
        message.add_query(Query::query(name.clone(), kind));
        let answer = self.ask(message).await?;
        if answer.response_code != ResponseCode::NXDomain
            && let Some(error) = UpdateError::of_code(answer.response_code)
        {
            return Err(error);
        }
        let target = answer.answers.iter().filter(|record| record.name == *name).find_map(|record| {
            if let RData::CNAME(target) = &record.data { Some(target.0.clone()) } else { None }
        });
        if let Some(target) = target {
            return Err(UpdateError::Alias(target));
        }
        let ours = |record: &Record| record.name == *name && record.record_type() == kind;
        Ok(answer.answers.into_iter().filter(ours).map(|record| record.data).collect())
    }

    /// Changes `zone` (RFC 2136 §2): all of `changes`, or nothing.
    pub(super) async fn update(&mut self, zone: &Name, changes: Vec<Record>) -> Result<(), UpdateError> {
        let mut message = Message::query();
        message.metadata.op_code = OpCode::Update;
        message.metadata.recursion_desired = false;
        message.add_query(Query::query(zone.clone(), RecordType::SOA));
        message.add_authorities(changes);
        let answer = self.ask(message).await?;
        UpdateError::of_code(answer.response_code).map_or(Ok(()), Err)
    }

    /// Asks, and has the answer if it is the server's.
    async fn ask(&mut self, mut message: Message) -> Result<Message, UpdateError> {
        let mut conversation = self.key.sign(&mut message).ok_or(UpdateError::Malformed)?;
        let question = message.to_vec().map_err(|_| UpdateError::Malformed)?;
        let answer = self.exchange(&question).await.map_err(UpdateError::Broken)?;
        let incoming = read_message(&answer).map_err(|_| UpdateError::Malformed)?;
        let signed = conversation.accept(&incoming, &answer, unix_seconds());
        let parsed = incoming.message;
        if parsed.id != message.id || parsed.message_type != MessageType::Response {
            return Err(UpdateError::Malformed);
        }
        if let Some(error) = parsed.signature().and_then(|signature| tsig_error(&signature.data)) {
            return Err(error);
        }
        match (signed, UpdateError::of_code(parsed.response_code)) {
            (true, _) => Ok(parsed),
            // Servers do not sign everything that they refuse; what is refused is lost either way.
            (false, Some(error)) if parsed.signature().is_none() => Err(error),
            (false, _) => Err(UpdateError::Unsigned),
        }
    }

    /// A message and its answer, each behind its length (RFC 1035 §4.2.2).
    async fn exchange(&mut self, question: &[u8]) -> io::Result<Vec<u8>> {
        let length = u16::try_from(question.len()).map_err(io::Error::other)?;
        self.stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
        let length = self.stream.read_u16().await?;
        let mut answer = vec![0; length.into()];
        self.stream.read_exact(&mut answer).await?;
        Ok(answer)
    }
}

/// What the server says about the signature of our question (RFC 8945 §5.3.2).
fn tsig_error(tsig: &TSIG) -> Option<UpdateError> {
    Some(match tsig.error? {
        TsigError::BadKey => UpdateError::BadKey,
        TsigError::BadSig | TsigError::BadTrunc => UpdateError::BadSignature,
        TsigError::BadTime => UpdateError::BadTime(server_time(&tsig.other) - i128::from(unix_seconds())),
        TsigError::Unknown(_) => UpdateError::Unsigned,
    })
}

/// The server's clock, 48 bits of seconds.
fn server_time(other: &[u8]) -> i128 {
    other.iter().take(6).fold(0, |time, byte| time << 8 | i128::from(*byte))
}
