//! The engine of a relay, without a socket: a session, a datagram through it, and what becomes of a forged one.
//!
//! ```sh
//! cargo run -p psmc-core --example relay
//! ```

#![expect(clippy::unwrap_used, reason = "an example shows what happens when all goes well")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::relay::{Account, Address, Leg, Limiter, Relay, RelayConfig, SessionSpec};
use psmc_wire::PacketNumber;
use psmc_wire::datagram::Marks;
use psmc_wire::hop::{HOP_HEADER_LEN, write_hop_header};
use psmc_wire::ids::KeyBytes;

fn main() {
    // The engine has no clock: whoever drives it says what time it is.
    let now = Instant::now();
    let mut relay = Relay::new(&RelayConfig {
        max_sessions: 16,
        max_waiting: 1000,
        idle: Duration::from_secs(60),
        worker: (0, 1),
        total: Arc::new(Limiter::new(None)),
        seed: 1,
        origin: now,
    });

    // A site, known by its public key, may have 10 sessions. It reserves one of 20 Mb/s to another site.
    let account = Arc::new(Account::new(KeyBytes([1; 32]), 10, None));
    let other_site = Address::of("192.0.2.2:5115".parse().unwrap());
    let spec = SessionSpec {
        ticket: account.take_session().unwrap(),
        rate: Some(20_000_000),
        address: Some(other_site),
        far_site: None,
        far: Leg::Site,
        near_inside: None,
    };
    // These bytes must be unpredictable in a real relay: labels and keys are made of them.
    let mut counter = 0;
    let random = || {
        counter += 1;
        [counter; 32]
    };
    let session = relay.add(spec, random, now).unwrap();

    // The site's datagram carries the label of the near end, and a tag, made with a key that only the site and the relay know, over
    // the beginning of what follows. That is sealed from end to end; the relay cannot read it.
    let site = Address::of("198.51.100.1:1000".parse().unwrap());
    let mut datagram = vec![0x50; HOP_HEADER_LEN + 100];
    write_hop_header(&mut datagram, &session.near, PacketNumber(0), Marks::default());
    let (mut forged, mut replayed) = (datagram.clone(), datagram.clone());
    let (to, bytes) = relay.handle_datagram(&mut datagram, site, now).unwrap();
    println!("{} bytes go to the other site", bytes.len());
    assert!(to == other_site && bytes.len() == 100);

    // Neither the same again nor one that was changed on the way goes any further.
    assert!(relay.handle_datagram(&mut replayed, site, now).is_none());
    write_hop_header(&mut forged, &session.near, PacketNumber(1), Marks::default());
    forged[HOP_HEADER_LEN + 4] ^= 1;
    assert!(relay.handle_datagram(&mut forged, site, now).is_none());
    println!("refused: {} replayed, {} forged", relay.refusals.replayed, relay.refusals.forged);
    assert_eq!((relay.refusals.replayed, relay.refusals.forged), (1, 1));

    // A session that nobody uses is forgotten.
    relay.handle_timeout(now + Duration::from_secs(61));
    assert_eq!(relay.sessions(now).count(), 0);
}

#[test]
fn it_runs() {
    main();
}
