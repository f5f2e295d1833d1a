//! What `psmc demo` does for an ordinary user: a user namespace, in it network namespaces, a link
//! between them and a TUN device.
//!
//! Without the test harness, whose threads would keep the process from entering a user namespace.

#![expect(clippy::unwrap_used, reason = "this is a test, though not one that clippy recognises")]

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::prctl::set_dumpable;
use nix::unistd::{Gid, Uid, getuid, setgid, setgroups, setuid};
use psmc_net::tun::{Tun, TunConfig};
use psmc_testbed::netns::{Namespace, enter_user_namespace, is_privileged, link_pair};

const NOBODY: u32 = 65534;

fn main() {
    become_ordinary();
    assert!(!is_privileged());
    enter_user_namespace().expect("an ordinary user must be able to enter a user namespace");
    assert!(is_privileged());

    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    link_pair(&a, "left", &b, "right").unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    b.add_address("right", "10.0.0.2/24".parse().unwrap()).unwrap();
    let server = a.run(|| UdpSocket::bind("10.0.0.1:9")).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let client = b.run(|| UdpSocket::bind("10.0.0.2:0")).unwrap();
    client.send_to(b"ping", "10.0.0.1:9").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 4);

    let config = TunConfig {
        name: None,
        mtu: 1400,
        addresses: vec!["10.9.0.1/24".parse().unwrap()],
        routes_networks: true,
    };
    let name = a.block_on(|| async { Tun::create(config).await.map(|tun| tun.name().to_owned()) });
    assert_eq!(name.unwrap().unwrap(), "psmc0");
    println!("an ordinary user has namespaces, links between them, and TUN devices in them");
}

/// Root gives up its privileges; any other user has none.
fn become_ordinary() {
    if !getuid().is_root() {
        return;
    }
    setgroups(&[]).unwrap();
    setgid(Gid::from_raw(NOBODY)).unwrap();
    setuid(Uid::from_raw(NOBODY)).unwrap();
    // A process that changed its user may not write its own files in /proc until it says so, or executes another.
    set_dumpable(true).unwrap();
}
