//! UDP at a constant rate: every datagram says as which and when it was sent.

mod header;
mod seen;
mod sender;

use std::convert::Infallible;
use std::net::SocketAddr;

use tokio::net::UdpSocket;

use super::record::{Ending, Record};
use super::{Job, TrafficError, socket};
use header::{HEADER, Header};
use seen::Seen;
use sender::{Emission, Sender, Sent};

pub use sender::{Flood, Pace};

/// The longest datagram that there is.
const MAX_DATAGRAM: usize = 65536;

/// Sends until the stop of the stream, and receives a little longer.
pub(super) async fn run(job: &Job, pace: Pace, record: &Record) -> Result<Ending, TrafficError> {
    let (receiver, to) = receiver(job)?;
    let socket = socket::udp(to.ip()).map_err(TrafficError::socket("UDP"))?;
    let (start, end) = (job.clock.at(job.traffic.start), job.clock.at(job.traffic.stop));
    let sender = Sender::start(Emission { socket, to, pace, start, end, clock: job.clock });
    record.reordered.set(Some(0));
    tokio::select! {
        error = receive(&receiver, record) => match error? {},
        () = job.linger(|| sender.is_finished() && record.tally.borrow().total_arrived() == sender.count()) => {}
    }
    conclude(sender.finish(), record)
}

fn receiver(job: &Job) -> Result<(UdpSocket, SocketAddr), TrafficError> {
    let address = job.traffic.address;
    let socket = job.hosts.to.run(|| socket::udp(address)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        Ok((UdpSocket::from_std(socket)?, SocketAddr::new(address, port)))
    });
    socket.map_err(TrafficError::socket("UDP"))
}

async fn receive(socket: &UdpSocket, record: &Record) -> Result<Infallible, TrafficError> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut seen = Seen::default();
    loop {
        let length = socket.recv(&mut buffer).await.map_err(TrafficError::Broken)?;
        if let Some(header) = Header::read(&buffer[..length]) {
            note(header, length, &mut seen, record);
        }
    }
}

fn note(header: Header, length: usize, seen: &mut Seen, record: &Record) {
    let is_late = seen.highest().is_some_and(|highest| header.number < highest);
    if !seen.insert(header.number) {
        return;
    }
    if is_late {
        record.reordered.update(|count| count.map(|count| count + 1));
    }
    let now = record.now();
    record.tally.borrow_mut().arrived(header.sent_at);
    record.latencies.borrow_mut().add(now, now.saturating_sub(header.sent_at));
    record.delivered(length);
}

/// The clocks of both ends are one, but only the part of the delay that varies is told: what else there is, is known.
fn conclude(sent: Sent, record: &Record) -> Result<Ending, TrafficError> {
    record.tally.borrow_mut().merge(&sent.tally);
    record.latencies.replace_with(|latencies| std::mem::take(latencies).beyond_smallest());
    match sent.error {
        _ if record.tally.borrow().total_arrived() > 0 => Ok(Ending::TimeUp),
        Some(error) => Err(TrafficError::Send(error)),
        None => Err(TrafficError::Nothing),
    }
}
