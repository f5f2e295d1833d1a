//! What arrives over links that lose datagrams.

use std::time::Duration;

use crate::harness::{Plan, Stream, Tunnel, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn losses_of_both_links_are_made_good_in_the_way_of_the_class() {
    steadily(Measured::Loss, || {
        let classes =
            |repair| format!("\n[[class]]\nname = \"calls\"\nprotocol = [\"udp\"]\nrepair = \"{repair}\"\n");
        for (repair, counter) in [("duplicate", "tx_copies"), ("fec", "tx_repairs")] {
            let classes: &'static str = classes(repair).leak();
            let tunnel = Tunnel::start(Plan { classes, ..Plan::default() });
            for link in 1..=tunnel.plan.links {
                // What leaves in one piece would be lost in one piece; on a wire it is not.
                tunnel.van.run(&["ip", "link", "set", &tunnel.van.end.link(link), "gso_max_segs", "1"]);
            }
            // One datagram in fifty, on each link.
            let rule = "udp dport 5115 numgen random mod 50 < 1 drop";
            tunnel.hq.run(&[
                "nft",
                &format!(
                    "table inet fault {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}"
                ),
            ]);
            let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(1));
            wait_for("hundred losses", PATIENCE, || {
                let lost: u64 = tunnel.van.peer().paths.iter().map(|path| path.lost_packets).sum();
                (lost > 100).then_some(())
            });
            let deliveries = stream.finish();
            let counters = [&tunnel.van, &tunnel.hq].map(|site| site.peer().repair);
            let (lost, sent) = (deliveries.lost().len(), deliveries.sent());
            println!("{repair}: {lost} of {sent} lost, {counters:?}");
            // A fifth of what the links lose; those on the links are random.
            assert!(lost * 250 < sent, "{repair}: {lost} of {sent} lost, {counters:?}");
            assert_eq!(deliveries.duplicates(), 0);
            assert!(counters[0][counter] > 100, "{counters:?}");
        }
    });
}
