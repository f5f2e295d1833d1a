//! A host that is no peer, and reaches the headquarters.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity, TlsError};
use psmc_testbed::netns::{Namespace, link_pair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Site;
use super::plan::PORT;

/// Addresses that it has.
pub(crate) const ADDRESSES: u8 = 40;

/// The address of the headquarters on the link to it.
const HQ: Ipv4Addr = Ipv4Addr::new(10, 201, 255, 1);

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The host.
pub(crate) struct Stranger {
    pub(crate) namespace: Namespace,
}

impl Stranger {
    /// Makes it, with a link to the headquarters.
    pub(crate) fn new(hq: &Site) -> Self {
        let namespace = Namespace::new().unwrap();
        link_pair(&namespace, "s1", &hq.namespace, "stranger").unwrap();
        let net = |ip| IpNet::new_assert(ip, 16);
        hq.namespace.add_address("stranger", net(HQ.into())).unwrap();
        for number in 0..ADDRESSES {
            namespace.add_address("s1", net(address(number))).unwrap();
        }
        Self { namespace }
    }

    /// Where it reaches the headquarters' daemon.
    pub(crate) fn target() -> SocketAddr {
        SocketAddr::new(HQ.into(), PORT)
    }

    /// Opens a TCP connection to the headquarters.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = self.namespace.run(|| TcpStream::connect(Self::target())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What somebody says first who calls a site with this key.
    pub(crate) fn first_message(&self, whom: PublicKey) -> Vec<u8> {
        let dialer = Dialer::new(&Identity::new(&PrivateKey::generate()), whom);
        let greet = async || {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let mut message = vec![0; 1 << 14];
            // Nobody answers.
            tokio::select! {
                _ = dialer.connect(near) => unreachable!("it waits for an answer"),
                read = far.read(&mut message) => message.truncate(read.unwrap()),
            }
            message
        };
        self.namespace.block_on(greet).unwrap()
    }

    /// Opens a control connection with this key, sends `bytes`, and returns how it ended.
    pub(crate) fn talk(&self, key: &PrivateKey, hq: PublicKey, bytes: &[u8]) -> Result<(), TlsError> {
        let dialer = Dialer::new(&Identity::new(key), hq);
        let conversation = async || {
            let stream = connect_tcp(None, None, Self::target(), PATIENCE).await.unwrap();
            let mut stream = dialer.connect(stream).await?.stream;
            stream.write_all(bytes).await?;
            // What the headquarters say is of no interest, only that they hang up.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            Ok(())
        };
        self.namespace.block_on(conversation).unwrap()
    }
}

/// One of its addresses.
pub(crate) fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 201, 0, number + 1).into()
}
