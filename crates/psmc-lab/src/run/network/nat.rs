//! Network address translation by nftables, as RFC 4787 names the kinds.

use crate::scenario::NatKind;

/// The rules for what leaves by the interface called `outside`, for both families, as `nft -f` reads them.
pub(super) fn rules(kind: NatKind, outside: &str) -> String {
    [("ip", "ipv4_addr"), ("ip6", "ipv6_addr")]
        .map(|(family, address)| match kind {
            NatKind::EndpointIndependent => endpoint_independent(family, address, outside),
            NatKind::Symmetric => symmetric(family, outside),
        })
        .concat()
}

/// The kernel's own translation keeps a port towards a new destination only if it happens to be free there, and knows
/// no other destination's packets. So the first packet of an inside port gets a random port outside, which two maps
/// remember: one for all further destinations (endpoint-independent mapping, section 4.1), the other for whoever sends to it
/// (endpoint-independent filtering, section 5).
fn endpoint_independent(family: &str, address: &str, outside: &str) -> String {
    let of = format!("inet_proto . {address} . inet_service : {address} . inet_service");
    let map = format!("type {of}; flags dynamic, timeout; timeout {MEMORY};");
    let remember = ["tcp", "udp"].map(|protocol| {
        let matches = format!("oifname \"{outside}\" meta l4proto {protocol} ct direction original");
        let inside = format!("ct original {family} saddr . ct original proto-src");
        let outside = format!("{family} saddr . th sport");
        format!(
            "    {matches} update @mappings {{ meta l4proto . {inside} : {outside} }}\n    \
             {matches} update @owners {{ meta l4proto . {outside} : {inside} }}\n"
        )
    });
    format!(
        r#"table {family} nat {{
  map mappings {{ {map} }}
  map owners {{ {map} }}
  chain incoming {{
    type nat hook prerouting priority dstnat;
    iifname "{outside}" dnat {family} to meta l4proto . {family} daddr . th dport map @owners
  }}
  chain outgoing {{
    type nat hook postrouting priority srcnat;
    oifname "{outside}" snat {family} to meta l4proto . {family} saddr . th sport map @mappings
    oifname "{outside}" masquerade fully-random
  }}
  chain remembered {{
    type filter hook postrouting priority 200;
{}  }}
  chain forwarded {{
    type filter hook forward priority filter;
    iifname "{outside}" ct status dnat accept
    iifname "{outside}" ct state new drop
  }}
}}
"#,
        remember.concat()
    )
}

/// Each connection gets a random port of its own (address and port-dependent mapping), and the kernel lets in only what
/// belongs to one (address and port-dependent filtering).
fn symmetric(family: &str, outside: &str) -> String {
    format!(
        r#"table {family} nat {{
  chain outgoing {{
    type nat hook postrouting priority srcnat;
    oifname "{outside}" masquerade fully-random
  }}
  chain forwarded {{
    type filter hook forward priority filter;
    iifname "{outside}" ct state new drop
  }}
}}
"#
    )
}

/// How long an unused mapping is remembered: what RFC 4787 recommends (REQ-5).
const MEMORY: &str = "5m";
