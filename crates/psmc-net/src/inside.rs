//! TCP inside the tunnel: sockets without the mark that keeps all others of this process outside.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;

/// Listens on an address in the tunnel, which the interface may still be without.
///
/// # Errors
/// Those of the system: most often, that another program has the port.
///
/// # Panics
/// Outside a tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() { socket.set_freebind_v6(true) } else { socket.set_freebind_v4(true) }?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Has a connection go through the tunnel's interface and no other one from here on. One that has come another way hears nothing
/// any more, and is not heard.
///
/// # Errors
/// Those of the system: that there is no such interface.
pub fn keep_inside(stream: &TcpStream, interface: &str) -> io::Result<()> {
    SockRef::from(stream).bind_device(Some(interface.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psmc_testbed::netns::{Namespace, link_pair};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    /// How long what does not come is waited for, and what comes may take.
    const PATIENCE: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn who_has_come_by_another_interface_is_not_heard() {
        let [near, far] = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        link_pair(&near, "tunnel", &far, "tunnel").unwrap();
        link_pair(&near, "lan", &far, "lan").unwrap();
        for (host, name, address) in [
            (&near, "tunnel", "10.77.0.1/24"),
            (&far, "tunnel", "10.77.0.2/24"),
            (&near, "lan", "10.1.0.1/24"),
            (&far, "lan", "10.1.0.2/24"),
        ] {
            host.add_address(name, address.parse().unwrap()).unwrap();
        }
        let runtime = tokio::runtime::Handle::current();
        let listener = near.run(|| {
            let _entered = runtime.enter();
            listen("10.77.0.1:5116".parse().unwrap()).unwrap()
        });
        far.add_route("10.77.0.1/32".parse().unwrap(), "10.1.0.1".parse().unwrap()).unwrap();
        for (interface, source, is_heard) in [("tunnel", "10.77.0.2:0", true), ("lan", "10.1.0.2:0", false)] {
            let connecting = far.run(|| {
                let _entered = runtime.enter();
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind_device(Some(interface.as_bytes())).unwrap();
                socket.bind(source.parse().unwrap()).unwrap();
                socket.connect("10.77.0.1:5116".parse().unwrap())
            });
            let (connected, accepted) = tokio::join!(connecting, listener.accept());
            let (mut calling, (mut called, _)) = (connected.unwrap(), accepted.unwrap());
            keep_inside(&called, "tunnel").unwrap();
            calling.write_all(b"x").await.unwrap();
            let heard = timeout(PATIENCE, called.read_u8()).await;
            assert_eq!(heard.is_ok(), is_heard, "{interface}");
        }
    }
}
