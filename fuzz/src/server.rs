//! What a name server does with a request from anybody: questions, transfers and updates, signed (TSIG) or not.

use std::net::SocketAddr;
use std::sync::Arc;

use hickory_proto::rr::Name;
use psmc_dns::server::{Access, Contents, Hosted, Role, Server, Transport};
use psmc_dns::store::Store;
use psmc_dns::zone::{Zone, read_zone_text};
use psmc_routes::update::TsigKey;
use psmc_routes::wire::read_message;
use tokio::runtime::{Builder, Runtime};

/// Requests, one after another: a byte says how each comes, two say how long it is.
pub fn server(mut bytes: &[u8]) {
    let key: TsigKey = KEY.parse().expect("it is a key");
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let server = a_server(&key);
            for _ in 0..MAX_REQUESTS {
                let Some(([how, high, low], rest)) = bytes.split_first_chunk() else { break };
                let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
                let (request, rest) = rest.split_at(length);
                bytes = rest;
                let signed = if how & 1 == 0 { None } else { signed(request, &key) };
                let over = if how & 2 == 0 { Transport::Udp } else { Transport::Stream };
                respond(&server, signed.as_deref().unwrap_or(request), over).await;
            }
        });
    });
}

async fn respond(server: &Server, request: &[u8], over: Transport) {
    let from = SocketAddr::from(([127, 0, 0, 1], 5353));
    let responses = server.respond(request, from, over).await;
    assert!(over == Transport::Stream || responses.len() <= 1, "several datagrams to one request");
    for response in responses {
        assert_eq!(response[..2], request[..2], "the id of another request");
        assert!(response[2] & 0x80 != 0, "it is no response");
        // A relay of attacks is who answers much to little.
        assert!(over == Transport::Stream || response.len() <= MAX_UDP, "{} bytes", response.len());
        assert!(response.len() <= usize::from(u16::MAX));
        assert!(read_message(&response).is_ok(), "what we write is well-formed");
    }
}

/// The request with a signature that is right; `None` of what cannot be read.
fn signed(request: &[u8], key: &TsigKey) -> Option<Vec<u8>> {
    let mut message = read_message(request).ok()?.message;
    key.sign(&mut message)?;
    message.to_vec().ok()
}

/// One that hosts a zone, which whoever has the key may change.
fn a_server(key: &TsigKey) -> Server {
    let origin = Name::from_ascii("example.com.").expect("it is a name");
    let records = read_zone_text(ZONE, &origin).expect("it is a zone");
    let zone = Zone::new(&origin, records).expect("it is a zone");
    let role = Role::Primary { updaters: vec![key.name().clone()], signer: None };
    let access = Access { keys: vec![key.name().clone()], addresses: Vec::new() };
    let hosted = Hosted::new(&origin, role, access, Vec::new());
    hosted.serve(zone, 1_700_000_000).expect("it can be served");
    let store = Store::in_memory().expect("there is memory");
    Server::new(Contents::new([Arc::new(hosted)], vec![key.clone()]), Arc::new(store), Vec::new())
}

const KEY: &str = "hmac-sha256:updater:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

const ZONE: &[u8] = b"@ 300 IN SOA ns admin 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n\
    *.wild TXT \"anything\"\nalias CNAME www\nsub NS ns.sub\nns.sub A 192.0.2.3\n";

/// The largest response in a datagram, whatever the other side says that it takes.
const MAX_UDP: usize = 1232;

/// So that an execution ends.
const MAX_REQUESTS: usize = 16;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().build().expect("there are descriptors");
}
