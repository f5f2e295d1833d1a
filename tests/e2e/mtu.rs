//! Links whose MTUs differ, and change: no packet is too large for the tunnel.

use std::time::Duration;

use psmc_api::PathStatus;
use psmc_testbed::stalls::{StallWatch, Stalls};

use crate::harness::{
    Bulk, Family, Plan, Site, Tunnel, VAN, download, iperf, path_name, udp_arrives, wait_for,
};
use psmc_testbed::steadily::{Measured, steadily};

/// The longest time without a byte over TCP when a link becomes narrow.
const MAX_GAP: Duration = Duration::from_secs(1);

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// By how much the size that is found may be above the link's: the kernel's own links leave room for a VLAN tag.
const RECKONED: u16 = 4;

/// The largest inner packet that a datagram over IPv4 has room for on a link of 1500 bytes.
const WHOLE: u16 = 1433;

/// What the narrow link carries.
const NARROW: u16 = 1300;

/// What a shaped link carries, in Mbit/s.
const MBIT: u64 = 40;

#[test]
fn packets_larger_than_a_link_pass_and_both_links_carry_them() {
    steadily(Measured::Loss, || {
        let tunnel = with_a_narrow_link(Plan { clamp_mss: Some("off"), ..plan() });
        let inside = tunnel.hq.inner(Family::V4);
        // A full-size packet of the tunnel, whose MTU is 1400 as long as a path has room for no more.
        are_answered(&tunnel, 1372);
        udp_arrives(&tunnel.van, (&tunnel.hq, inside), 1372, 0.1);
        let before = sent(&tunnel);
        for (from, to) in [(&tunnel.van, &tunnel.hq), (&tunnel.hq, &tunnel.van)] {
            let bulk = Bulk::start(from, to);
            bulk.wait_for_bytes(8 << 20, PATIENCE);
            bulk.finish();
        }
        let used = sent(&tunnel).into_iter().zip(before).map(|(after, before)| after - before);
        assert!(used.clone().all(|bytes| bytes > 1 << 20), "{:?}", used.collect::<Vec<_>>());
        for site in [&tunnel.van, &tunnel.hq] {
            let parts = site.peer().parts;
            assert!(parts["split"] > 100 && parts["joined"] > 100 && parts["refused"] == 0, "{parts:?}");
            assert_eq!((parts["incomplete"], parts["mss_lowered"]), (0, 0), "{parts:?}");
        }
    });
}

#[test]
fn tcp_is_told_of_a_narrow_link_and_none_of_its_packets_is_cut() {
    let tunnel = with_a_narrow_link(plan());
    let watch = StallWatch::start().unwrap();
    for family in [Family::V4, Family::V6] {
        for (from, to) in [(&tunnel.van, &tunnel.hq), (&tunnel.hq, &tunnel.van)] {
            let report = iperf(from, to, to.inner(family), &["--time", "1"]);
            println!("{family:?} from {}: {:.1} Mbit/s", from.end.name, report.mbps());
            assert!(report.bytes() > 1 << 20, "{report:?}");
        }
    }
    download(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V4), 4 << 20);
    let stalls = watch.finish();
    for site in [&tunnel.van, &tunnel.hq] {
        let parts = site.peer().parts;
        assert!(parts["mss_lowered"] > 4, "{}: {parts:?}", site.end.name);
        assert_whole(site, stalls);
    }
}

#[test]
fn tcp_goes_on_when_a_link_becomes_narrow() {
    steadily(Measured::Time, || {
        let tunnel = Tunnel::start(plan());
        wait_for("the size of the links", PATIENCE, || (mtu(&tunnel, 1) == 1500).then_some(()));
        let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
        bulk.wait_for_bytes(4 << 20, PATIENCE);
        for (link, narrow) in [(1, 1300), (2, 1300), (1, 1280)] {
            set_mtu(&tunnel, link, narrow);
            let gap = bulk.longest_gap_in(Duration::from_secs(2), PATIENCE);
            println!("link {link} carries {narrow} bytes: {gap:?} without a byte");
            assert!(gap < MAX_GAP, "link {link} carries {narrow} bytes: {gap:?}");
            wait_for("the link's new size", PATIENCE, || {
                (mtu(&tunnel, link) <= narrow + RECKONED).then_some(())
            });
        }
        bulk.finish();
    });
}

