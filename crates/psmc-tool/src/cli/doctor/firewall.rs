//! What the firewall of this machine does with a packet, worked out from what `nft -j list ruleset` prints
//! (libnftables-json(5)).
//!
//! A rule may ask for what is not known here. Such a rule is taken not to drop, and what it accepts is taken to be accepted: whoever is
//! told that a packet is dropped shall be able to rely on it.

use serde_json::Value;

/// How many chains lead to another before it is given up: more than anybody has.
const MAX_DEPTH: usize = 16;

/// Ports below this one are none that a kernel chooses for a client.
const FIRST_EPHEMERAL: u64 = 32_768;

/// A packet, as far as a firewall sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Whether it comes in; it goes out otherwise.
    pub(super) is_input: bool,
    pub(super) is_v4: bool,
    /// `udp` or `tcp`.
    pub(super) protocol: &'static str,
    /// `None` for one that the kernel has chosen.
    pub(super) from_port: Option<u16>,
    /// The same.
    pub(super) to_port: Option<u16>,
    /// Whether it is the first of its connection; an answer otherwise.
    pub(super) is_first: bool,
}

/// That a packet is dropped, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) packet: Packet,
    /// The chain, and the rule in it.
    pub(super) by: String,
}

/// What a chain does with a packet.
enum Verdict {
    Drops(String),
    Accepts,
    /// It asks for what is not known.
    Unsure,
    /// The next rule of the chain from which it was called decides.
    Returns,
}

/// What a part of a rule says of a packet; nothing if it is not known.
type Match = Option<bool>;

/// The rules of a machine.
#[derive(Debug)]
pub(super) struct Ruleset {
    chains: Vec<Value>,
    rules: Vec<Value>,
}

impl Ruleset {
    /// Reads what nft prints; `None` if that is something else.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let all: Value = serde_json::from_slice(text).ok()?;
        let all = all.get("nftables")?.as_array()?;
        let of = |kind: &str| all.iter().filter_map(|it| it.get(kind)).cloned().collect();
        Some(Self { chains: of("chain"), rules: of("rule") })
    }

    /// Where this packet is dropped, if it is.
    pub(super) fn drops(&self, packet: &Packet) -> Option<Dropped> {
        let hooks = if packet.is_input { ["prerouting", "input"] } else { ["output", "postrouting"] };
        let families = ["inet", if packet.is_v4 { "ip" } else { "ip6" }];
        let counts = |chain: &&Value| {
            hooks.contains(&text(chain, "hook"))
                && families.contains(&text(chain, "family"))
                && text(chain, "type") == "filter"
        };
        self.chains.iter().filter(counts).find_map(|chain| match self.verdict(chain, packet, 0) {
            Verdict::Drops(by) => Some(Dropped { packet: *packet, by }),
            Verdict::Returns if text(chain, "policy") == "drop" => Some(Dropped {
                packet: *packet,
                by: format!("the policy of {}, and no rule that accepts it", name(chain)),
            }),
            Verdict::Returns | Verdict::Accepts | Verdict::Unsure => None,
        })
    }

    fn verdict(&self, chain: &Value, packet: &Packet, depth: usize) -> Verdict {
        if depth > MAX_DEPTH {
            return Verdict::Unsure;
        }
        let same = |rule: &&Value| {
            ["family", "table"].iter().all(|key| rule.get(key) == chain.get(key))
                && rule.get("chain") == chain.get("name")
        };
        for rule in self.rules.iter().filter(same) {
            let parts = rule.get("expr").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let applies =
                all_of(parts.iter().filter_map(|part| part.get("match")).map(|it| matches(it, packet)));
            if applies == Some(false) {
                continue;
            }
            match self.effect(parts, (chain, rule), packet, depth) {
                Some(verdict @ Verdict::Drops(_)) if applies == Some(true) => return verdict,
                // It is for other packets, as far as can be told.
                Some(Verdict::Drops(_)) | None => {}
                Some(Verdict::Returns) => return Verdict::Returns,
                Some(Verdict::Accepts) if applies == Some(true) => return Verdict::Accepts,
                Some(Verdict::Accepts | Verdict::Unsure) => return Verdict::Unsure,
            }
        }
        Verdict::Returns
    }

    /// What a rule does with a packet to which it applies; `None` if the next rule decides.
    fn effect(
        &self,
        parts: &[Value],
        (chain, rule): (&Value, &Value),
        packet: &Packet,
        depth: usize,
    ) -> Option<Verdict> {
        let drops = |parts: &[Value]| {
            let count = parts.iter().find_map(|part| part.get("counter")?.get("packets")?.as_u64());
            let count = count.map_or_else(String::new, |count| format!(", {count} packets so far"));
            let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or_default();
            Verdict::Drops(format!("the rule with handle {handle} in {}{count}", name(chain)))
        };
        for part in parts {
            let has = |key: &str| part.get(key).is_some();
            if has("drop") || has("reject") {
                return Some(drops(parts));
            }
            if has("accept") {
                return Some(Verdict::Accepts);
            }
            if has("return") {
                return Some(Verdict::Returns);
            }
            if let Some(target) = part.get("jump").or_else(|| part.get("goto")) {
                let verdict = self.verdict(&self.called(chain, target)?, packet, depth + 1);
                let goes_on = matches!(verdict, Verdict::Returns) && has("jump");
                return if goes_on { None } else { Some(verdict) };
            }
            if let Some(map) = part.get("vmap") {
                match of_state_map(map, packet) {
                    Some(Some("drop")) => return Some(drops(parts)),
                    Some(Some("accept")) => return Some(Verdict::Accepts),
                    Some(None) => {}
                    Some(Some(_)) | None => return Some(Verdict::Unsure),
                }
            }
        }
        None
    }

    fn called(&self, from: &Value, target: &Value) -> Option<Value> {
        let called = target.get("target");
        let same = |chain: &&Value| {
            ["family", "table"].iter().all(|key| chain.get(key) == from.get(key))
                && chain.get("name") == called
        };
        self.chains.iter().find(same).cloned()
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn name(chain: &Value) -> String {
    format!("the chain {} of table {} {}", text(chain, "name"), text(chain, "family"), text(chain, "table"))
}

/// Whether all are so: not if one is not, and unknown if one is.
fn all_of(parts: impl Iterator<Item = Match>) -> Match {
    let mut all = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            None => all = None,
            Some(true) => {}
        }
    }
    all
}

