//! TCP flows between the hosts.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_testbed::netns::Namespace;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::DemoError;
use super::deliveries::Deliveries;
use super::network::{Link, Network};

/// What Linux uses unless it is told otherwise, so that the results of two machines compare.
pub(super) const CONGESTION_CONTROL: &[u8] = b"cubic";

/// How long a connection may take to be made, and to deliver anything: longer than any tunnel of use.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a link is measured. TCP finds its speed in a small part of this, and that part is counted: what is held back
/// until a loss is repaired, and then delivered at once, would otherwise be counted twice over.
const MEASURED: Duration = Duration::from_secs(2);

/// Most bytes taken from a socket at once: what one arriving burst can hold.
const READ_SIZE: usize = 64 * 1024;

/// Both ends of a connection.
pub(super) struct Flow {
    pub(super) sender: TcpStream,
    pub(super) receiver: TcpStream,
}

/// Connects `from` to `to`, which has the address `address`.
pub(super) async fn connect(from: &Namespace, to: &Namespace, address: Ipv4Addr) -> io::Result<Flow> {
    // A socket stays in the namespace that it is made in.
    let server = to.run(TcpSocket::new_v4)?;
    let client = from.run(TcpSocket::new_v4)?;
    SockRef::from(&client).set_tcp_congestion(CONGESTION_CONTROL)?;
    server.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let listener = server.listen(1)?;
    let target = SocketAddr::from((address, listener.local_addr()?.port()));
    let both = async { tokio::try_join!(client.connect(target), listener.accept()) };
    let (sender, (receiver, _)) = patiently(both).await?;
    Ok(Flow { sender, receiver })
}

/// Reads to the end, takes down what arrives when, and shows it to `look`.
pub(super) async fn receive(
    stream: &mut TcpStream,
    deliveries: &RefCell<Deliveries>,
    mut look: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; READ_SIZE];
    loop {
        let length = patiently(stream.read(&mut buffer)).await?;
        if length == 0 {
            return Ok(());
        }
        deliveries.borrow_mut().add(Instant::now(), length as u64);
        look(&buffer[..length]);
    }
}

/// What one TCP flow gets through a link, in Mbit/s.
pub(super) async fn goodput_mbps(network: &Network, link: &Link) -> Result<f64, DemoError> {
    let failed = |source| DemoError::Tcp { over: format!("over {}", link.name), source };
    let mut flow = connect(&network.van, network.far(link), link.far()).await.map_err(failed)?;
    let deliveries = RefCell::new(Deliveries::new(Instant::now()));
    let both =
        async { tokio::try_join!(pour(&mut flow.sender), receive(&mut flow.receiver, &deliveries, |_| {})) };
    match timeout(MEASURED, both).await {
        Ok(Err(error)) => Err(failed(error)),
        Ok(Ok((never, ()))) => match never {},
        Err(_elapsed) => Ok(deliveries.borrow().mbps(Duration::ZERO..MEASURED)),
    }
}

/// Waits for `operation`, but not for ever.
async fn patiently<T>(operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let too_late = |_elapsed| {
        let seconds = PATIENCE.as_secs();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing arrived for {seconds} s")))
    };
    timeout(PATIENCE, operation).await.unwrap_or_else(too_late)
}

/// Sends without end.
async fn pour(stream: &mut TcpStream) -> io::Result<Infallible> {
    loop {
        stream.write_all(&[0; READ_SIZE]).await?;
    }
}