#[test]
fn the_interface_takes_what_every_path_carries_whole() {
    let tunnel = Tunnel::start(Plan::default());
    for site in [&tunnel.van, &tunnel.hq] {
        wait_for("an interface fitted to its paths", PATIENCE, || (inner_mtu(site) == WHOLE).then_some(()));
    }
    let watch = StallWatch::start().unwrap();
    are_answered(&tunnel, 1405);
    assert_whole(&tunnel.van, watch.finish());
}

/// Pings the headquarters with so many bytes, none of which may be cut on the way, until it has answered twenty times. What is
/// lost is counted otherwise, see [`Tunnel::ping`].
fn are_answered(tunnel: &Tunnel, bytes: u16) {
    let (inside, bytes) = (tunnel.hq.inner(Family::V4).to_string(), bytes.to_string());
    tunnel.van.run(&["ping", "-c", "20", "-i", "0.02", "-w", "10", "-M", "do", "-s", &bytes, &inside]);
}

/// Asserts that a site has cut no packet, but for those of the round trips after its paths fell silent with the machine: that
/// looks like a path that has become narrow (RFC 8899 §4.3), until a probe has shown that it has not.
fn assert_whole(site: &Site, stalls: Stalls) {
    let peer = site.peer();
    let (split, all) = (peer.parts["split"] as f64, peer.tx_packets as f64);
    assert!(split <= stalls.share * all, "{} cut {split} of {all} packets; {stalls:?}", site.end.name);
}

/// The MTU of a site's interface.
fn inner_mtu(site: &Site) -> u16 {
    let link = site.run(&["ip", "-oneline", "link", "show", "psmc0"]);
    let words: Vec<_> = link.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "mtu").unwrap();
    words[at + 1].parse().unwrap()
}

/// A tunnel whose first link carries less than a full-size packet, when that is found out.
fn with_a_narrow_link(plan: Plan) -> Tunnel {
    let mut tunnel = Tunnel::prepare(plan);
    set_mtu(&tunnel, 1, NARROW);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    wait_for("the sizes of the links", PATIENCE, || {
        [&tunnel.van, &tunnel.hq].into_iter().all(are_sizes_found).then_some(())
    });
    tunnel
}

/// Whether a site knows that the first link carries a little more than any link has to, and the second all there is.
fn are_sizes_found(site: &Site) -> bool {
    let paths = site.peer().paths;
    matches!(paths[..], [PathStatus { mtu: 1281.., .. }, PathStatus { mtu: 1500, .. }])
}

fn plan() -> Plan {
    Plan { scheduler: "wrr", mbit: Some(MBIT), ..Plan::default() }
}

/// Makes the headquarters' interface take no longer packets, and drop those that come: for the van, the narrow place is
/// somewhere on the way. Batches are cut in front of the link, as they are in front of a real one.
fn set_mtu(tunnel: &Tunnel, link: u8, mtu: u16) {
    let (van, hq) = (tunnel.van.end.link(link), tunnel.hq.end.link(link));
    tunnel.van.namespace.disable_offloads(&van).unwrap();
    tunnel.hq.namespace.set_mtu(&hq, mtu.into()).unwrap();
}

/// What the van knows its path over a link to carry.
fn mtu(tunnel: &Tunnel, link: u8) -> u16 {
    tunnel.van.path(&path_name(VAN, link)).map_or(0, |path| path.mtu)
}

/// The bytes that the van has sent on each path.
fn sent(tunnel: &Tunnel) -> Vec<u64> {
    tunnel.van.peer().paths.iter().map(|path| path.tx_bytes).collect()
}
