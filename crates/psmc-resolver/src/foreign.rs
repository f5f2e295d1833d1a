//! Addresses that no name of others may have here: those of this machine, and of its networks.
//!
//! A page whose name first has an address of its server and then one of this network can speak to what is there as if it were its own
//! (DNS rebinding). So such addresses are left out of answers, but for names of which it is known that they are here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::Name;

use super::reply::Reply;
use super::service::has_hint;

/// An answer without records that lead here from names that are not under any of `own`.
pub(super) fn without(mut reply: Reply, own: &[Name]) -> Reply {
    let before = reply.records().count();
    for section in [&mut reply.answers, &mut reply.authorities, &mut reply.additionals] {
        section.retain(|record| {
            let leads_here = record.data.ip_addr().is_some_and(is_here) || has_hint(record, is_here);
            !leads_here || own.iter().any(|name| name.zone_of(&record.name))
        });
    }
    // What is missing is proved by nobody.
    reply.authentic &= reply.records().count() == before;
    reply
}

/// Whether an address is of this machine, or of a network that is not the Internet (RFC 6890).
fn is_here(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || first == 0
                || is_shared
                || ip == Ipv4Addr::BROADCAST
        }
        IpAddr::V6(ip) => {
            ip == Ipv6Addr::UNSPECIFIED
                || ip.is_loopback()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use psmc_dns::zone::read_zone_text;

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn left(answers: &str, own: &[&str]) -> Vec<String> {
        let text = format!("$TTL 300\n{answers}");
        let records = read_zone_text(text.as_bytes(), &name("example.")).unwrap();
        let own: Vec<Name> = own.iter().map(|text| name(text)).collect();
        let reply = without(Reply { authentic: true, ..Reply::of_records(records) }, &own);
        assert_eq!(reply.authentic, reply.answers.len() == answers.lines().count());
        reply.answers.iter().map(|record| format!("{} {}", record.name, record.record_type())).collect()
    }

    #[test]
    fn nothing_of_others_leads_here() {
        for ip in
            ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.0.1", "169.254.1.1", "0.0.0.0", "100.64.0.1"]
        {
            assert!(left(&format!("a A {ip}"), &[]).is_empty(), "{ip}");
            assert!(left(&format!("a AAAA ::ffff:{ip}"), &[]).is_empty(), "{ip}");
            assert!(left(&format!("a HTTPS 1 . ipv4hint=192.0.2.1,{ip}"), &[]).is_empty(), "{ip}");
        }
        for ip in ["::", "::1", "fd77::1", "fe80::1"] {
            assert!(left(&format!("a AAAA {ip}"), &[]).is_empty(), "{ip}");
        }
        let whole = "a A 192.0.2.1\nb AAAA 2001:db8::1\nc A 172.32.0.1\nd A 100.128.0.1\ne TXT 10.0.0.1\nf HTTPS 1 . alpn=h2";
        assert_eq!(left(whole, &[]).len(), 6);
        assert_eq!(left("a CNAME b\nb A 10.0.0.1\nb A 192.0.2.1", &[]), ["a.example. CNAME", "b.example. A"]);
    }

    #[test]
    fn names_of_this_network_do() {
        assert_eq!(left("a A 10.0.0.1\nb.a A 10.0.0.2\nxa A 10.0.0.3", &["a.example."]).len(), 2);
        assert_eq!(left("a A 10.0.0.1\nb AAAA fd77::1", &["."]).len(), 2);
    }
}