fn matches(condition: &Value, packet: &Packet) -> Match {
    let (left, right) = (condition.get("left")?, condition.get("right")?);
    let is_equal = compare(left, right, packet)?;
    match text(condition, "op") {
        "==" | "in" => Some(is_equal),
        "!=" => Some(!is_equal),
        _ => None,
    }
}

fn compare(left: &Value, right: &Value, packet: &Packet) -> Match {
    if let Some(payload) = left.get("payload") {
        return of_header(text(payload, "protocol"), text(payload, "field"), right, packet);
    }
    if let Some(meta) = left.get("meta") {
        return match text(meta, "key") {
            "l4proto" => Some(has_word(right, packet.protocol)),
            "nfproto" => Some(has_word(right, if packet.is_v4 { "ipv4" } else { "ipv6" })),
            // What matters comes by no loopback.
            "iif" | "iifname" | "oif" | "oifname" if right.as_str() == Some("lo") => Some(false),
            _ => None,
        };
    }
    if text(left.get("ct")?, "key") == "state" { Some(has_word(right, state_of(packet))) } else { None }
}

fn of_header(protocol: &str, field: &str, right: &Value, packet: &Packet) -> Match {
    match (protocol, field) {
        ("udp" | "tcp" | "th", "dport" | "sport") => {
            if protocol != "th" && protocol != packet.protocol {
                return Some(false);
            }
            has_port(right, if field == "dport" { packet.to_port } else { packet.from_port })
        }
        ("ip", "protocol") | ("ip6", "nexthdr") => Some(has_word(right, packet.protocol)),
        ("ip", _) if !packet.is_v4 => Some(false),
        ("ip6", _) if packet.is_v4 => Some(false),
        ("icmp" | "icmpv6" | "sctp" | "dccp" | "esp" | "ah" | "igmp", _) => Some(false),
        (_, _) => None,
    }
}

fn state_of(packet: &Packet) -> &'static str {
    if packet.is_first { "new" } else { "established" }
}

/// What a map of the states of connections says of this one; `None` if it is another map.
fn of_state_map<'a>(map: &'a Value, packet: &Packet) -> Option<Option<&'a str>> {
    if text(map.get("key")?.get("ct")?, "key") != "state" {
        return None;
    }
    let pairs = map.get("data")?.get("set")?.as_array()?;
    let is_it = |pair: &&Value| pair.get(0).is_some_and(|state| has_word(state, state_of(packet)));
    let verdict = pairs.iter().find(is_it).and_then(|pair| pair.get(1)?.as_object()?.keys().next());
    Some(verdict.map(String::as_str))
}

/// The values of a set or list, or the only one.
fn values(right: &Value) -> &[Value] {
    let listed = right.get("set").unwrap_or(right);
    listed.as_array().map_or_else(|| std::slice::from_ref(listed), Vec::as_slice)
}

