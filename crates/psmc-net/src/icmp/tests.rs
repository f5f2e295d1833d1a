//! Errors of the kernel itself, about what was sent over loopback. Needs root.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use psmc_testbed::netns::{Namespace, link_pair};

const PATIENCE: Duration = Duration::from_secs(5);

async fn next(port: &IcmpPort) -> Vec<u8> {
    let mut buffer = [0; MAX_ERROR];
    let length = timeout(PATIENCE, poll_fn(|cx| port.poll_recv(cx, &mut buffer))).await;
    let length = length.expect("an error arrives").unwrap();
    buffer[..length].to_vec()
}

#[tokio::test]
async fn errors_arrive_and_nothing_else_does() {
    let host = Namespace::new().unwrap();
    let runtime = tokio::runtime::Handle::current();
    let (port, sender) = host.run(|| {
        let _entered = runtime.enter();
        let port = IcmpPort::open_v4().unwrap();
        let pinged = Command::new("ping").args(["-c1", "-q", "127.0.0.1"]).output();
        assert!(pinged.expect("ping is there: apt install iputils-ping").status.success());
        (port, UdpSocket::bind("127.0.0.1:0").unwrap())
    });
    // Nobody listens there. The echo, and the answer to it, would have come first.
    sender.send_to(b"hello", "127.0.0.1:9").unwrap();
    let message = next(&port).await;
    assert_eq!((message[20], message[21]), (3, 3));
    assert_eq!(message[28 + 20..28 + 22], sender.local_addr().unwrap().port().to_be_bytes());
}

#[tokio::test]
async fn routers_of_ipv6_say_what_is_too_big() {
    let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap(), Namespace::new().unwrap()];
    let [near, router, far] = &hosts;
    link_pair(near, "out", router, "in").unwrap();
    link_pair(router, "out", far, "in").unwrap();
    for (host, name, address) in [
        (near, "out", "fd00:1::1/64"),
        (router, "in", "fd00:1::2/64"),
        (router, "out", "fd00:2::1/64"),
        (far, "in", "fd00:2::2/64"),
    ] {
        host.add_address(name, address.parse().unwrap()).unwrap();
    }
    near.add_route("fd00:2::/64".parse().unwrap(), "fd00:1::2".parse().unwrap()).unwrap();
    router.run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")).unwrap();
    router.set_mtu("out", 1280).unwrap();
    let runtime = tokio::runtime::Handle::current();
    let (port, sender) = near.run(|| {
        let _entered = runtime.enter();
        (IcmpPort::open_v6().unwrap(), UdpSocket::bind("[fd00:1::1]:0").unwrap())
    });
    sender.send_to(&[0; 1400], "[fd00:2::2]:9").unwrap();
    let message = next(&port).await;
    assert_eq!((message[0], &message[4..8]), (2, &1280u32.to_be_bytes()[..]));
}
