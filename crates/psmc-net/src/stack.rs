//! TCP of other hosts, ended by this one: the kernel's stack in a network namespace of its own, behind a TUN device.
//!
//! What a [`Stack`] gets through its device is for itself, wherever it should go, and what it answers comes out of the device,
//! as if the host meant had. So it stands in for either end of a connection: for the server before a client
//! ([`listen`](Stack::listen), [`accept`](Stack::accept)), and for the client before a server ([`connect`](Stack::connect),
//! [`finish`]). Between its sockets and whatever carries their bytes nothing of TCP is left.
//!
//! ```text
//!      client's segments               what the owner carries              server's segments
//!          ▲                                     ▲                                 ▲
//!          │           ┌──────────────┐          │          ┌──────────────┐       │
//!          └── tun() ──┤ Stack, near  ├─ accept()┴connect()─┤ Stack, far   ├─ tun()┘
//!                      └──────────────┘                     └──────────────┘
//! ```
//!
//! What is Linux's in there: selective acknowledgements, timestamps, window scaling, congestion control, half-closed
//! connections, windows of zero. What ends here, because it is between two hosts only:
//!
//! - *Keep-alive.* Who asks is answered here. Each side asks its own host after two hours without a word, so that one that has gone
//!   is noticed, and none is given up earlier than hosts themselves do (RFC 9293 section 3.8.4).
//! - *Urgent data.* It stays in its place among the data, and is no longer urgent (RFC 6093 advises against it).
//! - *Fast open, MPTCP.* They are not agreed on, and the hosts do without.
//!
//! Nothing of the host's own network is touched, and nothing of its own ends in here: only the device leads to the namespace.

mod listeners;
mod namespace;
mod socket;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use crate::netlink::NetlinkError;
use crate::tun::{Tun, TunConfig, TunError};
use listeners::Listeners;
use namespace::Namespace;

pub use socket::{ConnectError, finish, reset};

/// The name of the device, which nothing else in its namespace could have.
const DEVICE: &str = "tun";

/// The table of the routes by which all is local; any number that the kernel does not use itself.
const TABLE: u8 = 100;

/// What a [`Stack`] should be.
#[derive(Debug, Clone)]
pub struct StackConfig {
    /// The size in bytes of the largest packet through its device; at least 1280 for IPv6. What it offers and sends as segments
    /// follows from it.
    pub mtu: u16,
    /// The congestion control of its connections, as the kernel calls it (`cubic`, `bbr`); `None` leaves it to the kernel.
    pub congestion: Option<String>,
    /// How many bytes a connection keeps at most of what has come and is not read, and the same of what is written and not
    /// acknowledged. The kernel counts its own bookkeeping among them, so half of it is data in the worst case.
    pub buffer: u32,
}

