//! Which packets are wanted, in words that people know from tcpdump: a few of them.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use psmc_api::PacketSpec;
use psmcd::config::ValueError;

/// Protocols by their names, with IANA's numbers.
const PROTOCOLS: [(&str, &[u8]); 3] = [("icmp", &[1, 58]), ("tcp", &[6]), ("udp", &[17])];

/// What a packet has to be: one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) packets: Vec<PacketSpec>,
}

impl FromStr for Filter {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = |what: &str| {
            let remedy = "join these by `and`: host ADDRESS, net NETWORK, port NUMBER, icmp, tcp, udp";
            ValueError::new(format!("{what:?} is no filter"), remedy)
        };
        let (mut spec, mut networks) = (PacketSpec::default(), Vec::new());
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let protocol = PROTOCOLS.iter().find(|(name, _)| *name == word);
            let mut value = || words.next().ok_or_else(|| wrong(text));
            match (word, protocol) {
                (_, Some((_, numbers))) if spec.protocols.is_empty() => spec.protocols = numbers.to_vec(),
                ("port", _) if spec.port.is_none() => {
                    let value = value()?;
                    spec.port = Some(value.parse().map_err(|_| wrong(value))?);
                }
                ("host", _) => {
                    let value = value()?;
                    networks.push(IpNet::from(value.parse::<IpAddr>().map_err(|_| wrong(value))?));
                }
                ("net", _) => {
                    let value = value()?;
                    networks.push(value.parse::<IpNet>().map_err(|_| wrong(value))?);
                }
                _ => return Err(wrong(text)),
            }
            if words.peek().is_some() && (words.next() != Some("and") || words.peek().is_none()) {
                return Err(wrong(text));
            }
        }
        Ok(Self { packets: directions(spec, &networks).ok_or_else(|| wrong(text))? })
    }
}

/// The same in both directions between networks, of which there are two at most.
fn directions(spec: PacketSpec, networks: &[IpNet]) -> Option<Vec<PacketSpec>> {
    let text = |net: Option<&IpNet>| net.map(ToString::to_string);
    let between = |from, to| PacketSpec { from: text(from), to: text(to), ..spec.clone() };
    match networks {
        [] if spec == PacketSpec::default() => Some(Vec::new()),
        [] => Some(vec![spec]),
        [one] => Some(vec![between(Some(one), None), between(None, Some(one))]),
        [one, other] => Some(vec![between(Some(one), Some(other)), between(Some(other), Some(one))]),
        [_, _, _, ..] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(text: &str) -> Vec<PacketSpec> {
        text.parse::<Filter>().unwrap().packets
    }

    #[test]
    fn words_say_what_a_packet_is() {
        let any = PacketSpec::default();
        assert_eq!(packets(""), []);
        assert_eq!(packets("icmp"), [PacketSpec { protocols: vec![1, 58], ..any.clone() }]);
        let dns = PacketSpec { protocols: vec![17], port: Some(53), ..any.clone() };
        assert_eq!(packets("udp and port 53"), std::slice::from_ref(&dns));
        let [host, net] = ["10.77.0.1/32", "fd77::/64"].map(|net| Some(net.to_owned()));
        let from = PacketSpec { from: host.clone(), ..dns.clone() };
        let to = PacketSpec { to: host.clone(), ..dns };
        assert_eq!(packets("host 10.77.0.1 and udp and port 53"), [from, to]);
        let there = PacketSpec { from: host.clone(), to: net.clone(), ..any.clone() };
        let back = PacketSpec { from: net, to: host, ..any };
        assert_eq!(packets("host 10.77.0.1 and net fd77::/64"), [there, back]);
    }

    #[test]
    fn other_words_are_refused() {
        for wrong in [
            "sctp",
            "port",
            "port x",
            "port 70000",
            "host example.net",
            "net 10.0.0.0",
            "tcp and",
            "and tcp",
            "tcp port 80",
            "tcp and udp",
            "host 10.0.0.1 and host 10.0.0.2 and host 10.0.0.3",
        ] {
            assert!(wrong.parse::<Filter>().is_err(), "{wrong}");
        }
    }
}
