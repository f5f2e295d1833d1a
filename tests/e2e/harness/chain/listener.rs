//! A client of the test's own, which is told what all clients are told, and keeps every byte of it.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use psmc_net::keys::PublicKey;
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity};
use psmc_signal::connection::{Coordinator, Event, Link, Options};
use psmc_signal::{ALPN, Message, Role, Routes};
use tokio::time::timeout;

use super::files::SIGNAL_PORT;
use super::{Chain, KNOWN, OPS, PATIENCE, PORT, RELAYS, SERVICE, address, relay_address};

impl Chain {
    /// Connects to the coordinator, and returns all messages up to the service's routes, as they were said and with what is
    /// encoded in them.
    pub(crate) fn listen(&self) -> (Routes, Vec<u8>) {
        let options = Options {
            identity: Identity::new(&self.keys.listener),
            role: Role::Client,
            services: vec![SERVICE.to_owned()],
            coordinators: vec![Coordinator {
                address: SocketAddr::new(address(OPS).into(), SIGNAL_PORT),
                public_key: self.keys.coordinator.public(),
            }],
            interface: None,
            local: None,
        };
        let listening = async {
            let (mut link, mut heard) = (Link::open(options), Vec::new());
            loop {
                let Event::Message(message) = link.next().await else { continue };
                heard.extend(serde_json::to_vec(&message).unwrap());
                if let Message::Routes(routes) = message {
                    for text in routes.record.iter().chain(&routes.grants) {
                        heard.extend(STANDARD.decode(text).unwrap());
                    }
                    return (routes, heard);
                }
            }
        };
        let limited = async || timeout(PATIENCE, listening).await.expect("the coordinator says something");
        self.clients[0].namespace.block_on(limited).unwrap()
    }

    /// The certificates that a client is shown: by every relay, by the coordinator, and by the gateway.
    pub(crate) fn certificates(&self) -> Vec<(PublicKey, Vec<u8>)> {
        let relays = RELAYS.iter().zip(&self.keys.relays);
        let relays = relays
            .filter(|(name, _)| self.relays[super::place(name)].program.is_some())
            .map(|(name, key)| (relay_address(name), key.public(), Some(psmc_wire::relay::ALPN)));
        let others = [
            (SocketAddr::new(address(OPS).into(), SIGNAL_PORT), self.keys.coordinator.public(), Some(ALPN)),
            (SocketAddr::new(address(KNOWN).into(), PORT), self.hq.key.public(), None),
        ];
        relays.chain(others).map(|(address, key, alpn)| (key, self.shown_by(address, key, alpn))).collect()
    }

    fn shown_by(&self, address: SocketAddr, key: PublicKey, alpn: Option<&'static [u8]>) -> Vec<u8> {
        let identity = Identity::new(&self.keys.listener);
        let dialer = match alpn {
            Some(alpn) => Dialer::for_protocol(&identity, key, alpn),
            None => Dialer::new(&identity, key),
        };
        let conversation = async || {
            let tcp = connect_tcp(None, None, address, PATIENCE).await.unwrap();
            let stream = dialer.connect(tcp).await.unwrap().stream;
            let shown = stream.get_ref().1.peer_certificates().unwrap();
            shown.iter().flat_map(|certificate| certificate.as_ref().to_vec()).collect()
        };
        self.clients[0].namespace.block_on(conversation).unwrap()
    }
}
