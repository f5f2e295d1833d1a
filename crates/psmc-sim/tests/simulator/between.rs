//! A site between two others: what it cannot carry on is held down where it enters.

use psmc_core::police::PoliceConfig;
use psmc_sim::{Identity, LinkId, PathSetup, PeerSetup, SiteId, TrafficId, TrafficKind};

use crate::world::{Lab, bulk, direction, ms, net, path_config, secs, site_setup};

/// The addresses in the tunnels.
const VAN: &str = "10.77.0.1";
const HQ: &str = "10.77.0.2";
const BRANCH: &str = "10.77.1.2";

/// A van and a branch that know only headquarters, which has 10 Mb/s to the one and 1 Mb/s to the other. The van sends TCP to
/// headquarters, and a flood to the branch.
struct Row {
    lab: Lab,
    van: SiteId,
    hq: SiteId,
    links: [LinkId; 2],
    tcp: TrafficId,
    flood: TrafficId,
}

impl Row {
    /// `polices` says of the van and of headquarters whether they hold flows down.
    fn start(polices: [bool; 2]) -> Self {
        let mut lab = Lab::new(1);
        let [van, hq, branch] = [(); 3].map(|()| lab.world.add_host());
        let (wide, narrow) = (direction(10, ms(10), 64), direction(1, ms(5), 64));
        let links = [
            lab.link([(van, "10.1.0.1/24"), (hq, "10.1.0.2/24")], [wide.clone(), wide]),
            lab.link([(hq, "10.2.0.1/24"), (branch, "10.2.0.2/24")], [narrow.clone(), narrow]),
        ];
        lab.world.set_forwarding(hq);
        let mut of_van = site_setup([van, hq], &links[..1], 0, 0);
        let mut of_hq = site_setup([van, hq], &links[..1], 0, 1);
        let mut of_branch = site_setup([hq, branch], &links[1..], 1, 1);
        of_van.peers[0].config.allowed_ips.push(net(&format!("{BRANCH}/32")));
        let to_branch = site_setup([hq, branch], &links[1..], 1, 0).peers.remove(0);
        let paths = vec![PathSetup { config: path_config(1), link: Some(links[1]), address: None }];
        of_hq.peers.push(PeerSetup { paths, ..to_branch });
        of_branch.peers[0].identity = Identity(1);
        of_branch.peers[0].config.allowed_ips = [VAN, HQ].map(|address| net(&format!("{address}/32"))).into();
        let sites = [of_van, of_hq, of_branch].map(|setup| lab.world.add_site(setup));
        for site in sites {
            lab.world.start_site(site).expect("a good setup");
        }
        for (site, _) in sites.into_iter().zip(polices).filter(|(_, is_on)| *is_on) {
            lab.world.set_police(site, PoliceConfig::default());
        }
        let tcp = lab.traffic(bulk(), van, hq, HQ, [secs(1), secs(100)]);
        let udp = TrafficKind::Udp { rate: 5_000_000, payload: 1000 };
        let flood = lab.traffic(udp, van, branch, BRANCH, [secs(1), secs(60)]);
        Self { lab, van: sites[0], hq: sites[1], links, tcp, flood }
    }

    /// Megabits per second of TCP and of the flood from 20 to 40 s, and what the wide link has carried.
    fn rates(&mut self) -> [f64; 3] {
        self.lab.run_for(secs(20));
        let before = [self.tcp, self.flood].map(|traffic| self.lab.tally(traffic).bytes);
        let carried = |lab: &Lab| lab.world.link_counters(self.links[0])[0].carried_bytes;
        let carried_before = carried(&self.lab);
        self.lab.run_for(secs(20));
        let after = [self.tcp, self.flood].map(|traffic| self.lab.tally(traffic).bytes);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 20e6;
        [mbps(after[0] - before[0]), mbps(after[1] - before[1]), mbps(carried(&self.lab) - carried_before)]
    }

    fn is_held_by(&self, site: SiteId) -> bool {
        // Of the peers of headquarters the branch is the second.
        let peer = usize::from(site == self.hq);
        let status = self.lab.world.site_status(site, peer).expect("it runs");
        status.police.is_some_and(|police| police.held > 0)
    }
}

#[test]
fn a_flood_is_held_down_where_it_enters_if_both_sites_do_so() {
    for polices in [[false, true], [true, false], [true, true]] {
        let mut row = Row::start(polices);
        let [tcp, flood, carried] = row.rates();
        println!("{polices:?}: TCP {tcp:.2} Mb/s, flood {flood:.2} Mb/s, carried {carried:.2} Mb/s");
        // Headers are a tenth of the flood, and 7 % of TCP.
        assert!((0.8..0.95).contains(&flood), "{flood}");
        let is_held = polices[0] && polices[1];
        assert_eq!(row.is_held_by(row.van), is_held);
        if is_held {
            assert!(tcp > 0.85 * 9.0, "{tcp}");
            // It is let go once it ends.
            row.lab.run_for(secs(30));
            assert!(!row.is_held_by(row.van) && !row.is_held_by(row.hq));
        } else {
            assert!(tcp < 6.0, "{tcp}: 5 Mb/s are carried for nothing");
        }
    }
}
