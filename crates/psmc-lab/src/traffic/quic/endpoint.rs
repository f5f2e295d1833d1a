//! Endpoints, and how they are tuned.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use psmc_net::keys::PublicKey;
use psmc_net::tls::{AllowedKeys, Identity};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};

/// What both sides must name (RFC 7301); nobody else sees it.
const ALPN: &[u8] = b"psmc-lab";

/// How much may be on the way: what 1 Gb/s sends in half a second.
const WINDOW: u32 = 64 << 20;

/// An endpoint that lets one client in.
pub(super) fn server(socket: UdpSocket, own: &Identity, client: PublicKey) -> io::Result<Endpoint> {
    let tls = own.server_config(AllowedKeys::from_iter([client]), ALPN);
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport()));
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
}

/// An endpoint that connects to one server.
pub(super) fn client(
    socket: UdpSocket,
    own: &Identity,
    server: PublicKey,
    congestion_control: &str,
) -> io::Result<Endpoint> {
    let tls = own.client_config(server, ALPN);
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut transport = transport();
    transport.congestion_controller_factory(controller(congestion_control));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// Flow control must not be what limits a transfer, and a cut must not end it, however long it lasts.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .send_window(WINDOW.into())
        .receive_window(VarInt::from_u32(WINDOW))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .max_idle_timeout(None);
    transport
}

/// The congestion control of this name; scenarios have no others.
fn controller(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "bbr" => Arc::new(BbrConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    }
}