/// Why there is no [`Stack`].
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// This process may not make a network namespace.
    #[error(
        "not permitted to make a network namespace, in which TCP is ended: run as root, or give the program CAP_SYS_ADMIN"
    )]
    Denied(#[source] io::Error),
    /// There is none for another reason.
    #[error("cannot make a network namespace, in which TCP is ended")]
    Namespace(#[source] io::Error),
    /// Its device could not be made.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// Its routes could not be made.
    #[error("cannot set up the network namespace in which TCP is ended")]
    Netlink(#[from] NetlinkError),
    /// A parameter of its TCP could not be set.
    #[error("cannot set the kernel parameter {key} of a network namespace: is /proc/sys mounted writable?")]
    Parameter {
        /// Its name, as `sysctl` writes it.
        key: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel does not know the congestion control.
    #[error("the kernel has no congestion control called {name}: `modprobe tcp_{name}`")]
    Congestion {
        /// The name asked for.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// There are no descriptors left.
    #[error("cannot wait for connections")]
    Poller(#[source] io::Error),
}

/// A connection that a client has made to a server, for which the stack stands in.
#[derive(Debug)]
pub struct Accepted {
    /// The client.
    pub client: SocketAddr,
    /// Whom it believes it speaks to.
    pub server: SocketAddr,
    /// The connection, which never blocks and sends at once what is written.
    pub stream: TcpStream,
}

/// A stack of TCP that stands in for other hosts. With it go its namespace and its device; sockets it has made live on, and nothing
/// of theirs comes out any more.
///
/// Its owner moves packets between the device, [`tun`](Self::tun), and the hosts, as a router does, and waits for two
/// descriptors: that of the device, for packets, and [its own](Self::as_fd), for connections to be accepted.
///
/// For each connection, near its client:
///
/// 1. [`listen`](Self::listen) at the server's port, before the client's SYN (`psmc_wire::ip::tcp::Syn`) is given to the
///    device. It may be kept for as long as the client is patient, say until it is known whether the server answers.
/// 2. [`accept`](Self::accept) what has come, then [`unlisten`](Self::unlisten): each once per `listen`.
///
/// and near its server:
///
/// 1. [`connect`](Self::connect), from the client's own address: the SYN comes out of the device.
/// 2. [`finish`] when there is room to write.
///
/// One stack can be near to clients and to servers at once. A connection that comes back to the stack it came from is two, with the
/// same ends; it is for the owner to keep these apart.
#[derive(Debug)]
pub struct Stack {
    tun: Tun,
    namespace: Namespace,
    listeners: Listeners,
    congestion: Option<String>,
}

impl Stack {
    /// Makes a namespace, its device and its routes. It takes a thread for the time of the call, and some milliseconds.
    ///
    /// # Errors
    /// [`StackError`]: most often, that `CAP_SYS_ADMIN` is missing.
    pub fn new(config: &StackConfig) -> Result<Self, StackError> {
        let made = thread::scope(|scope| {
            let maker = thread::Builder::new().name("stack".to_owned());
            let maker = maker.spawn_scoped(scope, || make(config)).map_err(StackError::Namespace)?;
            maker.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        });
        let (namespace, tun) = made?;
        let congestion = config.congestion.clone();
        let listeners = Listeners::new().map_err(StackError::Poller)?;
        let stack = Self { tun, namespace, listeners, congestion };
        stack.try_congestion()?;
        Ok(stack)
    }

    /// The device: what is given to it comes to the stack, and what the stack sends is to be had there.
    pub fn tun(&mut self) -> &mut Tun {
        &mut self.tun
    }

    /// Takes connections to any host at this port, for one more who wants that.
    ///
    /// # Errors
    /// Those of the system: that no descriptors are left.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    pub fn listen(&mut self, port: u16) -> io::Result<()> {
        let (namespace, congestion) = (&self.namespace, self.congestion.as_deref());
        self.listeners.add(port, || socket::listener(namespace, congestion, port))
    }

    /// Takes back [`listen`](Self::listen), if anybody wanted it. With the last one those connections are reset that have come and were
    /// not accepted.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(port);
    }

    /// Appends connections that clients have made to `accepted`. If not all were taken, the [descriptor](Self::as_fd) still has
    /// something to be read.
    ///
    /// # Errors
    /// No descriptors are left: those that have come wait, so that whoever only tries again is busy with it. None that
    /// was appended is lost.
    pub fn accept(&mut self, accepted: &mut Vec<Accepted>) -> io::Result<()> {
        self.listeners.accept(accepted)
    }

    /// Begins a connection to a server in the name of its client, whose packets have this differentiated services code point
    /// (6 bits). It is made, or not, when the stream has room to be written to, or an error: then [`finish`] says
    /// which.
    ///
    /// # Errors
    /// Those of the system: no descriptors are left, or there is such a connection already (`AddrNotAvailable`), which may be
    /// one that has ended less than a second ago.
    ///
    /// # Panics
    /// When the process has lost the right to change namespaces (`CAP_SYS_ADMIN`) since the stack was made, in the midst
    /// of it: the thread would be in the wrong one.
    pub fn connect(&self, client: SocketAddr, server: SocketAddr, dscp: u8) -> io::Result<TcpStream> {
        socket::connect(&self.namespace, self.congestion.as_deref(), client, server, dscp)
    }

    fn try_congestion(&self) -> Result<(), StackError> {
        let Some(name) = &self.congestion else { return Ok(()) };
        let tried = socket::listener(&self.namespace, Some(name), 0);
        tried.map(drop).map_err(|source| StackError::Congestion { name: name.clone(), source })
    }
}

/// Something to be read says that there are connections to be accepted.
impl AsFd for Stack {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listeners.as_fd()
    }
}

/// In a thread of its own, which stays in the namespace that it makes.
fn make(config: &StackConfig) -> Result<(Namespace, Tun), StackError> {
    let namespace = Namespace::enter_new().map_err(|error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        if is_denied { StackError::Denied(error) } else { StackError::Namespace(error) }
    })?;
    namespace::set_parameters(config.buffer)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tun = runtime.map_err(StackError::Namespace)?.block_on(async {
        let name = Some(DEVICE.to_owned());
        let tun =
            Tun::create(TunConfig { name, mtu: config.mtu, addresses: Vec::new(), routes_networks: false })
                .await?;
        namespace::route(&tun, TABLE).await?;
        Ok::<_, StackError>(tun)
    })?;
    Ok((namespace, tun))
}
