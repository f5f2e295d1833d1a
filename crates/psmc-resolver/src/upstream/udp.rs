//! A question in a datagram.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::Name;
use tokio::net::UdpSocket;

use super::{AskError, random_id};
use crate::question::{Form, Question};
use psmc_routes::wire::{MAX_UDP_LEN, read_message};

/// Asks a server once. Each question has a socket of its own, so that the kernel draws a port for it, and an id that is
/// drawn as well (RFC 5452 §9); whatever else arrives is passed over. The case of the name's letters is drawn, too, and servers repeat
/// it (draft-vixie-dnsext-dns0x20): an answer with another one counts as cut off, so that the server is asked by TCP.
pub(super) async fn ask(server: SocketAddr, question: &Question, form: Form) -> Result<Message, AskError> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    let (id, name) = (random_id()?, in_random_case(question.name())?);
    let mut asked = question.message(id, form);
    asked.queries = vec![Query::query(name.clone(), question.kind())];
    socket.send(&asked.to_vec().map_err(|_| AskError::Malformed)?).await?;
    let mut buffer = [0; MAX_UDP_LEN as usize];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let datagram = &buffer[..length];
        if datagram.get(..2) != Some(&id.to_be_bytes()) {
            continue;
        }
        match read_message(datagram).map(|incoming| incoming.message) {
            Ok(message) if question.is_answered_by(&message, id) => {
                let repeated = message.queries.first().is_none_or(|query| query.name().eq_case(&name));
                return Ok(if repeated { in_lower_case(message, question.name()) } else { cut_off(id) });
            }
            // Somebody else's, or of something else.
            Ok(_) => {}
            Err(_) if is_cut_off(datagram) => return Ok(cut_off(id)),
            Err(_) => return Err(AskError::Malformed),
        }
    }
}

/// A name whose letters are drawn to be small ones or capitals.
fn in_random_case(name: &Name) -> Result<Name, AskError> {
    let mut coins = [0; MAX_NAME];
    aws_lc_rs::rand::fill(&mut coins)
        .map_err(|_| io::Error::other("the system has no randomness to give"))?;
    let mut coins = coins.into_iter();
    let mut drawn = |letter: &u8| match coins.next() {
        Some(coin) if coin & 1 == 1 => letter.to_ascii_uppercase(),
        Some(_) | None => *letter,
    };
    let labels: Vec<Vec<u8>> = name.iter().map(|label| label.iter().map(&mut drawn).collect()).collect();
    let mut cased = Name::from_labels(labels).map_err(|_| AskError::Malformed)?;
    cased.set_fqdn(true);
    Ok(cased)
}

/// An answer in which the name that was asked for is as it is asked for here.
fn in_lower_case(mut message: Message, name: &Name) -> Message {
    for section in [&mut message.answers, &mut message.authorities, &mut message.additionals] {
        section
            .iter_mut()
            .filter(|record| record.name == *name)
            .for_each(|record| record.name = name.clone());
    }
    message
}

/// The most letters of a name (RFC 1035 §2.3.4).
const MAX_NAME: usize = 255;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_letters_is_drawn_and_nothing_else() {
        let name = Name::from_ascii(format!("{}.x-1.example.", "a".repeat(60))).unwrap();
        let drawn = in_random_case(&name).unwrap();
        assert!(drawn == name && !drawn.eq_case(&name));
        let text = drawn.to_ascii();
        assert!(text.contains('a') && text.contains('A') && text.ends_with('.'), "{text}");
        assert!(!in_random_case(&name).unwrap().eq_case(&drawn));
    }
}
