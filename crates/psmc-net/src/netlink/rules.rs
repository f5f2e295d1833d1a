//! Policy routing: rules that say which table a packet's route is looked up in.
//!
//! Routes of the main table.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::errno::Errno;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

use super::{Changes, Netlink, NetlinkError, is_errno, refused};

/// The main table, in which everybody's routes are.
pub const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// A rule of the kinds that a site makes. The kernel asks them in the order of their priorities, the smallest number first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Its place among all rules.
    pub priority: u32,
    /// Whether it is for IPv6; for IPv4 otherwise.
    pub is_v6: bool,
    /// Which packets it is for.
    pub packets: Packets,
    /// Where their routes are looked up.
    pub table: u32,
    /// Whether a default route that is found there does not count.
    pub without_default: bool,
}

/// A rule of whatever kind, whoever has made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyRule {
    /// Its place among all rules.
    pub priority: u32,
    /// Whether it is for IPv6; for IPv4 otherwise.
    pub is_v6: bool,
    /// Where routes are looked up, if it says so.
    pub table: u32,
    /// The rule as `ip rule` shows it.
    pub text: String,
}

/// The packets that a [`Rule`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packets {
    /// All that do not carry this mark.
    Unmarked(u32),
    /// Those from one address to another; when the kernel looks whether one may have come the way it has, those back.
    Between(Ipv4Addr, Ipv4Addr),
}

impl Netlink {
    /// Makes those rules that `is_ours` picks exactly `wanted`.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn match_rules(
        &self,
        wanted: &BTreeSet<Rule>,
        is_ours: impl Fn(&Rule) -> bool,
    ) -> Result<Changes, NetlinkError> {
        let mut present: BTreeSet<Rule> = BTreeSet::new();
        let mut changes = Changes::default();
        for rule in self.rules().await?.into_iter().filter(is_ours) {
            // The kernel lets a rule stand twice.
            if !wanted.contains(&rule) || present.contains(&rule) {
                self.remove_rule(&rule).await?;
                changes.removed += 1;
            } else {
                present.insert(rule);
            }
        }
        for rule in wanted.difference(&present) {
            self.add_rule(rule).await?;
            changes.made += 1;
        }
        Ok(changes)
    }

    /// All rules, in the order in which they are asked, those of IPv4 first.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn all_rules(&self) -> Result<Vec<AnyRule>, NetlinkError> {
        Ok(self.dump_rules().await?.iter().map(any_rule).collect())
    }

    /// All rules of the kinds that a [`Rule`] can be.
    async fn rules(&self) -> Result<Vec<Rule>, NetlinkError> {
        Ok(self.dump_rules().await?.iter().filter_map(rule_of).collect())
    }

    async fn dump_rules(&self) -> Result<Vec<RuleMessage>, NetlinkError> {
        let mut rules = Vec::new();
        for version in [IpVersion::V4, IpVersion::V6] {
            let dump: Result<Vec<RuleMessage>, _> =
                self.handle.rule().get(version).execute().try_collect().await;
            match dump {
                // A kernel without IPv6.
                Err(error)
                    if is_errno(&error, Errno::EOPNOTSUPP) || is_errno(&error, Errno::EAFNOSUPPORT) => {}
                dump => {
                    rules.extend(dump.map_err(refused(|| "list the routing rules".to_owned()))?);
                }
            }
        }
        Ok(rules)
    }

    async fn add_rule(&self, rule: &Rule) -> Result<(), NetlinkError> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = message_of(rule);
        match request.execute().await {
            // Somebody was faster.
            Err(error) if is_errno(&error, Errno::EEXIST) => Ok(()),
            outcome => outcome.map_err(refused(|| {
                format!("add the routing rule {} for table {}", rule.priority, rule.table)
            })),
        }
    }

    /// Adds a rule by which the routes of what comes in through an interface are looked up in a table. Its priority is the table.
    pub(super) async fn ask_for_those_from(
        &self,
        interface: &str,
        is_v6: bool,
        table: u8,
    ) -> Result<(), NetlinkError> {
        let mut request = self.handle.rule().add();
        let message = request.message_mut();
        message.header.family = if is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.action = RuleAction::ToTable;
        message.header.table = table;
        message.attributes =
            vec![RuleAttribute::Priority(table.into()), RuleAttribute::Iifname(interface.to_owned())];
        let action = || format!("look up what comes from {interface} in table {table}");
        request.execute().await.map_err(refused(action))
    }

    async fn remove_rule(&self, rule: &Rule) -> Result<(), NetlinkError> {
        match self.handle.rule().del(message_of(rule)).execute().await {
            Err(error) if is_errno(&error, Errno::ENOENT) => Ok(()),
            outcome => outcome.map_err(refused(|| {
                format!("remove the routing rule {} for table {}", rule.priority, rule.table)
            })),
        }
    }
}

