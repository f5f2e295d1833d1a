//! TCP of real hosts, ended by two stacks, each in a namespace of its own; need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod connections;
mod refusals;
mod site;
mod stacks;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use site::World;
use socket2::SockRef;

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of which each tells its place, so that none can be missing, twice or elsewhere.
const WORD: usize = 8;

/// A connection from the client to the server's port, and what the server has of it.
fn connection(world: &World, address: &str, port: u16) -> (TcpStream, TcpStream) {
    let listener = listen(world, address, port);
    let client = connect(world, (address, port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    (client, server)
}

fn listen(world: &World, address: &str, port: u16) -> TcpListener {
    let address = SocketAddr::new(address.parse().unwrap(), port);
    let listener = world.server.run(|| TcpListener::bind(address)).unwrap();
    // Linux also waits no longer to accept.
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
    listener
}

fn connect(world: &World, (address, port): (&str, u16)) -> std::io::Result<TcpStream> {
    let address = SocketAddr::new(address.parse().unwrap(), port);
    let stream = world.client.run(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Writes as many words, from that of number `first` on.
fn write_words(mut stream: &TcpStream, first: u64, count: u64) {
    let mut buffer = Vec::new();
    let mut written = 0;
    while written < count {
        let now = (count - written).min(8192);
        buffer.clear();
        (0..now).for_each(|nth| buffer.extend(word(first + written + nth)));
        stream.write_all(&buffer).unwrap();
        written += now;
    }
}

/// Reads them.
fn expect_words(mut stream: &TcpStream, first: u64, count: u64) {
    let mut buffer = vec![0; 8192 * WORD];
    let mut read = 0;
    while read < count {
        let now = (count - read).min(8192);
        let bytes = &mut buffer[..usize::try_from(now).unwrap() * WORD];
        stream.read_exact(bytes).unwrap();
        let wrong = (0..now).zip(bytes.chunks(WORD)).find(|(nth, found)| **found != word(first + read + nth));
        assert_eq!(wrong.map(|(nth, _)| first + read + nth), None, "the first wrong word");
        read += now;
    }
}

fn expect_end(mut stream: &TcpStream) {
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

fn word(number: u64) -> [u8; WORD] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}
