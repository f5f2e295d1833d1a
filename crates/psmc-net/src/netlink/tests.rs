//! Links, addresses and routes of real namespaces.

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::netns::{Namespace, NetnsError, link_pair};

/// Two namespaces with links `a1`–`b1` and `a2`–`b2`, of which the first is looked at.
fn pair() -> (Namespace, Namespace) {
    let new = || Namespace::new().expect("this test needs root, for it makes network namespaces");
    let (a, b) = (new(), new());
    for number in 1..=2 {
        link_pair(&a, &format!("a{number}"), &b, &format!("b{number}")).unwrap();
        a.add_address(&format!("a{number}"), net(&format!("10.0.{number}.1/24"))).unwrap();
    }
    (a, b)
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

async fn next(events: &mut LinkEvents) -> NetworkEvent {
    timeout(Duration::from_secs(5), events.next()).await.expect("no event came").unwrap()
}

/// The next event that is about the link called `name`.
async fn next_of(events: &mut LinkEvents, name: &str) -> LinkState {
    loop {
        match next(events).await {
            NetworkEvent::Link(state) if state.name == name => return state,
            NetworkEvent::Link(_) | NetworkEvent::AddressChanged { .. } => {}
        }
    }
}

#[test]
fn links_are_looked_up() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let index = netlink.link_index("a1").await.unwrap();
        assert_eq!(netlink.link_mtu("a1").await.unwrap(), 1500);
        netlink.set_mtu(index, 1400).await.unwrap();
        assert_eq!(netlink.link_mtu("a1").await.unwrap(), 1400);
        assert!(netlink.addresses(index).await.unwrap().contains(&net("10.0.1.1/24")));
        let error = netlink.link_index("nowhere").await.unwrap_err();
        assert!(matches!(error, NetlinkError::NoSuchLink { name } if name == "nowhere"));
    })
    .unwrap();
}

#[test]
fn routes_come_and_go() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let index = netlink.link_index("a1").await.unwrap();
        for destination in ["192.0.2.0/24", "2001:db8::/32"].map(net) {
            netlink.add_route(destination, index).await.unwrap();
            let error = netlink.add_route(destination, index).await.unwrap_err();
            assert!(matches!(error, NetlinkError::Refused { .. }), "{error}");
            netlink.remove_route(destination, index).await.unwrap();
            netlink.remove_route(destination, index).await.unwrap();
            netlink.add_route(destination, index).await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn uplinks_are_those_with_a_default_route_the_best_first() {
    let (a, b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), []);
        let (first, second) =
            (netlink.link_index("a1").await.unwrap(), netlink.link_index("a2").await.unwrap());
        netlink.add_route(net("::/0"), first).await.unwrap();
        netlink.add_gateway_route(net("0.0.0.0/0"), "10.0.2.9".parse().unwrap(), None).await.unwrap();
        let v4 = Uplink { name: "a2".into(), index: second, v4: true, v6: false, metric: 0 };
        let v6 = Uplink { name: "a1".into(), index: first, v4: false, v6: true, metric: 1024 };
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), [v4.clone(), v6]);
        assert_eq!(netlink.uplinks(&[first]).await.unwrap(), std::slice::from_ref(&v4));
        // A link without a carrier is no uplink, though its routes stay.
        b.set_link("b1", false).unwrap();
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), [v4]);
    })
    .unwrap();
}

#[test]
fn a_link_is_seen_to_go_down_and_up() {
    let (a, b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        for up in [false, true, false] {
            a.set_link("a1", up).unwrap();
            assert_eq!(next_of(&mut events, "a1").await.up, up);
        }
        // The far end takes the carrier away.
        b.set_link("b2", false).unwrap();
        assert!(!next_of(&mut events, "a2").await.up);
    })
    .unwrap();
}

#[test]
fn links_and_addresses_are_seen_to_appear() -> Result<(), NetnsError> {
    let (a, b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        link_pair(&a, "a3", &b, "b3").unwrap();
        let state = next_of(&mut events, "a3").await;
        a.add_address("a3", net("10.0.3.1/24")).unwrap();
        while next(&mut events).await != (NetworkEvent::AddressChanged { index: state.index }) {}
    })
    .map_err(NetnsError::Runtime)
}

#[test]
fn what_happens_while_nobody_listens_is_found_out() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        // While this thread is busy the socket's buffer overflows.
        for _ in 0..300 {
            a.set_link("a2", false).unwrap();
            a.set_link("a2", true).unwrap();
        }
        a.set_link("a1", false).unwrap();
        while next_of(&mut events, "a1").await.up {}
    })
    .unwrap();
}