fn message_of(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.action = RuleAction::ToTable;
    header.table = u8::try_from(rule.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    message.attributes = vec![RuleAttribute::Priority(rule.priority), RuleAttribute::Table(rule.table)];
    match rule.packets {
        Packets::Unmarked(mark) => {
            header.flags = RuleFlags::Invert;
            message.attributes.push(RuleAttribute::FwMark(mark));
        }
        Packets::Between(from, to) => {
            (header.src_len, header.dst_len) = (32, 32);
            message.attributes.push(RuleAttribute::Source(from.into()));
            message.attributes.push(RuleAttribute::Destination(to.into()));
        }
    }
    if rule.without_default {
        message.attributes.push(RuleAttribute::SuppressPrefixLen(0));
    }
    message
}

fn any_rule(message: &RuleMessage) -> AnyRule {
    let header = &message.header;
    let (mut priority, mut table, mut parts) = (0, u32::from(header.table), Vec::new());
    let net = |address: &IpAddr, length: u8| format!("{address}/{length}");
    let is_inverted = header.flags.contains(RuleFlags::Invert);
    for attribute in &message.attributes {
        if let RuleAttribute::Priority(number) = attribute {
            priority = *number;
        } else if let RuleAttribute::Table(number) = attribute {
            table = *number;
        } else if let RuleAttribute::Source(address) = attribute {
            parts.push(format!("from {}", net(address, header.src_len)));
        } else if let RuleAttribute::Destination(address) = attribute {
            parts.push(format!("to {}", net(address, header.dst_len)));
        } else if let RuleAttribute::Iifname(name) = attribute {
            parts.push(format!("iif {name}"));
        } else if let RuleAttribute::Oifname(name) = attribute {
            parts.push(format!("oif {name}"));
        } else if let RuleAttribute::FwMark(mark) = attribute {
            parts.push(format!("fwmark {mark:#x}"));
        } else if let RuleAttribute::UidRange(range) = attribute {
            parts.push(format!("uidrange {}-{}", range.start, range.end));
        }
    }
    let packets = if parts.is_empty() { "from all".to_owned() } else { parts.join(" ") };
    let packets = if is_inverted { format!("not {packets}") } else { packets };
    let named = [
        (RuleAction::ToTable, format!("lookup {table}")),
        (RuleAction::Goto, "goto".to_owned()),
        (RuleAction::Blackhole, "blackhole".to_owned()),
        (RuleAction::Unreachable, "unreachable".to_owned()),
        (RuleAction::Prohibit, "prohibit".to_owned()),
    ];
    let action = named.into_iter().find(|(action, _)| *action == header.action);
    let action = action.map_or_else(|| "nop".to_owned(), |(_, word)| word);
    let is_v6 = header.family == AddressFamily::Inet6;
    AnyRule { priority, is_v6, table, text: format!("{priority}: {packets} {action}") }
}

/// `None` for a rule of another kind.
fn rule_of(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let mut table = u32::from(header.table);
    let (mut priority, mut mark, mut from, mut to, mut suppressed) = (0, None, None, None, None);
    for attribute in &message.attributes {
        if let RuleAttribute::Priority(number) = attribute {
            priority = *number;
        } else if let RuleAttribute::Table(number) = attribute {
            table = *number;
        } else if let RuleAttribute::FwMark(number) = attribute {
            mark = Some(*number);
        } else if let RuleAttribute::Source(IpAddr::V4(address)) = attribute {
            from = Some(*address);
        } else if let RuleAttribute::Destination(IpAddr::V4(address)) = attribute {
            to = Some(*address);
        } else if let RuleAttribute::SuppressPrefixLen(length) = attribute {
            // All ones stands for none.
            suppressed = Some(*length).filter(|length| *length != u32::MAX);
        }
    }
    let packets = match (header.flags.contains(RuleFlags::Invert), mark, from, to) {
        (true, Some(mark), None, None) => Packets::Unmarked(mark),
        (false, None, Some(from), Some(to)) => Packets::Between(from, to),
        _ => return None,
    };
    let is_v6 = header.family == AddressFamily::Inet6;
    Some(Rule { priority, is_v6, packets, table, without_default: suppressed == Some(0) })
}

impl Netlink {
    /// Routes `destination` into interface `index`, without a next hop, in the main table.
    ///
    /// # Errors
    /// What the kernel says; another route to the same destination and with the same metric is never replaced.
    pub async fn add_route(&self, destination: IpNet, index: u32) -> Result<(), NetlinkError> {
        let request = self.handle.route().add(on_link(destination, index));
        request.execute().await.map_err(refused(|| format!("route {destination} into interface {index}")))
    }

    /// Routes `destination` to the next hop `gateway`, in the main table, with the kernel's metric if none is given.
    ///
    /// # Errors
    /// What the kernel says: most often, that no route leads to the gateway.
    pub async fn add_gateway_route(
        &self,
        destination: IpNet,
        gateway: IpAddr,
        metric: Option<u32>,
    ) -> Result<(), NetlinkError> {
        let mut route = towards(destination);
        route.attributes.extend(metric.map(RouteAttribute::Priority));
        route.attributes.push(RouteAttribute::Gateway(gateway.into()));
        let request = self.handle.route().add(route);
        request.execute().await.map_err(refused(|| format!("route {destination} via {gateway}")))
    }

    /// Takes back [`add_route`](Self::add_route). A route that is gone, say with its interface, is no error.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn remove_route(&self, destination: IpNet, index: u32) -> Result<(), NetlinkError> {
        match self.handle.route().del(on_link(destination, index)).execute().await {
            Err(error) if is_errno(&error, Errno::ESRCH) || is_errno(&error, Errno::ENODEV) => Ok(()),
            outcome => {
                outcome.map_err(refused(|| format!("remove the route {destination} from interface {index}")))
            }
        }
    }

    /// Whether packets to `address` are for this host.
    pub(super) async fn is_local(&self, address: IpAddr) -> bool {
        let request = self.handle.route().get(towards(IpNet::from(address)));
        let mut routes = pin!(request.execute());
        matches!(routes.try_next().await, Ok(Some(route)) if route.header.kind == RouteType::Local)
    }
}

fn on_link(destination: IpNet, index: u32) -> RouteMessage {
    let mut route = towards(destination);
    route.header.scope = RouteScope::Link;
    route.attributes.push(RouteAttribute::Oif(index));
    route
}

pub(super) fn towards(destination: IpNet) -> RouteMessage {
    let mut route = RouteMessageBuilder::<IpAddr>::new().build();
    route.header.address_family = match destination {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    route.header.destination_prefix_length = destination.prefix_len();
    route.attributes.push(RouteAttribute::Destination(destination.network().into()));
    route
}
