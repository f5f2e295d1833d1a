//! Names of peers and relays, resolved outside the tunnel.
//!
//! The system's resolver asks from sockets that carry no mark: with a default route behind a peer its questions would go into
//! the tunnel that cannot be before they are answered. So the name servers are asked from here, by marked sockets, over every
//! uplink; only a name that they do not know is left to the system, which may have it from elsewhere.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use psmc_net::netlink::Netlink;
use psmc_net::udp::{connect_udp, source_address};
use psmc_service::name_servers;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The names that the host has of its own.
const HOSTS: &str = "/etc/hosts";

/// The name servers: those of the system, and behind a local one of systemd-resolved those that it asks.
const SERVERS: &str = "/etc/resolv.conf";
const SERVERS_BEHIND_RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// Further name servers, and further uplinks, are asked so much later each, as long as there is no answer.
const STAGGER: Duration = Duration::from_millis(150);

/// A question is asked again after this time, in which most answers come.
const AGAIN: Duration = Duration::from_millis(800);

/// An address of one version waits so long for those of the other (RFC 8305, section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// How long the name servers have to answer, and how long the system's resolver.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(2500);

/// The largest answer over UDP that is asked for.
const MAX_ANSWER: usize = 1232;

/// The port of name servers.
const PORT: u16 = 53;

/// The addresses of a name, those first to which a route leads.
pub(crate) async fn lookup(name: &str, port: u16) -> Vec<SocketAddr> {
    let mut found = from_hosts(&read(HOSTS), name);
    if found.is_empty() && is_public(name) {
        found = timeout(LOOKUP_TIMEOUT, ask_all(name)).await.unwrap_or_default();
    }
    let mut found: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
    if found.is_empty()
        && let Ok(Ok(addresses)) = timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((name, port))).await
    {
        found = addresses.collect();
    }
    found.sort_by_cached_key(|remote| source_address(None, *remote).is_err());
    found
}

/// Whether it is name servers that know the name: not one of this network (RFC 6762), or one that a search list completes.
fn is_public(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.contains('.') && !name.ends_with(".local")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// What hosts(5) says of a name.
fn from_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(address).collect()
}

/// The name servers of resolv.conf(5), but for those on this host, which ask others by sockets of their own.
fn servers_of(text: &str) -> BTreeSet<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next()? == "nameserver";
        words.next()?.parse().ok().filter(|server: &IpAddr| is_server && !server.is_loopback())
    };
    text.lines().filter_map(server).collect()
}

/// Asks all name servers, first as the routes say, then over each uplink.
async fn ask_all(name: &str) -> Vec<IpAddr> {
    // Those of `dns` are in the tunnel, and counted for nothing before it was there.
    let before = name_servers::earlier(Path::new(SERVERS));
    let mut servers = servers_of(&std::fs::read_to_string(before).unwrap_or_default());
    if servers.is_empty() {
        servers = servers_of(&read(SERVERS_BEHIND_RESOLVED));
    }
    let Some(name) = complete(name) else { return Vec::new() };
    let mut exits = vec![None];
    if let Ok(netlink) = Netlink::new() {
        let uplinks = netlink.uplinks(&[]).await.unwrap_or_default();
        exits.extend(uplinks.into_iter().map(|uplink| Some(uplink.name)));
    }
    let mut asked = JoinSet::new();
    let ways = exits.iter().flat_map(|exit| servers.iter().map(move |server| (exit.clone(), *server)));
    for (position, (exit, server)) in (0..).zip(ways) {
        let name = name.clone();
        asked.spawn(async move {
            sleep(STAGGER * position).await;
            ask(&name, server, exit.as_deref()).await
        });
    }
    while let Some(answer) = asked.join_next().await {
        if let Ok(Ok(addresses)) = answer
            && !addresses.is_empty()
        {
            return addresses;
        }
    }
    Vec::new()
}

