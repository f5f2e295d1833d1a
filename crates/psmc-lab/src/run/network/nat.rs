//! Network address translation by nftables, as RFC 4787 names the kinds. For IPv4 only, like most there is.

use crate::scenario::NatKind;

/// The rules for what leaves by the interface called `outside`, as `nft -f` reads them.
pub(super) fn rules(kind: NatKind, outside: &str) -> String {
    match kind {
        NatKind::EndpointIndependent => endpoint_independent(outside),
        NatKind::Symmetric => symmetric(outside),
    }
}

/// The kernel's own translation keeps a port towards a new destination only if it happens to be free there, and knows
/// no other destination's packets. So the first packet of an inside port gets a random port outside, which two maps
/// remember: one for all further destinations (endpoint-independent mapping, section 4.1), the other for whoever sends to it
/// (endpoint-independent filtering, section 5).
fn endpoint_independent(outside: &str) -> String {
    let map = format!(
        "type inet_proto . ipv4_addr . inet_service : ipv4_addr . inet_service; \
         flags dynamic, timeout; timeout {MEMORY};"
    );
    let remember = |protocol: &str| {
        let packets = format!("oifname \"{outside}\" meta l4proto {protocol} ct direction original");
        let inside = "ct original ip saddr . ct original proto-src";
        let outside = "ip saddr . th sport";
        format!(
            "    {packets} update @mappings {{ meta l4proto . {inside} : {outside} }}\n    \
             {packets} update @owners {{ meta l4proto . {outside} : {inside} }}\n"
        )
    };
    let (tcp, udp) = (remember("tcp"), remember("udp"));
    format!(
        r#"table ip nat {{
  map mappings {{ {map} }}
  map owners {{ {map} }}
  chain incoming {{
    type nat hook prerouting priority dstnat;
    iifname "{outside}" dnat ip to meta l4proto . ip daddr . th dport map @owners
  }}
  chain outgoing {{
    type nat hook postrouting priority srcnat;
    oifname "{outside}" snat ip to meta l4proto . ip saddr . th sport map @mappings
    oifname "{outside}" masquerade fully-random
  }}
  chain remembered {{
    type filter hook postrouting priority 200;
{tcp}{udp}  }}
  chain forwarded {{
    type filter hook forward priority filter;
    iifname "{outside}" ct status dnat accept
    iifname "{outside}" ct state new drop
  }}
}}
"#
    )
}

/// Each connection gets a random port of its own (address and port-dependent mapping), and the kernel lets in only what
/// belongs to one (address and port-dependent filtering).
fn symmetric(outside: &str) -> String {
    format!(
        r#"table ip nat {{
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

#[cfg(test)]
mod tests;
