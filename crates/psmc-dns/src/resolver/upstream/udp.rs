//! A question in a datagram.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::Message;
use tokio::net::UdpSocket;

use super::{AskError, random_id};
use crate::resolver::question::{MAX_UDP_LEN, Question};

/// Asks a server once. Each question has a socket of its own, so that the kernel draws a port for it, and an id that is
/// drawn as well (RFC 5452 §9); whatever else arrives is passed over.
pub(super) async fn ask(server: SocketAddr, question: &Question) -> Result<Message, AskError> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    let id = random_id()?;
    socket.send(&question.message(id).to_vec().map_err(|_| AskError::Malformed)?).await?;
    let mut buffer = [0; MAX_UDP_LEN as usize];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let datagram = &buffer[..length];
        if datagram.get(..2) != Some(&id.to_be_bytes()) {
            continue;
        }
        match Message::from_vec(datagram) {
            Ok(message) if question.is_answered_by(&message, id) => return Ok(message),
            // Somebody else's, or of something else.
            Ok(_) => {}
            Err(_) => return Err(AskError::Malformed),
        }
    }
}
