//! ICMP echo requests (RFC 792, RFC 4443), and who answers them: the kernel.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use nix::unistd::getegid;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::record::{Ending, Record};
use super::{Job, TrafficError};

/// Bytes of the header of an echo request or reply: type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;

/// Room for the longest reply.
const MAX_REPLY: usize = 65536;

/// Pings until the stop of the stream, and waits a little longer for answers.
pub(super) async fn run(
    job: &Job,
    interval: Duration,
    payload: usize,
    record: &Record,
) -> Result<Ending, TrafficError> {
    let socket = open(job)?;
    let sent = RefCell::new(Vec::new());
    job.until_start().await;
    tokio::select! {
        error = receive(&socket, &sent, record) => match error? {},
        () = send_all(job, interval, payload, &socket, &sent, record) => {}
    }
    if record.tally.borrow().total_arrived() == 0 { Err(TrafficError::Nothing) } else { Ok(Ending::TimeUp) }
}

/// An echo request that was sent.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: Duration,
    answered: bool,
}

fn open(job: &Job) -> Result<UdpSocket, TrafficError> {
    let address = job.traffic.address;
    // The kernel gives such sockets to whom it allows ping; root is not exempt.
    let group = getegid();
    let allowed = job.hosts.from.sysctl("net.ipv4.ping_group_range", &format!("{group} {group}"));
    allowed.map_err(|error| TrafficError::Socket { what: "ping", source: std::io::Error::other(error) })?;
    let protocol = if address.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let opened = Socket::new(domain, Type::DGRAM, Some(protocol)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket.into())
    });
    opened.map_err(TrafficError::socket("ping"))
}

async fn send_all(
    job: &Job,
    interval: Duration,
    payload: usize,
    socket: &UdpSocket,
    sent: &RefCell<Vec<Request>>,
    record: &Record,
) {
    let mut packet = vec![0; HEADER + payload];
    packet[0] = if job.traffic.address.is_ipv4() { V4_REQUEST } else { V6_REQUEST };
    let to = SocketAddr::new(job.traffic.address, 0);
    let mut due = job.traffic.start;
    while due < job.traffic.stop {
        job.clock.sleep_until(due).await;
        let number = sent.borrow().len();
        packet[6..HEADER].copy_from_slice(&sequence(number).to_be_bytes());
        let at = record.now();
        sent.borrow_mut().push(Request { at, answered: false });
        record.tally.borrow_mut().sent(at);
        // The socket is not connected, so that a host that roams sends from the address that it has. What the kernel
        // does not send, because there is no route for one, will not be answered either.
        let _ = socket.send_to(&packet, to).await;
        due += interval;
    }
    job.linger(|| record.tally.borrow().total_arrived() == sent.borrow().len() as u64).await;
}

async fn receive(
    socket: &UdpSocket,
    sent: &RefCell<Vec<Request>>,
    record: &Record,
) -> Result<Infallible, TrafficError> {
    let mut buffer = vec![0; MAX_REPLY];
    loop {
        // An error is what a router said about a request, which is lost; the next one may get through.
        let Ok(length) = socket.recv(&mut buffer).await else { continue };
        let count = sent.borrow().len();
        if let Some(number) = number_of(&buffer[..length], count) {
            note(&mut sent.borrow_mut()[number], length, record);
        }
    }
}

fn note(request: &mut Request, length: usize, record: &Record) {
    if !std::mem::replace(&mut request.answered, true) {
        record.tally.borrow_mut().arrived(request.at);
        record.answered(request.at);
        record.delivered(length - HEADER);
    }
}

/// Which request a reply answers: the last of those that were sent that has its sequence number.
fn number_of(reply: &[u8], sent: usize) -> Option<usize> {
    let (header, _) = reply.split_first_chunk::<HEADER>()?;
    if !matches!(header[0], V4_REPLY | V6_REPLY) {
        return None;
    }
    let sequence = u16::from_be_bytes([header[6], header[7]]);
    let last = sent.checked_sub(1)?;
    let behind = self::sequence(last).wrapping_sub(sequence);
    last.checked_sub(usize::from(behind))
}

/// The sequence number of a request, which has 16 bits.
fn sequence(number: usize) -> u16 {
    u16::try_from(number % (1 << 16)).unwrap_or_default()
}

const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kind: u8, sequence: u16) -> Vec<u8> {
        let [high, low] = sequence.to_be_bytes();
        vec![kind, 0, 0, 0, 0, 0, high, low, 1, 2, 3]
    }

    #[test]
    fn a_reply_answers_the_latest_request_of_its_number() {
        assert_eq!(number_of(&reply(V4_REPLY, 3), 5), Some(3));
        assert_eq!(number_of(&reply(V6_REPLY, 65_535), 65_537), Some(65_535));
        assert_eq!(number_of(&reply(V4_REPLY, 0), 65_537), Some(65_536));
    }

    #[test]
    fn what_answers_nothing_is_no_answer() {
        assert_eq!(number_of(&reply(V4_REPLY, 5), 5), None);
        assert_eq!(number_of(&reply(V4_REPLY, 0), 0), None);
        assert_eq!(number_of(&reply(3, 3), 5), None);
        assert_eq!(number_of(&reply(V4_REPLY, 3)[..7], 5), None);
    }
}