fn has_word(right: &Value, word: &str) -> bool {
    values(right).iter().any(|value| value.as_str() == Some(word))
}

fn has_port(right: &Value, port: Option<u16>) -> Match {
    let mut is_among = Some(false);
    for value in values(right) {
        let range =
            value.get("range").and_then(|range| Some((range.get(0)?.as_u64()?, range.get(1)?.as_u64()?)));
        let (first, last) = range.or_else(|| value.as_u64().map(|one| (one, one)))?;
        match port.map(u64::from) {
            Some(port) if (first..=last).contains(&port) => return Some(true),
            None if last >= FIRST_EPHEMERAL => is_among = None,
            Some(_) | None => {}
        }
    }
    is_among
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Packet = Packet {
        is_input: true,
        is_v4: true,
        protocol: "udp",
        from_port: None,
        to_port: Some(5115),
        is_first: true,
    };

    fn chain(name: &str, hook: &str, policy: &str) -> String {
        let base = if hook.is_empty() {
            String::new()
        } else {
            format!(r#","type":"filter","hook":"{hook}","prio":0,"policy":"{policy}""#)
        };
        format!(r#"{{"chain":{{"family":"inet","table":"filter","name":"{name}"{base}}}}}"#)
    }

    fn rule(chain: &str, parts: &str) -> String {
        format!(
            r#"{{"rule":{{"family":"inet","table":"filter","chain":"{chain}","handle":7,"expr":[{parts}]}}}}"#
        )
    }

    fn port(protocol: &str, port: &str) -> String {
        format!(
            r#"{{"match":{{"op":"==","left":{{"payload":{{"protocol":"{protocol}","field":"dport"}}}},"right":{port}}}}}"#
        )
    }

    fn drops(all: &[String], packet: &Packet) -> Option<String> {
        let text = format!(r#"{{"nftables":[{{"metainfo":{{}}}},{}]}}"#, all.join(","));
        Ruleset::parse(text.as_bytes()).unwrap().drops(packet).map(|dropped| dropped.by)
    }

    #[test]
    fn a_rule_that_drops_the_port_is_named_with_its_count() {
        let counted = r#",{"counter":{"packets":12,"bytes":600}},{"drop":null}"#;
        let all =
            |right: &str| vec![chain("in", "input", "accept"), rule("in", &(port("udp", right) + counted))];
        for right in
            ["5115", r#"{"set":[53,5115]}"#, r#"{"set":[{"range":[5000,6000]}]}"#, r#"{"range":[1,5115]}"#]
        {
            let said = drops(&all(right), &CALL).unwrap();
            assert_eq!(
                said, "the rule with handle 7 in the chain in of table inet filter, 12 packets so far",
                "{right}"
            );
        }
        assert_eq!(drops(&all("5116"), &CALL), None);
        assert_eq!(drops(&all("5115"), &Packet { protocol: "tcp", ..CALL }), None);
        assert_eq!(drops(&all("5115"), &Packet { is_input: false, ..CALL }), None);
    }

    #[test]
    fn a_policy_drops_what_no_rule_accepts() {
        let lo = r#"{"match":{"op":"==","left":{"meta":{"key":"iifname"}},"right":"lo"}},{"accept":null}"#;
        let answers = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["established",{"accept":null}],["invalid",{"drop":null}]]}}}"#;
        let mut all = vec![chain("in", "input", "drop"), rule("in", lo), rule("in", answers)];
        assert!(drops(&all, &CALL).unwrap().starts_with("the policy of the chain in"));
        let answer = Packet { is_first: false, from_port: Some(5115), to_port: None, ..CALL };
        assert_eq!(drops(&all, &answer), None);
        all.push(rule("in", &(port("th", "5115") + r#",{"accept":null}"#)));
        assert_eq!(drops(&all, &CALL), None);
    }

    #[test]
    fn chains_that_are_called_decide_and_what_is_not_known_accuses_nobody() {
        let accept_from = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"192.0.2.1"}},{"accept":null}"#;
        let jump = r#"{"jump":{"target":"services"}}"#;
        let mut all = vec![
            chain("in", "input", "accept"),
            chain("services", "", ""),
            rule("in", jump),
            rule("services", &(port("udp", "5115") + r#",{"reject":{}}"#)),
        ];
        assert!(drops(&all, &CALL).unwrap().contains("chain services"));
        all.insert(2, rule("in", accept_from));
        assert_eq!(drops(&all, &CALL), None, "it may be accepted");
        assert!(drops(&all, &Packet { is_v4: false, ..CALL }).is_some());
    }
}
