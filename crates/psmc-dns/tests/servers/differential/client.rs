//! Questions over TCP, and their answers as bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use psmc_routes::wire::read_message;

/// No test depends on this being short.
const PATIENCE: Duration = Duration::from_secs(60);

/// One who asks a server.
pub(super) struct Client {
    server: String,
    stream: Option<TcpStream>,
}

impl Client {
    pub(super) fn new(ip: &str) -> Self {
        Self { server: format!("{ip}:53"), stream: None }
    }

    /// The answer to a question.
    pub(super) fn ask(&mut self, name: &Name, kind: RecordType, dnssec: bool) -> Message {
        let mut message = question(name, kind);
        let mut edns = Edns::new();
        edns.set_max_payload(4096).set_dnssec_ok(dnssec);
        message.set_edns(edns);
        let bytes = message.to_vec().unwrap();
        let answer = self.exchange(&bytes).or_else(|_| {
            // A server closes a connection that has asked much, or nothing for a while.
            self.stream = None;
            self.exchange(&bytes)
        });
        let answer = answer.unwrap_or_else(|error| panic!("{} about {name} {kind}: {error}", self.server));
        read_message(&answer)
            .unwrap_or_else(|error| panic!("{} about {name} {kind}: {error}", self.server))
            .message
    }

    /// All records of a zone.
    pub(super) fn transfer(&mut self, origin: &Name) -> Vec<Record> {
        self.stream = None;
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = self.exchange(&question(origin, RecordType::AXFR).to_vec().unwrap()).unwrap();
        loop {
            let message = read_message(&bytes).unwrap().message;
            assert!(!message.answers.is_empty(), "{} {origin}: {message:?}", self.server);
            records.extend(message.answers);
            if records.len() > 1 && records.last().unwrap().record_type() == RecordType::SOA {
                records.pop();
                return records;
            }
            bytes = self.receive().unwrap();
        }
    }

    /// Waits until the server has a zone.
    pub(super) fn wait_for(&mut self, origin: &str) {
        let (origin, deadline) = (Name::from_ascii(format!("{origin}.")).unwrap(), Instant::now() + PATIENCE);
        while self.ask(&origin, RecordType::SOA, false).answers.is_empty() {
            assert!(Instant::now() < deadline, "{} does not serve {origin}", self.server);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.server)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(stream);
        }
        let length = u16::try_from(request.len()).unwrap();
        self.stream.as_mut().unwrap().write_all(&[&length.to_be_bytes(), request].concat())?;
        self.receive()
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let (stream, mut length) = (self.stream.as_mut().unwrap(), [0; 2]);
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

fn question(name: &Name, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    message
}

/// A record's name in lower case, its type, and each byte of its data.
pub(super) fn in_words(record: &Record) -> String {
    let kind = u16::from(record.record_type());
    let mut alone = record.clone();
    alone.name = Name::root();
    // Behind the root, the type, the class, the TTL and a length.
    let data = alone.to_bytes().unwrap().split_off(11);
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} TYPE{kind} {hex}", record.name.to_lowercase())
}
