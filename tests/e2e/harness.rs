//! Two hosts, the links between them, a daemon on each, and what the tests do to them.

mod browser;
mod bulk;
mod capture;
mod chain;
mod download;
mod flows;
mod iperf;
mod keyboard;
mod name_server;
mod nginx;
mod plan;
mod relay;
mod relays;
mod site;
mod stranger;
mod stream;
mod tap;
mod traces;
mod trickle;
mod tunnel;
mod tunnel_end;
mod wiretap;

pub(crate) use browser::{Browser, Screen};
pub(crate) use bulk::Bulk;
pub(crate) use capture::Capture;
pub(crate) use chain::{Chain, RELAYS, SERVICE, hidden_line, known_line, operators, relay_address};
pub(crate) use download::download;
pub(crate) use flows::Flows;
pub(crate) use iperf::{iperf, iperf_on, iperf_within};
pub(crate) use keyboard::Keyboard;
pub(crate) use name_server::NameServer;
pub(crate) use nginx::Nginx;
pub(crate) use plan::{Dials, End, Family, HQ, Plan, VAN, path_name};
pub(crate) use psmc_testbed::poll::wait_for;
pub(crate) use relay::{Forgeries, Relay, Towards};
pub(crate) use relays::{
    Relayed, allow, hq_address, hq_interface, met_address, seen_address, van_address, van_interface,
};
pub(crate) use site::{Site, processor_time, with_cgroups};
pub(crate) use stranger::{ADDRESSES, Stranger, address as stranger_address};
pub(crate) use stream::{Deliveries, Stream, udp_arrives};
pub(crate) use tap::{Tap, contains};
pub(crate) use traces::{Traces, source, ttl};
pub(crate) use trickle::Trickle;
pub(crate) use tunnel::Tunnel;
pub(crate) use tunnel_end::TunnelEnd;
pub(crate) use wiretap::Wiretap;