/// The name as it stands in questions and answers.
fn complete(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// Asks one name server for the addresses of both versions. None if there is none by that name.
async fn ask(name: &Name, server: IpAddr, exit: Option<&str>) -> io::Result<Vec<IpAddr>> {
    let socket = connect_udp(exit, SocketAddr::new(server, PORT))?;
    let socket = UdpSocket::from_std(socket)?;
    let questions = [RecordType::AAAA, RecordType::A].map(|kind| question(name, kind));
    loop {
        for (_, bytes) in &questions {
            socket.send(bytes).await?;
        }
        if let Ok(answer) = timeout(AGAIN, answers(&socket, &questions)).await {
            return answer;
        }
    }
}

type Question = (Message, Vec<u8>);

fn question(name: &Name, kind: RecordType) -> Question {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    let bytes = message.to_vec().unwrap_or_default();
    (message, bytes)
}

/// Waits until both questions are answered, or one is and the other takes its time.
async fn answers(socket: &UdpSocket, questions: &[Question]) -> io::Result<Vec<IpAddr>> {
    let (mut buffer, mut found) = ([0; MAX_ANSWER], Vec::new());
    let mut open: Vec<&Message> = questions.iter().map(|(message, _)| message).collect();
    while !open.is_empty() {
        let received = socket.recv(&mut buffer);
        let length = if found.is_empty() {
            received.await?
        } else {
            let Ok(length) = timeout(RESOLUTION_DELAY, received).await else { break };
            length?
        };
        let Ok(answer) = Message::from_vec(&buffer[..length]) else { continue };
        let fits = |asked: &&Message| asked.id == answer.id && asked.queries == answer.queries;
        let Some(place) = open.iter().position(fits) else { continue };
        open.remove(place);
        found.extend(answer.answers.iter().filter_map(|record| address_in(&record.data)));
    }
    Ok(found)
}

fn address_in(data: &RData) -> Option<IpAddr> {
    if let RData::A(address) = data {
        Some(Ipv4Addr::from(*address).into())
    } else if let RData::AAAA(address) = data {
        Some(Ipv6Addr::from(*address).into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_found_by_all_their_names() {
        let text = "127.0.0.1 localhost\n# 10.0.0.1 hq\n10.0.0.2\thq.example HQ # hq2\nfd00::2 hq\nbad hq\n";
        assert_eq!(from_hosts(text, "hq"), [ip("10.0.0.2"), ip("fd00::2")]);
        assert_eq!(from_hosts(text, "hq.example."), [ip("10.0.0.2")]);
        assert!(from_hosts(text, "hq2").is_empty());
    }

    #[test]
    fn servers_on_this_host_are_not_asked() {
        let text = "nameserver 127.0.0.53\nnameserver 192.0.2.53\noptions edns0\n;nameserver 192.0.2.54\n";
        assert_eq!(servers_of(text), BTreeSet::from([ip("192.0.2.53")]));
    }

    #[test]
    fn name_servers_are_asked_for_what_they_can_know() {
        assert!(is_public("hq.example"));
        assert!(!is_public("hq") && !is_public("printer.local") && !is_public("localhost."));
    }

    #[tokio::test]
    async fn both_versions_are_asked_for_and_answers_to_other_questions_do_not_count() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(server.local_addr().unwrap()).await.unwrap();
        server.connect(client.local_addr().unwrap()).await.unwrap();
        let name = complete("hq.example").unwrap();
        let questions = [RecordType::AAAA, RecordType::A].map(|kind| question(&name, kind));
        let reply = |asked: &Message, id: u16, data: RData| {
            // As it comes over the wire.
            let mut reply = Message::from_vec(&asked.to_vec().unwrap()).unwrap();
            reply.metadata.id = id;
            let record = hickory_proto::rr::Record::from_rdata(name.clone(), 60, data);
            reply.add_answer(record);
            reply.to_vec().unwrap()
        };
        let a = |last| RData::A(Ipv4Addr::new(192, 0, 2, last).into());
        let [(aaaa_question, _), (a_question, _)] = &questions;
        let forged = a_question.id.wrapping_add(1);
        server.send(&reply(a_question, forged, a(66))).await.unwrap();
        server.send(&reply(a_question, a_question.id, a(5))).await.unwrap();
        let six = RData::AAAA(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5).into());
        server.send(&reply(aaaa_question, aaaa_question.id, six)).await.unwrap();
        let found = answers(&client, &questions).await.unwrap();
        assert_eq!(found, [ip("192.0.2.5"), ip("2001:db8::5")]);
    }
}
