//! A question in a datagram.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Message, OpCode};
use tokio::net::UdpSocket;

use super::{AskError, random_id};
use crate::question::{Form, Question};
use psmc_routes::wire::{MAX_UDP_LEN, read_message};

/// Asks a server once. Each question has a socket of its own, so that the kernel draws a port for it, and an id that is
/// drawn as well (RFC 5452 §9); whatever else arrives is passed over.
pub(super) async fn ask(server: SocketAddr, question: &Question, form: Form) -> Result<Message, AskError> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    let id = random_id()?;
    socket.send(&question.message(id, form).to_vec().map_err(|_| AskError::Malformed)?).await?;
    let mut buffer = [0; MAX_UDP_LEN as usize];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let datagram = &buffer[..length];
        if datagram.get(..2) != Some(&id.to_be_bytes()) {
            continue;
        }
        match read_message(datagram).map(|incoming| incoming.message) {
            Ok(message) if question.is_answered_by(&message, id) => return Ok(message),
            // Somebody else's, or of something else.
            Ok(_) => {}
            Err(_) if is_cut_off(datagram) => return Ok(cut_off(id)),
            Err(_) => return Err(AskError::Malformed),
        }
    }
}

/// Whether a response says that it is cut off. Some servers cut in the middle of a record.
fn is_cut_off(response: &[u8]) -> bool {
    response.get(2).is_some_and(|flags| flags & 0x82 == 0x82)
}

/// What is known of such a response.
fn cut_off(id: u16) -> Message {
    let mut message = Message::response(id, OpCode::Query);
    message.metadata.truncation = true;
    message
}
