//! What a client's resolver answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use psmc_testbed::netns::Namespace;

use super::files::RESOLVER;

/// The port of DNS.
const PORT: u16 = 53;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the resolver of a client for the address of `name`, as any program there would.
pub(super) fn address(client: &Namespace, name: &str) -> io::Result<Ipv4Addr> {
    client.run(|| {
        let server: SocketAddr = format!("{RESOLVER}:{PORT}").parse().map_err(io::Error::other)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let name = Name::from_str(name).map_err(io::Error::other)?;
        let mut question = Message::query();
        question.metadata.recursion_desired = true;
        question.add_query(Query::query(name, RecordType::A));
        socket.send(&question.to_vec().map_err(io::Error::other)?)?;
        let mut room = [0; 1232];
        let length = socket.recv(&mut room)?;
        let answer = Message::from_vec(&room[..length]).map_err(io::Error::other)?;
        let address = answer.answers.iter().find_map(|record| {
            let RData::A(address) = &record.data else { return None };
            Some(address.0)
        });
        address.ok_or_else(|| {
            io::Error::other(format!("the resolver knows no address ({})", answer.metadata.response_code))
        })
    })
}
