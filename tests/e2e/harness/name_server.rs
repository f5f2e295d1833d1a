//! A name server that gives the same answer whatever it is asked for, as long as nobody changes it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::{RData, Record, RecordType};

use super::Site;

/// How soon it notices that it is to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long answers may be kept, in seconds.
const TTL: u32 = 1;

/// A name server; it ends on drop.
pub(crate) struct NameServer {
    addresses: Arc<Mutex<Option<Vec<IpAddr>>>>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts it on a host, where it listens on this address. Every name has these addresses.
    pub(crate) fn start(host: &Site, address: &str, addresses: &[IpAddr]) -> Self {
        let address: SocketAddr = format!("{address}:53").parse().unwrap();
        let socket = host.namespace.run(|| UdpSocket::bind(address)).unwrap();
        socket.set_read_timeout(Some(LOOK_AGAIN)).unwrap();
        let addresses = Arc::new(Mutex::new(Some(addresses.to_vec())));
        let known = addresses.clone();
        Self { addresses, thread: Some(spawn(move || serve(&socket, &known))) }
    }

    /// From here on names have other addresses.
    pub(crate) fn set(&self, addresses: &[IpAddr]) {
        *self.addresses.lock().unwrap() = Some(addresses.to_vec());
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        *self.addresses.lock().unwrap() = None;
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(socket: &UdpSocket, known: &Mutex<Option<Vec<IpAddr>>>) {
    let mut buffer = [0; 1500];
    loop {
        let received = socket.recv_from(&mut buffer);
        let Some(addresses) = known.lock().unwrap().clone() else { return };
        let Ok((len, from)) = received else { continue };
        if let Ok(question) = Message::from_vec(&buffer[..len]) {
            let answer = answer(question, &addresses).to_vec().unwrap();
            // Who has gone needs no answer.
            drop(socket.send_to(&answer, from));
        }
    }
}

fn answer(mut message: Message, addresses: &[IpAddr]) -> Message {
    message.metadata.message_type = MessageType::Response;
    let Some(query) = message.queries.first().cloned() else { return message };
    for address in addresses {
        let (kind, data) = match *address {
            IpAddr::V4(address) => (RecordType::A, RData::A(address.into())),
            IpAddr::V6(address) => (RecordType::AAAA, RData::AAAA(address.into())),
        };
        if query.query_type() == kind {
            message.add_answer(Record::from_rdata(query.name().clone(), TTL, data));
        }
    }
    message
}
