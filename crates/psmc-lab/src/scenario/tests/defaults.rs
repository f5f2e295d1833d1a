//! What a file leaves out is as `docs/SCENARIOS.md` says.

use std::time::Duration;

use psmc_sim::link::{Discipline, Jitter, LinkConfig, Loss, QueueLimit, Rate};

use super::right;
use crate::scenario::{Bound, Metric, TrafficKind};

const LINK: &str = "[[link]]\nname = \"dsl\"\nbetween = [\"van\", \"hq\"]\n";

#[test]
fn an_empty_header_means_ten_seconds() {
    let scenario = right(LINK);
    assert_eq!((scenario.name.as_str(), scenario.duration), ("test", Duration::from_secs(10)));
    assert_eq!((scenario.seed, scenario.sample_interval), (1, Duration::from_millis(100)));
}

#[test]
fn a_link_without_settings_is_a_wire() {
    let link = &right(LINK).links[0];
    let wire = LinkConfig { mtu: Some(1500), ..LinkConfig::default() };
    assert_eq!(link.directions, [wire.clone(), wire]);
    assert_eq!(link.ends.each_ref().map(|end| end.addresses[0].to_string()), ["10.1.0.1/24", "10.1.0.2/24"]);
}

#[test]
fn a_queue_holds_what_is_under_way() {
    let queue =
        |settings: &str| right(&format!("{LINK}{settings}")).links[0].directions.clone().map(|one| one.queue);
    // 50 Mbit/s × 40 ms = 250 000 bytes.
    assert_eq!(queue("rate = \"50mbit\"\ndelay = \"20ms\""), [QueueLimit::Packets(167); 2]);
    assert_eq!(queue("rate = \"1mbit\"\ndelay = \"20ms\""), [QueueLimit::Packets(64); 2]);
    let asymmetric = "rate = \"50mbit\"\ndelay = \"10ms\"\n[link.back]\nrate = \"100mbit\"\ndelay = \"30ms\"";
    assert_eq!(queue(asymmetric), [QueueLimit::Packets(167), QueueLimit::Packets(334)]);
}

#[test]
fn directions_override_the_link() {
    let text = format!(
        "{LINK}rate = \"50mbit\"\nloss = \"1%\"\njitter = \"2ms\"\n\
         [link.forward]\nloss = \"2%\"\nmtu = 1400\n[link.back]\nrate = \"5mbit\"\njitter = {{ uniform = \"1ms\" }}"
    );
    let [forward, back] = right(&text).links[0].directions.clone();
    let chance = |loss| match loss {
        Loss::Random(chance) => chance.get(),
        Loss::None | Loss::GilbertElliott { .. } => panic!("{loss:?}"),
    };
    assert_eq!((forward.rate, back.rate), (Rate::Fixed(50_000_000), Rate::Fixed(5_000_000)));
    assert_eq!((chance(forward.loss), chance(back.loss)), (0.02, 0.01));
    assert_eq!((forward.mtu, back.mtu), (Some(1400), Some(1500)));
    assert_eq!(forward.jitter, Jitter::Normal(Duration::from_millis(2)));
    assert_eq!(back.jitter, Jitter::Uniform(Duration::from_millis(1)));
}

#[test]
fn red_goes_by_the_length_of_the_queue() {
    let text = format!("{LINK}rate = \"8mbit\"\nqueue = \"60ms\"\ndiscipline = \"red\"");
    let Discipline::Red { min_bytes, max_bytes, weight, ecn, .. } =
        right(&text).links[0].directions[0].discipline
    else {
        panic!("RED was asked for");
    };
    // 60 ms at 8 Mbit/s are 60 000 bytes.
    assert_eq!((min_bytes, max_bytes, weight, ecn), (10_000, 30_000, 0.002, false));
}

#[test]
fn traffic_lasts_as_long_as_the_scenario() {
    let text = format!(
        "{LINK}[[traffic]]\nkind = \"tcp\"\nfrom = \"hq\"\nto = \"van\"\n\
         [[traffic]]\nkind = \"tcp\"\nfrom = \"van\"\nto = \"hq\""
    );
    let scenario = right(&text);
    let [first, second] = scenario.traffic.as_slice() else { panic!("two streams") };
    assert_eq!((first.name.as_str(), second.name.as_str()), ("tcp", "tcp-2"));
    assert_eq!((first.start, first.stop), (Duration::ZERO, scenario.duration));
    assert_eq!(
        (first.address.to_string(), second.address.to_string()),
        ("10.1.0.1".into(), "10.1.0.2".into())
    );
    let kind =
        TrafficKind::Tcp { congestion_control: "cubic".into(), flows: 1, bytes: None, multipath: false };
    assert_eq!(first.kind, kind);
}

#[test]
fn an_only_tunnel_is_preferred_to_links() {
    let text = format!(
        "{LINK}[[tunnel]]\nname = \"vpn\"\nbetween = [\"van\", \"hq\"]\n[[traffic]]\nkind = \"ping\"\nfrom = \"van\"\nto = \"hq\""
    );
    let scenario = right(&text);
    let addresses = |end: usize| scenario.tunnels[0].ends[end].addresses.iter().map(ToString::to_string);
    assert_eq!(addresses(0).collect::<Vec<_>>(), ["10.77.0.2/24", "fd77::2/64"]);
    assert_eq!(addresses(1).collect::<Vec<_>>(), ["10.77.0.1/24", "fd77::1/64"]);
    assert_eq!(scenario.traffic[0].address.to_string(), "10.77.0.1");
    assert_eq!(scenario.tunnels[0].paths[0].endpoint.to_string(), "10.1.0.2");
}

#[test]
fn networks_that_the_file_takes_are_left_alone() {
    let text = format!(
        "{LINK}[[link]]\nname = \"lte\"\nbetween = [\"van\", \"hq\"]\naddresses = [\"10.1.0.5/24\", \"10.1.0.6/24\"]"
    );
    assert_eq!(right(&text).links[0].ends[0].addresses[0].to_string(), "10.2.0.1/24");
}

#[test]
fn bounds_are_in_the_units_of_the_results() {
    let text = format!(
        "{LINK}[[traffic]]\nname = \"p\"\nkind = \"requests\"\nfrom = \"van\"\nto = \"hq\"\n[[check]]\ntraffic = \"p\"\n\
         goodput = {{ at_least = \"1500kbit\" }}\nbytes = {{ at_most = \"1MB\" }}\nloss = {{ at_most = \"0.5%\" }}\n\
         rtt_99 = {{ between = [\"10ms\", \"1.5s\"] }}"
    );
    let checks: Vec<(Metric, Bound)> =
        right(&text).checks.iter().map(|check| (check.metric, check.bound)).collect();
    let expected = [
        (Metric::Goodput, Bound::AtLeast(1.5)),
        (Metric::Bytes, Bound::AtMost(1e6)),
        (Metric::Loss, Bound::AtMost(0.5)),
        (Metric::Rtt99, Bound::Between(10.0, 1500.0)),
    ];
    assert_eq!(checks, expected);
}
